"""Forks: without a change they give the history's own events, and a change has its effect."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from random import Random

import pytest
from msgspec.structs import replace

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import (
    Applied,
    Apply,
    Cancel,
    Command,
    Complete,
    Release,
    Submit,
    Tick,
    Wiped,
)
from quorate.documents.times import time_text
from quorate.ledger.chain import open_blocks
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import BudgetApplied, Event, PoolApplied, RequestKept, RoundShared
from quorate.model.selector import DOMAIN
from quorate.model.specs import Discipline, Owner, Pool, RoundsWork
from quorate.model.state.records import Phase
from quorate.sim.demand import START_MS, Arrival, Size
from quorate.sim.outcome import Outcome, SimulatedRun
from quorate.sim.random_world import World, draw_world
from quorate.sim.report.outcome_of_ledger import outcome_of_ledger
from quorate.sim.room_work import Truth
from quorate.sim.round_world import draw_round_world
from quorate.sim.seed_trial import Trial
from quorate.sim.simulation import LOTTERY_SECRET, VirtualClock
from quorate.sim.whatif.differences import differences
from quorate.sim.whatif.fork import fork
from quorate.sim.whatif.recorded_inputs import CannotForkError
from quorate.testing.builders import NOW_MS, budget, envelope, node, run
from tests.oracles.effort import few_of, sized

_SIZE = Size(hours=8, runs=30, wishes=15)


def _is_honest(seed: int) -> bool:
    return draw_world(Random(f"{seed}/world"), _SIZE).is_honest


_SEEDS = [seed for seed in range(sized(20, 100)) if _is_honest(seed)]
"""Worlds without machine failures, because a ledger does not record why an executor lost work."""


def _without_repeats(events: list[Event]) -> list[Event]:
    """Return the events without repeated requests, which changed nothing."""
    return [each for each in events if not (isinstance(each, RequestKept) and not each.count)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", few_of(_SEEDS, 1))
def test_a_fork_with_no_change_reproduces_history_event_by_event(seed: int) -> None:
    trial = Trial(seed, size=_SIZE)
    trial.run()
    blocks = [events for _, events in open_blocks(list(trial.store.blocks()))]
    events = _without_repeats([event for block in blocks for event in block])
    for part in (3, 8)[: sized(1, 2)]:
        at_ms = events[len(events) // part].at_ms
        found = fork(blocks, at_ms, lottery_secret=LOTTERY_SECRET)
        assert found.refused == ()
        assert _without_repeats(list(found.events)) == events


def _calm(policies: Sequence[str], chance: Random, size: Size) -> World:
    """Return a world in which machines do not fail, while users do anything.

    With ``policies``, a pool has rounds with one of them; two runs may share GPUs if they permit
    it.
    """
    if policies:
        with_pairs = policies[0].endswith("_packed")
        world = draw_round_world(chance, size, policies, with_pairs=with_pairs)
    else:
        world = draw_world(chance, size)
    return dataclasses.replace(world, is_honest=True)


_BUSY = Size(hours=4, runs=sized(16, 24), wishes=sized(26, 40))
_POLICIES = {
    "bind": (),
    "rounds": ("max_min_fairness_perf", "fifo"),
    "pairs": ("max_min_fairness_packed",),
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", few_of((1, 3, 5, *range(6, 30)), 1))
@pytest.mark.parametrize("kind", few_of(reversed(_POLICIES), 2))
def test_rounds_claims_and_what_people_did_are_reproduced_event_by_event(
    kind: str, seed: int
) -> None:
    trial = Trial(seed, size=_BUSY, draw=partial(_calm, _POLICIES[kind]))
    trial.run()
    blocks = [events for _, events in open_blocks(list(trial.store.blocks()))]
    events = _without_repeats([event for block in blocks for event in block])
    assert any(isinstance(each, RoundShared) for each in events) == (kind != "bind")
    at_ms = events[len(events) // 4].at_ms
    found = fork(blocks, at_ms, lottery_secret=LOTTERY_SECRET)
    assert found.refused == ()
    assert _without_repeats(list(found.events)) == events


def test_released_claims_and_wiped_nodes_are_reproduced_without_an_executor() -> None:
    clock, store = VirtualClock(NOW_MS), MemoryStore()
    engine = Engine.create(store, clock, ledger_id="x", public_key="", actor="ada")
    nodes = [node(f"n{number}", 4) for number in range(3)]
    engine.execute(
        Apply((*nodes, Owner(name="team"), budget("b", "team", envelope("e", 24)))), actor="ada"
    )
    at_ms = clock.true_ms
    claim = replace(
        run("early", 4), owner="team", user="ada", sensitive=True, expected_duration_ms=2 * HOUR_MS
    )
    given: list[tuple[int, Command]] = [
        (1, Submit(claim)),
        (2, Submit(replace(claim, name="whole", expected_duration_ms=HOUR_MS))),
        (30, Release("early", "done early")),
        (40, Wiped("n0", is_clean=False, note="disk 2")),
        (45, Submit(replace(run("r", 12), owner="team", expected_duration_ms=HOUR_MS))),
        (70, Wiped("n0", is_clean=True)),
        (80, Tick()),
        (90, Wiped("n1", is_clean=True, claim="whole")),
        (200, Complete("r")),
    ]
    for minutes, command in given:
        clock.true_ms = NOW_MS + minutes * MINUTE_MS
        receipt = engine.execute(command, actor="ben")
        assert not receipt.decision.refusals, (command, receipt.decision.refusals)
    blocks = [events for _, events in open_blocks(list(store.blocks()))]
    events = [event for block in blocks for event in block]
    found = fork(blocks, at_ms)
    assert list(found.events) == events
    # With twice the nodes the run does not wait for a wipe.
    more = fork(blocks, at_ms, [node(f"m{number}", 4) for number in range(3)])
    was, now = (
        outcome_of_ledger(each, name="", now_ms=found.end_ms) for each in (events, more.events)
    )
    told = {each.run: each.waits_more_ms for each in differences(was, now).runs}
    assert told["r"] == -45 * MINUTE_MS


@pytest.mark.heavy
def test_another_policy_changes_rounds_and_work_stays_what_it_was() -> None:
    """Under FIFO the first of two equal runs has the GPUs to its end; under max-min, in turns."""
    trial = Trial(0, size=Size(hours=1, runs=1, wishes=0), draw=_two_runs)
    trial.run()
    blocks = [events for _, events in open_blocks(list(trial.store.blocks()))]
    events = [event for block in blocks for event in block]
    (pool,) = (
        each.pool
        for each in events
        if isinstance(each, PoolApplied) and each.pool.discipline is Discipline.ROUNDS
    )
    at_ms = trial.world.arrivals[0].at_ms - 1
    found = fork(blocks, at_ms, [replace(pool, policy="fifo")], lottery_secret=LOTTERY_SECRET)
    policies = {each.policy for each in found.events if isinstance(each, RoundShared)}
    assert "fifo" in policies
    assert "max_min_fairness" not in policies
    was, now = (
        outcome_of_ledger(each, name="", now_ms=found.end_ms) for each in (events, found.events)
    )
    before, after = ({run.name: run for run in each.runs} for each in (was, now))
    assert {run.name for run in now.runs if run.ended_ms} == {"r0", "r1"}
    assert _jct_ms(after["r0"]) < _jct_ms(before["r0"]) - HOUR_MS
    assert abs(_last_ms(now) - _last_ms(was)) < 10 * MINUTE_MS, "there is as much work as there was"


def _jct_ms(found: SimulatedRun) -> int:
    assert found.ended_ms is not None
    return found.ended_ms - found.submitted_ms


def _last_ms(outcome: Outcome) -> int:
    return max(run.ended_ms or 0 for run in outcome.runs)


def _two_runs(chance: Random, size: Size) -> World:
    """Return two runs of three hours that share one node by max-min fairness."""
    del chance, size
    pool = Pool(
        name="shared",
        discipline=Discipline.ROUNDS,
        policy="max_min_fairness",
        round_ms=6 * MINUTE_MS,
        selector=((DOMAIN, "A"),),
    )
    arrivals = tuple(
        Arrival(
            START_MS + (1 + number) * MINUTE_MS,
            replace(
                run(f"r{number}", 4),
                owner="team",
                pool="shared",
                rounds=RoundsWork(throughputs=(("H100", 2.0),), total_steps=2 * 3 * 3_600),
            ),
            Truth(work_ms=3 * HOUR_MS, checkpoint_every_ms=MINUTE_MS),
            48 * HOUR_MS,
        )
        for number in range(2)
    )
    specs = (pool, node("n0", 4), Owner(name="team"), budget("b", "team", envelope("e", 4)))
    return World(specs, arrivals, (), START_MS + 8 * HOUR_MS, is_honest=True)


def _story(seed: int) -> list[list[Event]]:
    """Return the blocks of a ledger that commands wrote, without a driver and an executor."""
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


@pytest.mark.parametrize("seed", few_of(range(12), 2))
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


def test_a_fork_after_the_ledger_ended_is_refused() -> None:
    blocks = _story(1)
    end_ms = max(event.at_ms for block in blocks for event in block)
    assert fork(blocks, end_ms).end_ms == end_ms
    with pytest.raises(CannotForkError, match=f"the ledger ends at {time_text(end_ms)}, before"):
        fork(blocks, end_ms + 1)


def test_a_change_that_is_refused_is_named() -> None:
    blocks = _story(1)
    unknown = budget("c", "nobody", envelope("e", 1))
    with pytest.raises(CannotForkError, match="nobody"):
        fork(blocks, blocks[3][0].at_ms, [unknown])
