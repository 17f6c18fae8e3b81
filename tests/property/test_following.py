"""Engines on one store, interleaved in any way, reach the state of a replay of the ledger.

Each engine decides on what it has read. Other engines may append between its decision and its
append; an append may fail, and an append may succeed and report a failure. The checks are slow and
simple: a fold of the blocks from the first one on, and records of slots and quotas over all events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.core.commands import Apply, Cancel, Command, Complete, Submit
from quorate.ledger.chain import Block, Head, open_blocks
from quorate.ledger.fold import fold
from quorate.loop.commit_types import Receipt
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS
from quorate.model.events import Event, LeaseEnded, LeaseStarted
from quorate.model.specs import OnQuota, Owner, Quota
from quorate.ports.errors import StaleHeadError, StoreFullError
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import HandClock
from quorate.testing.states import same
from tests.oracles.effort import examples

NODES_MAX = 3
OWNERS = (
    Owner(name="science", quota=Quota(nodes_max=NODES_MAX)),
    Owner(name="physics", parents=("science",), quota=Quota(concurrent_runs_max=2)),
    Owner(name="free"),
)
RUNS = ("a", "b", "c", "d", "e", "f")
FAULTS = ("none", "none", "none", "before", "after")


class InterruptedStore(MemoryStore):
    """A store in which other changes happen before an append, and an append may fail.

    A refusal returns up to ``brought`` blocks.
    """

    def __init__(self, brought: int) -> None:
        super().__init__(is_shared=True)
        self._brought = brought
        self.first: Callable[[], None] | None = None
        self.fault = "none"

    def append(self, block: Block, *, expected: Head) -> None:
        first, self.first = self.first, None
        fault, self.fault = self.fault, "none"
        if first is not None:
            first()
        if fault == "before":
            raise StoreFullError("no space left")
        try:
            super().append(block, expected=expected)
        except StaleHeadError as stale:
            blocks = tuple(islice(self.blocks(from_height=expected.height + 1), self._brought))
            raise StaleHeadError(expected=expected, actual=stale.actual, blocks=blocks) from None
        if fault == "after":
            raise StoreFullError("no answer")


@dataclass
class Race:
    """One ledger, and the engines that race for its head."""

    engines: list[Engine]
    store: InterruptedStore
    clock: HandClock
    answered: list[tuple[Receipt, Head]] = field(default_factory=list)

    @classmethod
    def of(cls, count: int, *, brought: int) -> Race:
        store, clock = InterruptedStore(brought), HandClock()
        engine = Engine.create(store, clock, ledger_id="race", public_key="", actor="test")
        budgets = [budget(o.name, o.name, envelope("all", 40)) for o in OWNERS]
        nodes = fleet({"A": 24, "B": 16})
        assert engine.execute(Apply((*nodes, *OWNERS, *budgets)), actor="test").decision.events
        others = [Engine.open(store, clock) for _ in range(count - 1)]
        return cls([engine, *others], store, clock)

    def give(self, who: int, commands: list[Command]) -> None:
        """Let an engine decide and commit ``commands``; its store may fail."""
        engine = self.engines[who % len(self.engines)]
        try:
            receipts = engine.execute_all(commands, actor="test")
        except StoreFullError:
            return
        assert {each.head for each in receipts} == {engine.head}
        self.answered += [(each, engine.head) for each in receipts if each.decision.events]

    def blocks(self) -> Iterator[tuple[Head, list[Event]]]:
        return open_blocks(self.store.blocks())


def _submit(name: str, owner: str, gpus: int) -> Command:
    return Submit(run(name, gpus, owner, on_quota=OnQuota.REFUSE, expected_duration_ms=HOUR_MS))


commands = st.one_of(
    st.builds(
        _submit,
        st.sampled_from(RUNS),
        st.sampled_from([owner.name for owner in OWNERS]),
        st.sampled_from([1, 4, 8, 16]),
    ),
    st.builds(Complete, st.sampled_from(RUNS)),
    st.builds(Cancel, st.sampled_from(RUNS)),
    st.builds(
        lambda most: Apply((Owner(name="science", quota=Quota(nodes_max=most)),)),
        st.integers(1, NODES_MAX),
    ),
)
groups = st.lists(commands, min_size=1, max_size=3)
steps = st.tuples(
    st.integers(0, 2),
    groups,
    st.sampled_from(["alone", "raced", "follow"]),
    st.integers(0, 2),
    groups,
    st.sampled_from(FAULTS),
    st.integers(0, HOUR_MS // 2),
)


@pytest.mark.heavy
@examples(0.5)
@given(st.integers(2, 3), st.integers(0, 4), st.lists(steps, min_size=3, max_size=12))
def test_engines_that_race_end_in_the_state_of_one_that_replays(
    count: int,
    brought: int,
    drawn: list[tuple[int, list[Command], str, int, list[Command], str, int]],
) -> None:
    race = Race.of(count, brought=brought)
    for who, group, kind, rival, others, fault, pause_ms in drawn:
        if kind == "follow":
            race.engines[who % count].follow()
            continue
        if kind == "raced" and rival % count != who % count:
            race.store.first = lambda rival=rival, others=others: race.give(rival, others)
        race.store.fault = fault
        race.give(who, group)
        race.store.first, race.store.fault = None, "none"
        race.clock.ms += pause_ms
    for engine in race.engines:
        engine.follow()
        assert engine.follow() == 0
    found = list(race.blocks())
    events = [event for _, block in found for event in block]
    replayed = fold(events)
    for engine in race.engines:
        assert engine.head == race.store.head()
        assert same(engine._state, replayed) == []
    assert audit(events, view=race.engines[0].view) == []
    assert sweep(race.engines[0].view) == []
    assert list(_doubles(events)) == []
    # Each answered command is in the ledger once, where its receipt says.
    heads = {head.height: (head, block) for head, block in found}
    for receipt, _ in race.answered:
        head, block = heads[receipt.head.height]
        assert head == receipt.head
        start = receipt.first_seq - (head.seq - len(block) + 1)
        assert tuple(block[start : start + len(receipt.decision.events)]) == (
            receipt.decision.events
        )
    assert len({(each.head.height, each.first_seq) for each, _ in race.answered}) == len(
        race.answered
    )


def _doubles(events: list[Event]) -> Iterator[str]:
    """Yield the slots that a lease takes while another has them, at any prefix."""
    taken: dict[tuple[str, int], str] = {}
    for event in events:
        if isinstance(event, LeaseStarted):
            for node, mask in event.slots:
                for slot in [(node, bit) for bit in range(mask.bit_length()) if mask >> bit & 1]:
                    if slot in taken:
                        yield f"{event.lease} takes {slot} of {taken[slot]}"
                    taken[slot] = event.lease
        elif isinstance(event, LeaseEnded):
            taken = {slot: lease for slot, lease in taken.items() if lease != event.lease}
