"""Groups of requests: each with its own actor, in one block, and answered again from the ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.core.commands import (
    Apply,
    Cancel,
    Change,
    Complete,
    Keyed,
    Submit,
    Tick,
    UpdateOwner,
)
from quorate.ledger.chain import Block, Head, open_blocks
from quorate.loop.commit_types import Asked, Receipt
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS
from quorate.model.specs import Owner
from quorate.operations.group_commit import carried_out
from quorate.ports.errors import BlockTooLargeError, StoreFullError
from quorate.ports.store_port import EventStore
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from quorate.testing.memory_engines import LOTTERY_LENGTH, LOTTERY_SECRET, HandClock
from quorate.testing.states import same

FLEET = Apply((*fleet({"A": 16}), Owner(name="team"), budget("b", "team", envelope("e", 16))))


def new_engine(store: EventStore | None = None) -> Engine:
    engine = Engine.create(
        MemoryStore() if store is None else store,
        HandClock(),
        ledger_id="test",
        public_key="",
        actor="test",
        lottery_secret=LOTTERY_SECRET,
        lottery_length=LOTTERY_LENGTH,
    )
    engine.execute(FLEET, actor="operator")
    return engine


def keyed(name: str, key: str | None = None) -> Keyed:
    return Keyed(Submit(run(name, 2)), f"key-{name}" if key is None else key, f"digest-{name}")


def test_each_command_of_a_group_is_by_its_own_actor() -> None:
    engine = new_engine()
    before = engine.head
    asked = [Asked(Submit(run("a", 4)), "ada"), Asked(Submit(run("b", 4)), "bob")]
    receipts = engine.execute_group([*asked, Asked(Cancel("a"), "eve")])
    actors = [{event.actor for event in receipt.decision.events} for receipt in receipts]
    assert actors == [{"ada"}, {"bob"}, {"eve"}]
    assert engine.head.height == before.height + 1
    assert {receipt.head for receipt in receipts} == {engine.head}


def test_a_receipt_says_where_its_events_begin() -> None:
    store = MemoryStore()
    engine = new_engine(store)
    receipts = engine.execute_group(
        [
            Asked(Submit(run("a", 4)), "ada"),
            Asked(Complete("nobody"), "bob"),
            Asked(Submit(run("a", 4)), "bob"),
            Asked(Submit(run("b", 4)), "eve"),
        ]
    )
    recorded = [event for _, events in open_blocks(store.blocks()) for event in events]
    assert [len(receipt.decision.events) for receipt in receipts] == [2, 0, 0, 2]
    for receipt in receipts:
        start = receipt.first_seq - 1
        events = receipt.decision.events
        assert tuple(recorded[start : start + len(events)]) == events
    assert [receipt.first_seq - receipts[0].first_seq for receipt in receipts] == [0, 2, 2, 2]
    assert engine.execute(Tick(), actor="clock").first_seq == engine.head.seq + 1


def test_a_refused_command_of_a_group_records_nothing_and_hinders_nobody() -> None:
    engine = new_engine()
    first, refused, again, other = engine.execute_group(
        [
            Asked(keyed("a"), "ada"),
            Asked(keyed("b", key="key-a"), "ada"),
            Asked(keyed("a"), "ada"),
            Asked(keyed("c"), "bob"),
        ]
    )
    assert [each.code.value for each in refused.decision.refusals] == ["key-reused"]
    assert again.decision.repeats == engine.view.requests["key-a"]
    assert set(engine.view.runs) == {"a", "c"}
    assert engine.answer_kept(again.decision.repeats) == first
    assert engine.answer_kept(engine.view.requests["key-c"]) == other


def test_repetitions_alone_record_nothing() -> None:
    engine = new_engine()
    engine.execute(keyed("a"), actor="ada")
    head = engine.head
    receipts = engine.execute_group([Asked(keyed("a"), "ada")] * 3)
    assert engine.head == head
    assert [(receipt.head, receipt.first_seq) for receipt in receipts] == [(head, head.seq + 1)] * 3


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_repeated_request_is_given_the_first_receipt_also_after_a_restart(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.db"
    store: EventStore = MemoryStore() if kind == "memory" else SqliteStore.create(path)
    engine = new_engine(store)
    given: dict[str, Receipt] = {}
    for number in range(6):
        # Blocks with several requests, of several events each, and other blocks in between.
        names = [f"r{number}-{each}" for each in range(number % 3 + 1)]
        receipts = engine.execute_group([Asked(keyed(name), "ada") for name in names])
        given |= {f"key-{name}": receipt for name, receipt in zip(names, receipts, strict=True)}
        engine.execute_all([Submit(run(f"x{number}", 1)), Cancel(f"x{number}")], actor="bob")
    share = UpdateOwner("team", (("fair_share_target_ppm", 1_200_000),))
    given["warned"] = engine.execute(Keyed(share, "warned", "w"), actor="operator")
    given["idle"] = engine.execute(Keyed(Submit(run("r0-0", 2)), "idle", "i"), actor="ada")
    assert given["warned"].decision.warnings
    assert given["idle"].decision.changes == (("Run", "r0-0", Change.UNCHANGED),)
    assert given["idle"].first_seq == engine.view.requests["idle"].seq
    if kind == "sqlite":
        engine.close()
        store = SqliteStore.open(path)
    again = Engine.open(store, HandClock(NOW_MS + HOUR_MS))
    for key, receipt in given.items():
        answer = again.answer_kept(again.view.requests[key])
        assert answer == receipt, key
        assert all(isinstance(change, Change) for _, _, change in answer.decision.changes)
    again.close()


class DyingStore(MemoryStore):
    """A store during whose next append the program ends, before or after the block is recorded."""

    next_end = ""

    def append(self, block: Block, *, expected: Head) -> None:
        end, self.next_end = self.next_end, ""
        if end != "before":
            super().append(block, expected=expected)
        if end:
            raise StoreFullError("the program ends here")


@pytest.mark.parametrize("end", ["before", "after"])
def test_whoever_got_no_answer_asks_again_and_nothing_is_done_twice(end: str) -> None:
    store = DyingStore()
    engine = new_engine(store)
    store.next_end = end
    with pytest.raises(StoreFullError):
        engine.execute(keyed("a"), actor="ada")
    engine = Engine.open(store, HandClock())
    receipt = engine.execute(keyed("a"), actor="ada")
    assert (receipt.decision.repeats is not None) is (end == "after")
    if receipt.decision.repeats is not None:
        receipt = engine.answer_kept(receipt.decision.repeats)
    assert receipt.decision.changes == (("Run", "a", Change.SUBMITTED),)
    assert receipt.head == engine.head
    assert len(engine.view.runs) == 1


@pytest.mark.parametrize("is_shared", [False, True])
def test_commands_that_do_not_fit_into_a_block_are_left_for_the_next(*, is_shared: bool) -> None:
    engine = new_engine(MemoryStore(is_shared=is_shared))
    engine.execute(Submit(run("first", 1)), actor="test")
    size = len(next(engine.store.blocks(from_height=engine.head.height)).body)
    engine.group_bytes_max = 2 * size + size // 2
    asked = [Asked(Submit(run(f"r{number}", 1)), "ada") for number in range(5)]
    before = engine.head
    receipts = engine.execute_group(asked)
    assert (len(receipts), engine.head.height) == (2, before.height + 1)
    assert engine.view.runs.keys() == {"first", "r0", "r1"}
    others = engine.execute_all([each.command for each in asked[2:]], actor="ada")
    assert [receipt.head.height for receipt in others] == [before.height + n for n in (2, 2, 3)]
    assert same(engine._state, Engine.open(engine.store, HandClock())._state) == []


@pytest.mark.parametrize("is_shared", [False, True])
def test_command_with_more_events_than_a_block_takes_is_refused(*, is_shared: bool) -> None:
    engine = new_engine(MemoryStore(is_shared=is_shared))
    before = engine.head
    engine.block_bytes_max = 200
    with pytest.raises(BlockTooLargeError, match="send it in parts"):
        engine.execute(Apply(tuple(fleet({"B": 80}))), actor="test")
    assert (engine.head, len(engine.view.nodes)) == (before, 2)
    assert engine.execute(Apply((Owner(name="other"),)), actor="test").decision.events


def test_command_that_is_too_large_is_the_only_one_that_is_not_recorded() -> None:
    engine = new_engine()
    engine.block_bytes_max = engine.group_bytes_max = 600
    large = run("large", 1, command=("x" * 1_000,))
    asked = [Asked(Submit(each), "ada") for each in (run("a", 1), large, run("b", 1))]
    found = carried_out(engine, asked, lambda: True)
    assert [type(each) for each in found] == [Receipt]
    found = carried_out(engine, asked[1:], lambda: True)
    assert [type(each) for each in found] == [BlockTooLargeError, Receipt]
    assert engine.view.runs.keys() == {"a", "b"}
