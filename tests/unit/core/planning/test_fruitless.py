"""Runs without a start delay no other run, and not all of them are examined."""

from __future__ import annotations

import gc

import pytest
from msgspec.structs import replace

from quorate.core.commands import Cancel, Complete, Submit
from quorate.core.decide import decide
from quorate.core.planning.foresight import Foresight, PlanState
from quorate.core.planning.fruitless import LINE_MAX, SHAPE_MAX
from quorate.core.planning.queue_walk import Walk
from quorate.core.planning.start_search import Searcher
from quorate.core.profile.profile import Profile
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import Event, RunRefused, RunSubmitted
from quorate.model.refusal import RefusalCode
from quorate.model.specs import Follow, Pool, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.testing.builders import (
    NOW_MS,
    borrowing,
    budget,
    envelope,
    fleet,
    lending,
    run,
    world,
)
from tests.oracles.lives import Life
from tests.oracles.plans import alone, firm_ms, foreseen, of, planned_life, quiet_pool


def queue_up(life: Life, like: Run, count: int) -> list[str]:
    """Submit ``count`` runs like ``like``, which waits, and return their names."""
    names = [f"{like.name}-{number}" for number in range(count)]
    refusal = life.state.runs[like.name].refusal
    assert refusal is not None
    for name in names:
        waits: list[Event] = [
            RunSubmitted(at_ms=life.now_ms, actor="test", run=replace(like, name=name)),
            RunRefused(at_ms=life.now_ms, actor="test", run=name, refusal=refusal),
        ]
        apply_all(life.state, waits)
        life.events.extend(waits)
    return names


def looked_at(life: Life, names: list[str]) -> int:
    """Return for how many of ``names`` a walk found no start."""
    plan = Foresight.of(life.state, life.now_ms, has_executor=False).walk.plan
    return sum(map(plan.is_fruitless, names))


def test_a_run_starts_behind_many_of_its_owner_that_nothing_can_start() -> None:
    money = budget("b", "o", envelope("e", 16))
    state = world(nodes=fleet({"A": 16}), budgets=[money])
    for number in range(SHAPE_MAX + 2):
        submitted = Submit(run(f"huge{number}", 17, "o"))
        decision = decide(state, submitted, now_ms=NOW_MS, actor="test")
        apply_all(state, decision.events)
        refused = [each.run for each in decision.events if isinstance(each, RunRefused)]
        assert refused == [f"huge{number}"]
    apply_all(state, decide(state, Submit(run("small", 1, "o")), now_ms=NOW_MS, actor="t").events)
    assert state.runs["small"].phase is Phase.RUNNING


@pytest.mark.parametrize("depth", [1, 20])
def test_a_run_that_may_borrow_starts_behind_many_of_its_owner_that_may_not(depth: int) -> None:
    own, lent = envelope("e", 2), envelope("e", 8, lending=lending())
    state = world(
        pools=[Pool(name="default", reservation_depth=depth)],
        nodes=fleet({"A": 8}),
        budgets=[budget("b", "o", own), budget("l", "lab", lent)],
    )
    runs = [run("own", 2, "o", expected_duration_ms=10 * HOUR_MS)]
    runs += [run(f"later{number}", 1, "o") for number in range(depth + SHAPE_MAX + 2)]
    for each in (*runs, run("loan", 1, "o", funding=borrowing())):
        decision = decide(state, Submit(each), now_ms=NOW_MS, actor="test")
        apply_all(state, decision.events)
    assert state.runs["later0"].phase is Phase.PENDING
    assert state.runs["loan"].phase is Phase.RUNNING


@pytest.mark.heavy
def test_a_run_that_is_paid_starts_behind_many_longer_ones_that_are_not() -> None:
    # All durations are within a factor of two, so that the runs have one shape.
    few = envelope("e", 8, gpu_ms_max=80 * MINUTE_MS)
    state = world(nodes=fleet({"A": 8}), budgets=[budget("b", "o", few)])
    for number, minutes in enumerate([132] * 20 + [100, 90, 72, 75]):
        spec = run(f"r{number}", 1, "o", expected_duration_ms=minutes * MINUTE_MS)
        apply_all(state, decide(state, Submit(spec), now_ms=NOW_MS, actor="test").events)
    assert [name for name, record in state.runs.items() if record.leases] == ["r22"]


def test_a_run_is_planned_behind_many_of_its_owner_of_another_shape_without_a_start() -> None:
    life = planned_life(16)
    life.do(Submit(of("runs", 8, "three", 120)))
    for number in range(SHAPE_MAX + 2):
        life.do(Submit(of(f"huge{number}", 17, "two", 60)))
    life.do(Submit(of("wide", 16, "two", 60)))
    life.do(Submit(of("behind", 8, "one", 600)))
    assert firm_ms(life, "wide") == NOW_MS + 2 * HOUR_MS
    # It would run into the place of the wide run.
    assert life.phase("behind") is Phase.PENDING


def test_of_many_runs_of_one_shape_without_a_start_only_a_few_are_looked_at() -> None:
    poor = budget("b-two", "two", alone(envelope("e", 8, gpu_ms_max=9 * HOUR_MS)))
    life = planned_life(64, budgets=[poor], pool=quiet_pool(horizon_ms=HOUR_MS))
    life.do(Submit(like := of("w", 8, "two", 120)))
    names = queue_up(life, like, 200)
    assert looked_at(life, names) == SHAPE_MAX
    # A run that it can pay for starts behind all of them.
    life.do(Submit(of("small", 1, "two", 60)))
    assert life.phase("small") is Phase.RUNNING


@pytest.mark.heavy
def test_of_many_runs_of_many_shapes_without_a_start_a_bounded_number_is_looked_at() -> None:
    life = planned_life(16, pool=quiet_pool(horizon_ms=HOUR_MS))
    names = list[str]()
    for gpus in range(17, 17 + LINE_MAX):
        life.do(Submit(like := of(f"w{gpus}", gpus, "two", 120)))
        names += [like.name, *queue_up(life, like, 2)]
    assert looked_at(life, names) == LINE_MAX


def test_followers_that_were_told_to_wait_are_started_when_their_upstream_completes() -> None:
    life = planned_life(16, pool=quiet_pool(horizon_ms=HOUR_MS))
    life.do(Submit(of("first", 8, "one", 60)))
    life.do(Submit(like := of("next", 8, "two", 60, follow=Follow(after=("first",)))))
    names = queue_up(life, like, 50)
    assert foreseen(life, "next").state is PlanState.NONE
    life.do(Complete("first"))
    running = [name for name in ("next", *names) if life.phase(name) is Phase.RUNNING]
    assert running == ["next", "next-0"]


def test_followers_hear_when_their_upstream_fails() -> None:
    life = planned_life(16, pool=quiet_pool(horizon_ms=HOUR_MS))
    life.do(Submit(of("first", 8, "one", 60)))
    life.do(Submit(like := of("next", 8, "two", 60, follow=Follow(after=("first",)))))
    names = queue_up(life, like, 3)
    life.do(Cancel("first"))
    for name in ("next", *names):
        refusal = life.state.runs[name].refusal
        assert refusal is not None
        assert refusal.code is RefusalCode.UPSTREAM_FAILED


@pytest.mark.heavy
def test_a_walk_is_gone_with_its_decision_and_leaves_nothing_to_collect() -> None:
    life = planned_life(16)
    life.do(Submit(of("runs", 8, "one", 60)))
    life.do(Submit(of("waits", 16, "two", 60)))
    life.do(Submit(of("huge", 17, "two", 60)))
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        decide(life.state, Complete("runs"), now_ms=life.now_ms, actor="test")
        gc.collect()
        assert not [each for each in gc.garbage if isinstance(each, Walk | Profile | State)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_a_run_is_hopeless_where_no_domain_could_ever_hold_one_of_its_groups() -> None:
    money = budget("b", "o", envelope("e", 64))
    state = world(nodes=fleet({"A": 16, "B": 8}), budgets=[money])
    apply_all(state, decide(state, Submit(run("r", 16, "o")), now_ms=NOW_MS, actor="t").events)
    search = Searcher(Profile(state, NOW_MS), has_executor=False)
    assert not search.is_hopeless(run("later", 16, "o"))
    assert search.is_hopeless(run("wide", 17, "o", group_gpus=17))
    assert search.find(run("wide", 17, "o", group_gpus=17), NOW_MS) is None
