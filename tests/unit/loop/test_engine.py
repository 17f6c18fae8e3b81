"""The engine: decides in order, commits together, and answers only when durable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply, Cancel, Complete, Submit
from quorate.ledger.archive import ArchivedRow
from quorate.ledger.chain import Block, Head
from quorate.loop.engine import Engine
from quorate.model.specs import Owner
from quorate.model.state.records import Phase
from quorate.ports.errors import LedgerEmptyError, StoreBusyError, StoreFullError
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from quorate.testing.memory_engines import HandClock, memory_engine
from quorate.testing.states import same

FLEET = Apply((*fleet({"A": 16}), Owner(name="team"), budget("b", "team", envelope("e", 16))))


class FullStore(MemoryStore):
    """A store whose disk can be full, for blocks or for snapshots."""

    blocks_fail = False
    reads_fail = False
    snapshots_fail = False
    interrupts = False

    def append(self, block: Block, *, expected: Head) -> None:
        if self.interrupts:
            raise KeyboardInterrupt
        if self.blocks_fail:
            raise StoreFullError("no space left")
        super().append(block, expected=expected)

    def blocks(self, *, from_height: int = 1) -> Iterator[Block]:
        if self.reads_fail:
            raise StoreBusyError("locked")
        return super().blocks(from_height=from_height)

    def save_snapshot(
        self,
        head: Head,
        payload: bytes,
        ended: Iterable[ArchivedRow] = (),
        *,
        base_seq: int = 0,
    ) -> None:
        if self.snapshots_fail:
            raise StoreFullError("no space left")
        super().save_snapshot(head, payload, ended, base_seq=base_seq)


def new_engine(store: MemoryStore | None = None, clock: HandClock | None = None) -> Engine:
    engine = memory_engine(store, clock)
    engine.execute(FLEET, actor="test")
    return engine


def test_commands_of_a_group_see_each_other_and_share_a_block() -> None:
    engine = new_engine()
    before = engine.head
    receipts = engine.execute_all(
        [Submit(run("a", 16)), Submit(run("b", 16)), Cancel("a")], actor="test"
    )
    assert engine.head.height == before.height + 1
    assert {receipt.head for receipt in receipts} == {engine.head}
    assert engine.view.runs["b"].phase is Phase.RUNNING


def test_a_refused_command_records_nothing_and_hinders_nobody() -> None:
    engine = new_engine()
    refused, accepted = engine.execute_all([Complete("nobody"), Submit(run("a", 1))], actor="test")
    assert refused.decision.refusals
    assert not refused.decision.events
    assert not accepted.decision.refusals
    head = engine.head
    engine.execute(Complete("nobody"), actor="test")
    assert engine.head == head


def test_what_could_not_be_committed_did_not_happen() -> None:
    store = FullStore()
    engine = new_engine(store)
    head = engine.head
    store.blocks_fail = True
    with pytest.raises(StoreFullError):
        engine.execute(Submit(run("a", 16)), actor="test")
    assert engine.head == head
    assert "a" not in engine.view.runs
    store.blocks_fail = False
    engine.execute(Submit(run("a", 16)), actor="test")
    assert engine.view.runs["a"].phase is Phase.RUNNING


def test_nothing_is_decided_while_it_is_unknown_what_was_recorded() -> None:
    store = FullStore()
    engine = new_engine(store)
    store.blocks_fail = store.reads_fail = True
    with pytest.raises(StoreFullError):
        engine.execute(Submit(run("a", 16)), actor="test")
    store.blocks_fail = False
    with pytest.raises(StoreBusyError):
        engine.execute(Complete("a"), actor="test")
    store.reads_fail = False
    assert engine.execute(Complete("a"), actor="test").decision.refusals
    assert "a" not in Engine.open(store, HandClock()).view.runs


def test_an_interruption_leaves_nothing_behind() -> None:
    store = FullStore()
    engine = new_engine(store)
    store.interrupts = True
    with pytest.raises(KeyboardInterrupt):
        engine.execute(Submit(run("a", 16)), actor="test")
    store.interrupts = False
    assert "a" not in engine.view.runs
    engine.execute(Submit(run("a", 16)), actor="test")
    assert same(engine._state, Engine.open(store, HandClock())._state) == []


@pytest.mark.heavy
def test_snapshots_are_taken_across_short_lives_too() -> None:
    store = FullStore()
    new_engine(store)
    for number in range(30):
        engine = Engine.open(store, HandClock())
        engine.snapshot_events = 20
        engine.execute(Submit(run(f"r{number}", 1)), actor="test")
    kept = store.load_snapshot()
    assert kept is not None
    assert kept[0].seq > 40


def test_trying_out_changes_nothing() -> None:
    engine = new_engine()
    head = engine.head
    decision = engine.try_out(Submit(run("a", 16)), actor="test")
    assert len(decision.events) == 2
    assert (engine.head, "a" in engine.view.runs) == (head, False)


def test_time_never_runs_back_even_when_the_clock_does() -> None:
    clock = HandClock()
    engine = new_engine(clock=clock)
    clock.ms = NOW_MS - 1_000_000
    receipt = engine.execute(Submit(run("a", 1)), actor="test")
    assert receipt.decision.events[0].at_ms == NOW_MS


def test_a_reopened_engine_has_the_same_state() -> None:
    store = MemoryStore()
    engine = new_engine(store)
    engine.execute_all([Submit(run("a", 3)), Submit(run("b", 30))], actor="test")
    again = Engine.open(store, HandClock())
    assert again.head == engine.head
    assert same(engine._state, again._state) == []


def test_a_ledger_without_a_first_event_is_refused() -> None:
    with pytest.raises(LedgerEmptyError, match="quorate init"):
        Engine.open(MemoryStore(), HandClock())


@pytest.mark.slow
def test_a_snapshot_is_taken_and_used_and_a_failing_one_costs_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    many = [Submit(run(f"r{number}", 1)) for number in range(100)]
    store = FullStore()
    engine = new_engine(store)
    engine.snapshot_events = 200
    engine.execute_all(many, actor="test")
    assert store.load_snapshot() is not None
    engine.execute(Submit(run("last", 1)), actor="test")
    assert same(engine._state, Engine.open(store, HandClock())._state) == []

    failing = FullStore()
    failing.snapshots_fail = True
    engine = new_engine(failing)
    engine.snapshot_events = 200
    engine.execute_all(many, actor="test")
    assert failing.load_snapshot() is None
    assert "no snapshot" in caplog.text
    assert len(engine.view.runs) == len(many)
