"""A read from a leader has everything recorded before, also by programs beside the services."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic

import pytest

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply
from quorate.loop.engine import Engine
from quorate.model.specs import Owner
from quorate.service import ledger_thread as module
from quorate.service.ledger_thread import LedgerThread
from quorate.service.other_writers import HeadLook, HeadWatch, OtherWriters
from quorate.testing.memory_engines import HandClock
from tests.bounds import WAIT_S, until_async
from tests.service.worlds import small_ledger


class PlayedWatch(HeadWatch):
    """A watch whose looks come from a test, without threads. ``asked`` counts requested looks."""

    def __init__(self, seq: int) -> None:
        self._watched_seq = seq
        self.look = HeadLook(seq, monotonic())
        self.asked = 0
        self.tell: Callable[[HeadLook], None] = lambda _: None

    def look_now(self) -> None:
        self.asked += 1

    def play(self, seq: int, asked_s: float | None = None, trouble: str = "") -> None:
        """Report a look, an earlier one from ``asked_s``, or one without an answer."""
        self.look = HeadLook(seq, monotonic() if asked_s is None else asked_s, trouble)
        self.tell(self.look)

    def close(self) -> None:
        """Do nothing."""


class Led(LedgerThread):
    """The thread of a service that leads in ``term``; 0 if it follows."""

    term = 1

    @property
    def held_term(self) -> int:
        return self.term

    def play(self, engine: Engine) -> PlayedWatch:
        """Let the test report all looks at the end of the ledger from now on."""
        watch = PlayedWatch(engine.head.seq)
        watch.tell = lambda look: self._tell(self._looks.came, look)
        self._others = OtherWriters(engine, monotonic(), watch)
        self.is_led = True
        return watch


@asynccontextmanager
async def leading() -> AsyncIterator[tuple[Led, PlayedWatch, Engine]]:
    """Serve a ledger; yield its thread, its watch, and an engine of another program."""
    store = MemoryStore(is_shared=True)
    engine = small_ledger(store)
    served = Led(lambda: engine)
    await served.start()
    watch = served.play(engine)
    try:
        yield served, watch, Engine.open(store, HandClock())
    finally:
        await served.stop()


def test_read_is_confirmed_by_a_look_that_began_after_it() -> None:
    async def scenario() -> None:
        async with leading() as (served, watch, beside):
            before_s = monotonic()
            asking = asyncio.create_task(served.is_confirmed())
            await until_async(lambda: watch.asked, "a look is asked for")
            watch.play(beside.head.seq, before_s)
            await asyncio.sleep(0)
            assert not asking.done(), "that look may have been before another program's append"
            watch.play(beside.head.seq)
            assert await asking

    asyncio.run(scenario())


def test_read_waits_for_what_a_program_beside_the_services_has_recorded() -> None:
    async def scenario() -> None:
        async with leading() as (served, watch, beside):
            beside.execute(Apply((Owner(name="late"),)), actor="test")
            asking = asyncio.create_task(served.is_confirmed())
            await until_async(lambda: watch.asked, "a look is asked for")
            watch.play(beside.head.seq)
            await asyncio.sleep(0)
            assert not asking.done(), "its state has not the new owner"
            await served.run(lambda engine: engine.follow())
            assert await asking
            assert served.recorded_seq == beside.head.seq

    asyncio.run(scenario())


def test_read_is_not_confirmed_where_etcd_does_not_answer() -> None:
    async def scenario() -> None:
        async with leading() as (served, watch, beside):
            asking = asyncio.create_task(served.is_confirmed())
            await until_async(lambda: watch.asked, "a look is asked for")
            watch.play(beside.head.seq, trouble="played: no answer")
            assert not await asking
            asked = watch.asked
            assert not await served.is_confirmed()
            assert watch.asked == asked, "the watch tries again by itself"

    asyncio.run(scenario())


def test_read_is_not_confirmed_where_the_state_is_behind_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CONFIRMED_S_MAX", 0.05)

    async def scenario() -> None:
        async with leading() as (served, watch, beside):
            asking = asyncio.create_task(served.is_confirmed())
            await until_async(lambda: watch.asked, "a look is asked for")
            watch.play(beside.head.seq + 1)
            assert not await asking

    asyncio.run(scenario())


def test_follower_asks_nothing_and_service_that_is_alone_needs_nothing() -> None:
    async def scenario() -> None:
        async with leading() as (served, watch, _):
            served.term = 0
            assert not await served.is_confirmed()
            served.is_led = False
            assert await served.is_confirmed()
            assert watch.asked == 0

    async def within() -> None:
        async with asyncio.timeout(WAIT_S):
            await scenario()

    asyncio.run(within())
