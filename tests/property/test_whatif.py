"""Forks: with no change they come to the history's own events, and a change has its effect."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Applied, Apply, Cancel, Complete, Submit, Tick
from quorate.ledger.chain import open_blocks
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import BudgetApplied, Event, RequestKept
from quorate.model.specs import Owner
from quorate.model.state.records import Phase
from quorate.sim.demand import Size
from quorate.sim.random_world import draw_world
from quorate.sim.report.outcome_of_ledger import outcome_of_ledger
from quorate.sim.seed_trial import Trial
from quorate.sim.simulation import LOTTERY_SECRET, VirtualClock
from quorate.sim.whatif.differences import differences
from quorate.sim.whatif.fork import fork
from quorate.sim.whatif.recorded_inputs import CannotForkError
from quorate.testing.builders import NOW_MS, budget, envelope, node, run
from tests.oracles.effort import few_of

_SIZE = Size(hours=8, runs=30, wishes=15)


def _is_honest(seed: int) -> bool:
    return draw_world(Random(f"{seed}/world"), _SIZE).is_honest


_SEEDS = [seed for seed in range(100) if _is_honest(seed)]
"""Worlds whose machines do not fail: a ledger does not record why an executor lost work."""


def _without_repeats(events: list[Event]) -> list[Event]:
    """Return the events but for requests that were repeated, and changed nothing."""
    return [each for each in events if not (isinstance(each, RequestKept) and not each.count)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", few_of(_SEEDS, 2))
def test_a_fork_with_no_change_reproduces_history_event_by_event(seed: int) -> None:
    trial = Trial(seed, size=_SIZE)
    trial.run()
    blocks = [events for _, events in open_blocks(list(trial.store.blocks()))]
    events = _without_repeats([event for block in blocks for event in block])
    for part in (8, 3):
        at_ms = events[len(events) // part].at_ms
        found = fork(blocks, at_ms, lottery_secret=LOTTERY_SECRET)
        assert found.refused == ()
        assert _without_repeats(list(found.events)) == events


def _story(seed: int) -> list[list[Event]]:
    """Return the blocks of a ledger that people write by hand, with no driver and no executor."""
    chance = Random(seed)
    clock = VirtualClock(NOW_MS)
    store = MemoryStore()
    engine = Engine.create(store, clock, ledger_id="x", public_key="", actor="ada")
    specs: tuple[Applied, ...] = (
        *(node(f"n{number}", 4) for number in range(2)),
        Owner(name="team"),
        budget("b", "team", envelope("e", 6)),
    )
    engine.execute(Apply(specs), actor="ada")
    for number in range(25):
        clock.true_ms += chance.randrange(1, 40) * MINUTE_MS + chance.randrange(1_000)
        choice = chance.randrange(5)
        live = [name for name, record in engine.view.runs.kept() if record.phase is Phase.RUNNING]
        if choice == 0 and live:
            engine.execute(Complete(chance.choice(live)), actor="ben")
        elif choice == 1 and live:
            engine.execute(Cancel(chance.choice(live), "no more"), actor="ben")
        elif choice == 2:
            engine.execute(Tick(), actor="ada")
        else:
            spec = replace(
                run(f"r{number}", chance.choice([1, 2, 4])),
                owner="team",
                expected_duration_ms=chance.choice([HOUR_MS, 3 * HOUR_MS]),
            )
            engine.execute(Submit(spec), actor="ada")
    return [events for _, events in open_blocks(list(store.blocks()))]


@pytest.mark.parametrize("seed", few_of(range(12), 4))
def test_a_ledger_that_people_write_by_hand_is_reproduced_as_well(seed: int) -> None:
    blocks = _story(seed)
    events = [event for block in blocks for event in block]
    found = fork(blocks, events[len(events) // 4].at_ms)
    assert list(found.events) == events


def test_a_change_has_its_effect_and_nothing_before_it_changes() -> None:
    blocks = _story(3)
    events = [event for block in blocks for event in block]
    at_ms = events[len(events) // 4].at_ms
    (spec,) = (each.budget for each in events if isinstance(each, BudgetApplied))
    larger = replace(spec, envelopes=(replace(spec.envelopes[0], concurrency=160),))
    found = fork(blocks, at_ms, [larger, *(node(f"m{number}", 4) for number in range(40))])
    before = [event for event in events if event.at_ms <= at_ms]
    assert list(found.events[: len(before)]) == before
    was = outcome_of_ledger(events, name="was", now_ms=found.end_ms)
    now = outcome_of_ledger(found.events, name="now", now_ms=found.end_ms)
    told = differences(was, now)
    assert not told.are_none
    assert {each.owner for each in told.owners} == {"team"}
    assert told.owners[0].waited_ms[1] < told.owners[0].waited_ms[0]
    assert told.owners[0].runs_changed == len(told.runs)
    late = [run for run in now.runs if run.submitted_ms > at_ms]
    assert late
    assert not any(sum(run.waits_ms.values()) for run in late)


def test_differences_of_a_history_to_itself_are_none() -> None:
    events = [event for block in _story(5) for event in block]
    outcome = outcome_of_ledger(events, name="was")
    told = differences(outcome, outcome)
    assert told.are_none
    assert all(each.waited_ms[0] == each.waited_ms[1] for each in told.owners)


def test_a_fork_before_the_ledger_began_is_refused() -> None:
    with pytest.raises(CannotForkError, match="had not begun"):
        fork(_story(1), NOW_MS - 1)


def test_a_change_that_is_refused_is_named() -> None:
    blocks = _story(1)
    unknown = budget("c", "nobody", envelope("e", 1))
    with pytest.raises(CannotForkError, match="nobody"):
        fork(blocks, blocks[3][0].at_ms, [unknown])
