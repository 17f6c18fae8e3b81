"""The loop settles conflicts after they are durable, in the process that has the secret."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply, Command, Complete, Resolve, Submit, Tick
from quorate.core.preemption.lottery import chain_before, chain_link
from quorate.ledger.chain import GENESIS, Block, Head, open_block
from quorate.loop.driver import Driver
from quorate.loop.engine import Engine
from quorate.loop.preimages import STRETCH, Preimages
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    ConflictDeclared,
    ConflictOutcome,
    ConflictResolved,
    Event,
    LotteryCommitted,
)
from quorate.model.specs import Owner
from quorate.ports.errors import StoreDownError, UnsureAppendError
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import LOTTERY_LENGTH, LOTTERY_SECRET, HandClock, memory_engine

RESOLVE = Resolve("default", "H100", (), 4)
WORLD: tuple[Command, ...] = (
    Apply(
        (
            *fleet({"A": 16}),
            Owner(name="ada"),
            Owner(name="ben"),
            budget("ada", "ada", envelope("all", 16)),
            budget("ben", "ben", envelope("all", 16)),
        )
    ),
    Submit(run("a", 8, "ada", expected_duration_ms=900 * HOUR_MS)),
    Submit(run("b", 8, "ben", expected_duration_ms=900 * HOUR_MS)),
)


def contested(store: MemoryStore, clock: HandClock) -> Engine:
    """Return an engine with a conflict that is not due yet."""
    engine = memory_engine(store, clock)
    for command in WORLD:
        assert not engine.execute(command, actor="test").decision.refusals
    clock.ms += 2 * HOUR_MS
    assert not engine.execute(RESOLVE, actor="test").decision.refusals
    return engine


def blocks(store: MemoryStore) -> list[list[Event]]:
    """Return the events of the ledger, block by block."""
    found: list[list[Event]] = []
    head = GENESIS
    for block in store.blocks():
        found.append(open_block(block, after=head))
        head = block.head
    return found


def test_the_chain_is_committed_with_the_first_event() -> None:
    store = MemoryStore()
    memory_engine(store)
    first = blocks(store)[0]
    committed = first[1]
    assert isinstance(committed, LotteryCommitted)
    assert committed.length == LOTTERY_LENGTH
    assert bytes.fromhex(committed.commitment) == chain_link(
        LOTTERY_SECRET, 0, length=LOTTERY_LENGTH
    )


def test_nothing_is_recorded_after_a_refusal_even_when_a_draw_is_due() -> None:
    store, clock = MemoryStore(), HandClock()
    engine = contested(store, clock)
    clock.ms += HOUR_MS
    head = engine.head
    assert engine.execute(Complete("nobody"), actor="test").decision.refusals
    assert engine.head == head
    assert not engine.execute(Tick(), actor="test").decision.refusals
    assert isinstance(blocks(store)[-1][0], ConflictResolved)


def test_a_conflict_is_settled_when_due_in_a_block_of_its_own() -> None:
    store, clock = MemoryStore(), HandClock()
    engine = contested(store, clock)
    declared = blocks(store)[-1][0]
    assert isinstance(declared, ConflictDeclared)
    engine.execute(Tick(), actor="test")
    assert engine.view.open_conflicts
    clock.ms = declared.due_ms
    receipt = engine.execute(Tick(), actor="test")
    assert receipt.decision.events == ()
    *_, before, last = blocks(store)
    assert before[-1] == declared
    resolved = last[0]
    assert isinstance(resolved, ConflictResolved)
    assert resolved.outcome is ConflictOutcome.CLEARED
    assert chain_before(bytes.fromhex(resolved.preimage)).hex() == declared.commitment
    assert not engine.view.open_conflicts


class LeavingStore(MemoryStore):
    """A shared store that fails during append number ``last``, counted from 1."""

    last = 0

    def append(self, block: Block, *, expected: Head) -> None:
        self.last -= 1
        if self.last == 0:
            raise UnsureAppendError(block.head, "no answer")
        super().append(block, expected=expected)

    def blocks(self, *, from_height: int = 1) -> Iterator[Block]:
        if self.last == 0:
            raise StoreDownError("no answer")
        return super().blocks(from_height=from_height)


def test_a_recorded_command_is_answered_although_the_store_leaves_before_a_draw() -> None:
    store, clock = LeavingStore(is_shared=True), HandClock()
    engine = contested(store, clock)
    clock.ms += HOUR_MS
    store.last = 2
    receipt = engine.execute(Submit(run("c", 1, "ada")), actor="test")
    assert receipt.decision.events
    assert store.head() == receipt.head
    with pytest.raises(StoreDownError):
        assert engine.view.open_conflicts
    store.last = -1
    assert engine.view.open_conflicts
    engine.execute(Tick(), actor="test")
    assert not engine.view.open_conflicts


def test_the_driver_wakes_for_a_conflict_and_settles_it() -> None:
    store, clock = MemoryStore(), HandClock()
    engine = contested(store, clock)
    driver = Driver(engine)
    due_ms = driver.step()
    assert due_ms == clock.ms + 15 * MINUTE_MS
    clock.ms = due_ms
    later = driver.step()
    assert not engine.view.open_conflicts
    assert later is None or later > clock.ms


@pytest.mark.parametrize("secret", [None, b"?" * 32])
def test_without_the_secret_a_conflict_stays_open_and_nobody_spins(
    secret: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    store, clock = MemoryStore(), HandClock()
    contested(store, clock)
    engine = Engine.open(store, clock, lottery_secret=secret)
    clock.ms += HOUR_MS
    driver = Driver(engine)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            due_ms = driver.step()
            assert due_ms is None or due_ms > clock.ms
    assert list(engine.view.open_conflicts) == ["1"]
    assert len([r for r in caplog.records if "stay open" in r.getMessage()]) == 1
    again = Engine.open(store, clock, lottery_secret=LOTTERY_SECRET)
    again.execute(Tick(), actor="test")
    assert not again.view.open_conflicts


def test_an_engine_without_a_secret_makes_a_ledger_without_a_lottery() -> None:
    engine = Engine.create(MemoryStore(), HandClock(), ledger_id="t", public_key="", actor="t")
    for command in WORLD:
        engine.execute(command, actor="test")
    decision = engine.try_out(RESOLVE, actor="test")
    assert decision.refusals[0].code == "not-resolvable"


@pytest.mark.parametrize("length", [1, 7, STRETCH, STRETCH + 1, 3 * STRETCH + 5])
def test_links_are_those_of_the_chain(length: int) -> None:
    preimages = Preimages(LOTTERY_SECRET, length)
    for number in {0, 1, length // 2, length - 1, length, min(STRETCH, length)}:
        assert preimages.link(number) == chain_link(LOTTERY_SECRET, number, length=length)
