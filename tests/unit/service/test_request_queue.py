"""The queue before the ledger thread: whose turn it is, and how many requests are taken at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from quorate.loop.engine import Engine
from quorate.operations.batch_bounds import LARGE, is_large
from quorate.operations.caller import Caller, Role
from quorate.operations.resources.run_operations import SubmitRuns
from quorate.service.request_queue import Line, QueuedRequest


def request(
    tenant: str, name: str, documents: int = 1, do: Callable[[Engine], Any] | None = None
) -> QueuedRequest:
    """Return the submit of a batch; ``name`` is its actor. With ``do`` it is another request."""
    caller = Caller(actor=name, role=Role.USER, user=f"u-{tenant}", tenant=tenant)
    asked = SubmitRuns(documents=({},) * documents)
    done: Any = Future[Any]()
    return QueuedRequest(done, do, caller, None, asked)


def names(queued_requests: list[QueuedRequest]) -> list[str]:
    return [queued.caller.actor for queued in queued_requests if queued.caller is not None]


def line_of(*queued_requests: QueuedRequest) -> Line:
    line = Line(100)
    for queued in queued_requests:
        line.put(queued)
    return line


def test_what_is_put_back_is_next_and_tenants_keep_their_turns() -> None:
    line = line_of(*(request("a", f"a{number}") for number in range(3)), request("b", "b0"))
    taken = line.submits(100)
    assert names(taken) == ["a0", "b0", "a1", "a2"]
    line.put(request("c", "c0"))
    line.put_back(taken[1:])
    assert len(line) == 4
    assert names(line.submits(100)) == ["b0", "a1", "c0", "a2"]
    assert len(line) == 0


def test_submits_are_taken_by_their_runs() -> None:
    line = line_of(request("a", "a0", 60), request("a", "a1", 60), request("a", "a2", 60))
    assert names(line.submits(100)) == ["a0", "a1"]
    assert names(line.submits(100)) == ["a2"]


def test_all_who_wait_are_taken_at_the_end() -> None:
    line = line_of(request("a", "a0"), request("a", "a1"))
    line.put(request("b", "b0", do=id))
    line.put(request("c", "c0", 300, do=id))
    assert names(line.rest()) == ["a0", "a1", "b0", "c0"]
    assert len(line) == 0


def test_large_requests_wait_apart_and_take_turns() -> None:
    line = line_of(
        *(request("a", f"a{number}", LARGE + 1) for number in range(2)),
        request("b", "b0", LARGE + 1, do=id),
        request("c", "c0", do=id),
    )
    assert not line.submits(512)
    assert names([found for _ in range(2) if (found := line.other())]) == ["c0"]
    assert names([found for _ in range(4) if (found := line.large())]) == ["a0", "b0", "a1"]
    assert len(line) == 0


def _malleable(least: object, most: object, step: object) -> dict[str, object]:
    return {"spec": {"malleable": {"minTotalGPUs": least, "maxTotalGPUs": most, "stepGPUs": step}}}


@pytest.mark.parametrize(
    ("documents", "large"),
    [
        ([{}] * LARGE, False),
        ([{}] * (LARGE + 1), True),
        ([_malleable(1, LARGE, 1)], False),
        ([_malleable(1, LARGE + 1, 1)], True),
        ([_malleable(8, 8 * LARGE + 8, 8)], True),
        ([_malleable(0, 8, 0), _malleable("x", None, []), {"spec": []}, None, 7], False),
        ([_malleable(9, 1, 1)] * (LARGE + 1), True),
    ],
)
def test_what_is_large_counts_the_widths_that_documents_say(
    documents: list[object], *, large: bool
) -> None:
    assert is_large(documents) is large
