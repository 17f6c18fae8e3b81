"""A read of a leader shows nothing that the next read of the same leader could not show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply
from quorate.loop.engine import Engine
from quorate.model.specs import Owner
from quorate.operations.resources.resource_operations import GetThing
from quorate.operations.table import OPERATIONS
from quorate.service import ledger_thread as module
from quorate.service.ledger_thread import LedgerThread
from quorate.testing.memory_engines import HandClock
from quorate.views.exits import CommandError
from tests.bounds import WAIT_S, until_async
from tests.service.worlds import ADMIN, small_ledger

OWNER = OPERATIONS["get-owner"]
LATE = GetThing(name="late")


class Led(LedgerThread):
    """The thread of a service that leads in ``term``; 0 if it follows.

    ``waits`` says whether a read has waited for a block.
    """

    term = 0
    waits = False

    @property
    def held_term(self) -> int:
        return self.term

    async def reached(self, seq: int, within_s: float) -> bool:
        self.waits = self.recorded_seq < seq
        return await super().reached(seq, within_s)


@asynccontextmanager
async def serving_behind(term: int) -> AsyncIterator[Led]:
    """Serve a ledger whose readers have one block more than its thread.

    So it is while etcd has recorded a block, and its answer is under way.
    """
    store = MemoryStore()
    engine = small_ledger(store)
    ahead = MemoryStore(store.blocks())
    Engine.open(ahead, HandClock()).execute(Apply((Owner(name="late"),)), actor="test")
    served = Led(lambda: engine, reading=lambda: ahead)
    await served.start()
    served.is_led, served.term = True, term
    try:
        yield served
    finally:
        await served.stop()


@pytest.fixture(autouse=True)
def no_long_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLED_S_MAX", 0.05)


def test_leader_does_not_show_a_block_that_is_not_known_to_be_recorded() -> None:
    async def scenario() -> None:
        async with serving_behind(term=1) as served:
            with pytest.raises(CommandError) as caught:
                await served.ask(ADMIN, OWNER, LATE)
            assert caught.value.fault == "unavailable"
            missing = GetThing(name="nobody")
            with pytest.raises(CommandError) as caught:
                await served.ask(ADMIN, OWNER, missing)
            assert caught.value.fault == "unavailable", "a refusal shows that block, too"

    asyncio.run(scenario())


def test_leader_answers_as_soon_as_the_block_is_known_to_be_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SETTLED_S_MAX", WAIT_S)

    async def scenario() -> None:
        async with serving_behind(term=1) as served:
            asking = asyncio.create_task(served.ask(ADMIN, OWNER, LATE))
            await until_async(lambda: served.waits, "a reader has answered")
            assert not asking.done()
            await served.run(
                lambda engine: engine.execute(Apply((Owner(name="late"),)), actor="test")
            )
            assert (await asking).tree["metadata"]["name"] == "late"

    asyncio.run(scenario())


def test_follower_shows_what_it_has_with_its_age() -> None:
    async def scenario() -> None:
        async with serving_behind(term=0) as served:
            assert (await served.ask(ADMIN, OWNER, LATE)).tree["metadata"]["name"] == "late"

    asyncio.run(scenario())
