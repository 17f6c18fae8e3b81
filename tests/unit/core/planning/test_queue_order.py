"""The plan follows the queue: shares order all runs without a firm start, however old they are."""

from __future__ import annotations

import pytest

from quorate.core.commands import Apply, Complete, Submit, Tick
from quorate.core.planning.foresight import PlanState
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS
from tests.oracles.lives import Life
from tests.oracles.plans import (
    firm_ms,
    foreseen,
    foreseen_ms,
    of,
    planned_life,
    quiet_pool,
    start_ms_of,
    started,
    tick_until,
)

START_MS = NOW_MS + 2 * HOUR_MS


def served(life: Life, minutes: int, starts: int) -> list[str]:
    """Let each run take ``minutes``; return the next runs that start, in order."""
    known = len(started(life.events))
    for _ in range(200):
        running = [r for r in life.state.runs.values() if r.phase is Phase.RUNNING]
        ends = sorted((r.since_ms or 0) + minutes * MINUTE_MS for r in running)
        new = [lease.split("/")[0] for lease, _ in started(life.events)[known:]]
        if len(new) >= starts or not ends:
            return new
        tick_until(life, ends[0])
        for record in running:
            if (record.since_ms or 0) + minutes * MINUTE_MS == ends[0]:
                life.do(Complete(record.spec.name), ends[0])
    message = f"fewer than {starts} started"
    raise AssertionError(message)


def test_owner_below_its_share_that_submits_last_goes_first_among_what_is_not_firm() -> None:
    life = planned_life(pool=quiet_pool(horizon_ms=0))
    life.do(Submit(of("busy", 8)))
    for number in range(3):
        life.do(Submit(of(f"greedy{number}", 8)))
    life.do(Submit(of("modest", 8, "two")), NOW_MS + HOUR_MS)
    assert foreseen_ms(life, "modest") == START_MS
    assert foreseen_ms(life, "greedy0") == START_MS + 2 * HOUR_MS
    life.do(Complete("busy"), START_MS)
    assert start_ms_of(life, "modest") == START_MS


def test_owner_below_its_share_does_not_go_before_what_is_firm() -> None:
    life = planned_life()
    life.do(Submit(of("busy", 8)))
    life.do(Submit(of("greedy", 8)))
    life.do(Submit(of("modest", 8, "two")), NOW_MS + HOUR_MS)
    assert (firm_ms(life, "greedy"), firm_ms(life, "modest")) == (START_MS, START_MS + 2 * HOUR_MS)
    life.do(Complete("busy"), START_MS)
    assert life.phase("greedy") is Phase.RUNNING


@pytest.mark.heavy
def test_two_equal_owners_with_five_runs_each_alternate() -> None:
    life = planned_life(pool=quiet_pool(horizon_ms=0))
    life.do(Submit(of("busy", 8, "three", 60)))
    for owner in ("one", "two"):
        for number in range(5):
            life.do(Submit(of(f"{owner}-{number}", 8, owner, 60)))
    order = served(life, 60, 10)
    owners = [name.split("-")[0] for name in order]
    assert owners in (["one", "two"] * 5, ["two", "one"] * 5)
    for owner in ("one", "two"):
        assert [n for n in order if n.startswith(owner)] == [f"{owner}-{n}" for n in range(5)]


def test_run_that_was_submitted_first_goes_first_of_its_owner() -> None:
    life = planned_life(pool=quiet_pool(horizon_ms=0))
    life.do(Submit(of("busy", 8)))
    for number, name in enumerate(("b", "a", "c")):
        life.do(Submit(of(name, 8, "two", 60)), NOW_MS + number)
    starts = {name: foreseen_ms(life, name) for name in "abc"}
    assert sorted(starts, key=lambda name: starts[name] or 0) == ["b", "a", "c"]


def test_forecast_follows_the_queue_when_an_owner_falls_below_its_share() -> None:
    life = planned_life(16, pool=quiet_pool(horizon_ms=0))
    life.do(Submit(of("mine", 8, "one", 60)))
    life.do(Submit(of("yours", 8, "two", 600)))
    life.do(Submit(of("first", 16, "one", 60)))
    before_ms = foreseen_ms(life, "first")
    life.do(Submit(of("second", 16, "three", 60)), NOW_MS + MINUTE_MS)
    assert before_ms == NOW_MS + 10 * HOUR_MS
    assert foreseen_ms(life, "second") == before_ms
    assert foreseen_ms(life, "first") == before_ms + HOUR_MS


# --- The depth ---


def test_runs_that_come_to_wait_at_once_are_planned_to_the_depth_of_their_pool() -> None:
    life = planned_life(pool=quiet_pool(reservation_depth=2))
    life.do(Submit(of("busy", 8)))
    life.do(
        Apply(tuple(of(name, 8, owner) for name, owner in zip("abc", ["two"] * 3, strict=True)))
    )
    assert set(life.state.reservations) == {"a@1", "b@1"}
    assert foreseen(life, "c").state is PlanState.NOT_BEFORE


def test_run_beyond_the_depth_starts_in_what_the_plan_leaves() -> None:
    life = planned_life(pool=quiet_pool(reservation_depth=1))
    life.do(Submit(of("busy", 6)))
    life.do(Submit(of("wide", 8, "two", 60)))
    life.do(Submit(of("also-wide", 8, "two", 60)))
    life.do(Submit(of("brief", 2, "three", 60)))
    assert life.phase("brief") is Phase.RUNNING
    life.do(Submit(of("reaches", 2, "three", 121)))
    assert life.phase("reaches") is Phase.PENDING


def test_firm_run_stays_planned_when_others_come_before_it_in_the_queue() -> None:
    life = planned_life(pool=quiet_pool(reservation_depth=1))
    life.do(Submit(of("busy", 8)))
    life.do(Submit(of("first", 8, "one")))
    for number in range(3):
        life.do(Submit(of(f"new{number}", 8, "two")), NOW_MS + number)
    assert firm_ms(life, "first") == START_MS
    life.do(Complete("busy"), START_MS)
    assert start_ms_of(life, "first") == START_MS


@pytest.mark.parametrize("horizon_ms", [0, HOUR_MS])
def test_planning_writes_nothing_while_nothing_changes(horizon_ms: int) -> None:
    life = planned_life(pool=quiet_pool(horizon_ms=horizon_ms))
    life.do(Submit(of("busy", 8, minutes=600)))
    for number in range(5):
        life.do(Submit(of(f"r{number}", 8, "two")))
    for minutes in range(10, 590, 40):
        events = life.do(Tick(), NOW_MS + minutes * MINUTE_MS).events
        assert [type(e).__name__ for e in events if type(e).__name__ != "ReservationMade"] == []


def test_place_that_a_firm_run_leaves_early_goes_to_a_run_before_it_first() -> None:
    life = planned_life(pool=quiet_pool(horizon_ms=75 * MINUTE_MS))
    life.do(Submit(of("busy", 4, "two", 110)))
    life.do(Submit(of("long", 4, "one", 125)))
    life.do(Submit(of("firm", 4, "two", 60)), NOW_MS + 36 * MINUTE_MS)
    life.do(Submit(of("before", 8, "three", 60)))
    life.do(Submit(of("behind", 4, "two", 40)))
    assert firm_ms(life, "firm") == NOW_MS + 110 * MINUTE_MS
    assert firm_ms(life, "before") is firm_ms(life, "behind") is None
    life.do(Complete("busy"), NOW_MS + 52 * MINUTE_MS)
    assert start_ms_of(life, "firm") == NOW_MS + 52 * MINUTE_MS
    assert firm_ms(life, "before") == NOW_MS + 125 * MINUTE_MS
    assert firm_ms(life, "behind") is None
