"""Requests to a cluster that wait for their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event, Lock

from hypothesis import given
from hypothesis import strategies as st

from quorate.ports.errors import ClusterDownError, ClusterError
from quorate.service.custom_resources.write_queue import (
    REST_S,
    WRITERS,
    Key,
    Rank,
    Write,
    WriteQueue,
)
from tests.bounds import WAIT_S, until_async


def key(name: str) -> Key:
    return "Run", "n", name


class Made:
    """Requests of a test, which may delay them."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.over: list[tuple[str, str]] = []
        self.most = 0
        self._now: list[str] = []
        self._lock = Lock()
        self.goes_on = Event()

    def call(self, name: str, word: str, *, fails: bool = False) -> Callable[[], object]:
        def make() -> None:
            with self._lock:
                assert name not in self._now, "two requests of one object are under way"
                self._now.append(name)
                self.most = max(self.most, len(self._now))
                self.calls.append(word)
            assert self.goes_on.wait(WAIT_S)
            with self._lock:
                self._now.remove(name)
            if fails:
                raise ClusterDownError("away")

        return make

    def is_over(self, at: Key, write: Write, error: ClusterError | None) -> None:
        assert at[2] == write.shown
        self.over.append((write.shown, str(error or "")))


def put(
    queue: WriteQueue,
    made: Made,
    name: str,
    word: str,
    *,
    rank: Rank = Rank.STATUS,
    fails: bool = False,
) -> float | None:
    return queue.put(key(name), Write(name, rank, made.call(name, word, fails=fails)))


def test_the_newest_of_what_waits_is_made_and_statuses_come_first() -> None:
    made = Made()

    async def play() -> None:
        queue = WriteQueue(made.is_over)
        for number in range(WRITERS):
            put(queue, made, f"first-{number}", "first")
        await until_async(lambda: len(made.calls) == WRITERS, "all writers are at work")
        put(queue, made, "first-0", "never: one of it is under way")
        put(queue, made, "a", "figures of a", rank=Rank.FIGURES)
        put(queue, made, "b", "old status of b")
        put(queue, made, "c", "lease", rank=Rank.OWN_OBJECT)
        put(queue, made, "b", "status of b")
        put(queue, made, "d", "finalizer of d", rank=Rank.FINALIZER)
        put(queue, made, "a", "status of a")
        assert queue.known(key("d")) is not None
        assert len(queue) == WRITERS + 4
        made.goes_on.set()
        await until_async(lambda: len(queue) == 0, "all is made")
        await queue.close()

    asyncio.run(play())
    assert sorted(made.calls[WRITERS:]) == sorted(
        ["status of b", "status of a", "finalizer of d", "lease"]
    )
    assert made.most <= WRITERS


def test_what_has_failed_rests_longer_each_time_and_others_do_not_wait_for_it() -> None:
    made = Made()
    made.goes_on.set()
    now_s = 100.0

    async def play() -> None:
        nonlocal now_s
        queue = WriteQueue(made.is_over, lambda: now_s)
        assert put(queue, made, "a", "fails", fails=True) is None
        await until_async(lambda: made.over == [("a", "away")], "the failure is reported")
        assert put(queue, made, "a", "too early") == 100.0 + REST_S
        assert put(queue, made, "b", "others") is None
        assert queue.rested_in_s() == REST_S
        now_s += REST_S
        assert queue.rested_in_s() is None
        assert put(queue, made, "a", "again", fails=True) is None
        await until_async(lambda: made.over.count(("a", "away")) == 2, "it fails again")
        assert put(queue, made, "a", "too early") == now_s + 2 * REST_S
        await queue.close()

    asyncio.run(play())
    assert sorted(made.calls) == ["again", "fails", "others"]


@given(
    words=st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(list(Rank))), min_size=1, max_size=30
    )
)
def test_the_last_word_of_each_object_is_made_and_no_other(words: list[tuple[str, Rank]]) -> None:
    made = Made()

    async def play() -> None:
        queue = WriteQueue(made.is_over)
        for number in range(WRITERS):
            put(queue, made, f"first-{number}", "first")
        for number, (name, rank) in enumerate(words):
            put(queue, made, name, f"{name}{number}", rank=rank)
        made.goes_on.set()
        await until_async(lambda: len(queue) == 0, "all is made")
        await queue.close()

    asyncio.run(play())
    last = {name: f"{name}{number}" for number, (name, _) in enumerate(words)}
    assert sorted(made.calls) == sorted([*last.values(), *["first"] * WRITERS])
    assert len(made.over) == len(made.calls)
