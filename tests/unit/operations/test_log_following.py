"""Following output: every line once and in order, and an end only when the run is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.operations.fleet.log_following import LogFollower
from quorate.ports.log_port import Line, Output, Stream
from quorate.ports.step_report import StepReport


@dataclass
class GrowingLogs:
    """Output in memory; ``limit`` lines at most are returned at a time, as by a port."""

    texts: list[str] | None = None
    kept_from: int = 0
    asked: list[int] = field(default_factory=list)

    def read(self, run: str, *, first: int, limit: int) -> Output | None:
        del run
        self.asked.append(first)
        if self.texts is None:
            return None
        begins = max(first, self.kept_from)
        lines = [_line(text) for text in self.texts[begins : begins + limit]]
        is_last = begins + limit >= len(self.texts)
        return Output(lines=lines, first=begins, is_last=is_last)

    def end(self, run: str) -> int:
        del run
        return len(self.texts or ())

    def reports(self, run: str) -> list[StepReport]:
        del run
        return []


def _line(text: str) -> Line:
    return Line(at_ms=0, node="n", rank=0, stream=Stream.OUT, text=text)


class Followed(LogFollower):
    """A follower whose run is over when a test says so."""

    def finish(self) -> None:
        self._is_run_over = True


@pytest.mark.heavy
@given(parts=st.lists(st.integers(0, 2_500), max_size=4), first=st.integers(0, 3))
def test_every_line_comes_once_whatever_is_written_between_two_looks(
    parts: Sequence[int], first: int
) -> None:
    logs, texts = GrowingLogs(), list[str]()
    follower = Followed(logs, "r", first)
    found: list[str] = []

    def read_all() -> None:
        while not follower.is_over and (tree := follower.read()) is not None:
            assert len(tree["lines"]) <= 1_000
            assert tree["next"] == follower.next
            found.extend(line["text"] for line in tree["lines"])

    for count in parts:
        texts += [f"line {len(texts) + number}" for number in range(count)]
        logs.texts = texts
        read_all()
        assert not follower.is_over
    follower.finish()
    read_all()
    assert follower.is_over
    assert found == texts[first:]


def test_lines_that_are_not_kept_any_more_are_passed_by() -> None:
    follower = Followed(GrowingLogs(["a", "b", "c"], kept_from=1), "r", 0)
    tree = follower.read()
    assert tree is not None
    assert [line["number"] for line in tree["lines"]] == [1, 2]
    assert follower.read() is None


def test_a_run_that_never_wrote_anything_ends_without_lines() -> None:
    follower = Followed(GrowingLogs(), "r", 0)
    assert follower.read() is None
    follower.finish()
    tree = follower.read()
    assert tree is not None
    assert (tree["lines"], tree["next"], tree["ended"]) == ([], 0, True)
