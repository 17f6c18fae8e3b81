"""Funded runs that need a conflict start at their first notice, with default settings.

The engine has nodes, owners and budgets only, without a pool and a System document, so every
setting is the default. Its driver steps whenever a change is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply, Command, Submit
from quorate.ledger.chain import open_blocks
from quorate.loop.driver import Driver
from quorate.model.amounts import HOUR_MS
from quorate.model.events import ConflictAnnounced, ConflictOutcome, ConflictResolved
from quorate.model.selector import DOMAIN
from quorate.model.specs import Budget, Owner, Pool, Run
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from quorate.testing.memory_engines import HandClock, memory_engine

NOTICE_MS = Pool(name="default").notice_ms


@dataclass(frozen=True, slots=True)
class World:
    """A fleet, its money, the runs that use it, and a run that is submitted two hours later."""

    domains: dict[str, int]
    budgets: Sequence[Budget]
    running: Sequence[Run]
    late: Run
    victims: int
    """The number of running runs that have to end."""
    placed: dict[str, int]
    """The GPUs by domain on which ``late`` starts."""


def day_long(name: str, owner: str, domain: str = "A") -> Run:
    """Return a run of 8 GPUs in ``domain`` that takes a day."""
    where = ((DOMAIN, domain),)
    return run(name, 8, owner, expected_duration_ms=24 * HOUR_MS, selector=where, nonce=name)


WIDE = World(
    domains={"A": 64},
    budgets=[budget(name, name, envelope("all", 40)) for name in ("ada", "ben", "cy")],
    running=[day_long(f"{owner}-{n}", owner) for owner in ("ben", "cy") for n in range(4)],
    late=run("wide", 40, "ada", nonce="w"),
    victims=5,
    placed={"r/c/A": 40},
)
# Group 1 fits in A, where 72 GPUs are free. Group 2 lacks 16 GPUs in B, where 48 are free.
WORKED_EXAMPLE = World(
    domains={"A": 72, "B": 72},
    budgets=[
        budget("tf", "tf", envelope("west", 24)),
        budget("rai", "rai", envelope("west-h100", 256)),
    ],
    running=[day_long(f"filler-{number}", "tf", "B") for number in range(3)],
    late=run("big", 128, "rai", group_gpus=64, expected_duration_ms=4 * HOUR_MS, nonce="b"),
    victims=2,
    placed={"r/c/A": 64, "r/c/B": 64},
)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "world", [WIDE, WORKED_EXAMPLE], ids=["40 of 64 GPUs", "the worked example, two groups of 64"]
)
def test_a_funded_run_starts_by_conflict_at_the_first_notice_by_default(world: World) -> None:
    store, clock = MemoryStore(), HandClock()
    engine = memory_engine(store, clock)
    driver = Driver(engine)
    owners = [Owner(name=each.owner) for each in world.budgets]
    commands: list[Command] = [Apply((*fleet(world.domains), *owners, *world.budgets))]
    commands += map(Submit, world.running)
    for command in commands:
        assert not engine.execute(command, actor="test").decision.refusals
    names = [each.name for each in world.running]
    assert all(engine.view.runs[name].phase is Phase.RUNNING for name in names)

    clock.ms = asked_ms = NOW_MS + 2 * HOUR_MS
    driver.step()
    engine.execute(Submit(world.late), actor="test")
    promise = engine.view.reservations[f"{world.late.name}@1"]
    assert (promise.by_conflict, promise.planned_start_ms) == (True, asked_ms + NOTICE_MS)

    while (due_ms := driver.step()) is not None and due_ms <= asked_ms + NOTICE_MS:
        assert engine.view.runs[world.late.name].phase is Phase.PENDING
        assert all(engine.view.runs[name].phase is Phase.RUNNING for name in names)
        clock.ms = due_ms

    started = engine.view.runs[world.late.name]
    assert (started.phase, started.since_ms) == (Phase.RUNNING, asked_ms + NOTICE_MS)
    placed: dict[str, int] = {}
    for name in started.leases:
        for node, mask in engine.view.leases[name].fact.slots:
            domain = engine.view.nodes[node].spec.domain_key
            placed[domain] = placed.get(domain, 0) + mask.bit_count()
    assert placed == world.placed
    assert sum(engine.view.runs[name].phase is Phase.PENDING for name in names) == world.victims
    events = [event for _, block in open_blocks(store.blocks()) for event in block]
    (resolved,) = (event for event in events if isinstance(event, ConflictResolved))
    assert resolved.outcome is ConflictOutcome.CLEARED
    assert resolved.at_ms == asked_ms + NOTICE_MS
    (announced,) = (event for event in events if isinstance(event, ConflictAnnounced))
    assert (announced.at_ms, announced.due_ms) == (asked_ms, resolved.at_ms)
