"""Firm starts: all are kept to the millisecond, and submissions and ends move none."""

from __future__ import annotations

import random

import pytest

from quorate.core.commands import Apply, Cancel, Complete, Confirm, Submit, Tick
from quorate.core.planning.foresight import PlanState
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, node
from tests.oracles.lives import Life
from tests.oracles.plans import (
    OWNERS,
    alone,
    clashes,
    firm_ms,
    foreseen,
    foreseen_ms,
    moves,
    of,
    planned_life,
    quiet_pool,
    start_ms_of,
    tick_until,
)

START_MS = NOW_MS + 2 * HOUR_MS


# --- Firm or tentative ---


@pytest.mark.parametrize(("extra_ms", "is_firm"), [(0, True), (1, False)])
def test_planned_start_is_firm_up_to_the_horizon_of_its_pool(
    extra_ms: int,
    is_firm: bool,  # noqa: FBT001 - a parameter
) -> None:
    life = planned_life(pool=quiet_pool(horizon_ms=2 * HOUR_MS - extra_ms))
    life.do(Submit(of("busy", 8)))
    life.do(Submit(of("next", 8, "two")))
    assert firm_ms(life, "next") == (START_MS if is_firm else None)
    assert foreseen(life, "next").state is (PlanState.FIRM if is_firm else PlanState.TENTATIVE)
    assert foreseen_ms(life, "next") == START_MS


def test_forecast_becomes_firm_when_time_brings_it_within_the_horizon() -> None:
    life = planned_life(pool=quiet_pool(horizon_ms=HOUR_MS))
    life.do(Submit(of("busy", 8)))
    life.do(Submit(of("next", 8, "two")))
    tick_until(life, NOW_MS + HOUR_MS - 1)
    assert firm_ms(life, "next") is None
    tick_until(life, NOW_MS + HOUR_MS + 15 * MINUTE_MS)
    assert firm_ms(life, "next") == START_MS


@pytest.mark.heavy
def test_horizon_of_nothing_makes_no_start_firm() -> None:
    life = planned_life(pool=quiet_pool(horizon_ms=0))
    life.do(Submit(of("busy", 8)))
    life.do(Submit(of("next", 8, "two")))
    tick_until(life, START_MS - 1)
    assert life.state.reservations == {}
    life.do(Complete("busy"), START_MS)
    assert start_ms_of(life, "next") == START_MS


def test_run_beyond_the_depth_has_no_start_before_the_plan_leaves_one() -> None:
    life = planned_life(pool=quiet_pool(reservation_depth=1))
    life.do(Submit(of("busy", 8)))
    life.do(Submit(of("first", 8, "two", 60)))
    life.do(Submit(of("second", 8, "two", 60)))
    assert (firm_ms(life, "first"), firm_ms(life, "second")) == (START_MS, None)
    assert foreseen(life, "second").state is PlanState.NOT_BEFORE
    assert foreseen_ms(life, "second") == START_MS + HOUR_MS


# --- All of them can be kept ---


def test_firm_starts_of_several_runs_on_one_node_are_jointly_feasible() -> None:
    life = planned_life()
    life.do(Submit(of("busy", 5, minutes=60)))
    life.do(Submit(of("other", 3, minutes=90)))
    for name, gpus, minutes in (
        ("a", 8, 60),
        ("b", 4, 30),
        ("c", 6, 45),
        ("d", 3, 30),
        ("e", 2, 25),
    ):
        life.do(Submit(of(name, gpus, "two", minutes)))
        assert clashes(life) == []
    assert {record.made.run for record in life.state.reservations.values()} == set("abcde") - {
        name for name in "abcde" if life.phase(name) is Phase.RUNNING
    }


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(6))
def test_every_firm_start_is_met_to_the_millisecond_when_runs_take_what_they_declared(
    seed: int,
) -> None:
    chance = random.Random(seed)
    life = planned_life(pool=quiet_pool(horizon_ms=90 * MINUTE_MS))
    sizes = {}
    for number in range(14):
        gpus, minutes = chance.choice((1, 2, 3, 4, 6, 8)), chance.choice((15, 20, 45, 60))
        sizes[f"r{number}"] = minutes * MINUTE_MS
        life.do(Submit(of(f"r{number}", gpus, chance.choice(OWNERS), minutes)))
        assert clashes(life) == []
    promised: dict[str, int] = {}
    for _ in range(2_000):
        for name in life.state.pending:
            start_ms = firm_ms(life, name)
            if start_ms is not None:
                assert promised.setdefault(name, start_ms) == start_ms
        running = [r for r in life.state.runs.values() if r.phase is Phase.RUNNING]
        if not running:
            break
        ends = [(r.since_ms + sizes[r.spec.name], r.spec.name) for r in running if r.since_ms]
        end_ms, name = min(ends)
        due_ms = life.due_ms()
        if due_ms is not None and due_ms < end_ms:
            life.do(Tick(), due_ms)
        else:
            life.do(Complete(name), end_ms)
        assert clashes(life) == []
    assert not life.state.pending
    for name, start_ms in promised.items():
        assert start_ms_of(life, name) <= start_ms


# --- Equal instants ---


def test_lease_that_ends_exactly_at_a_firm_start_leaves_its_room_to_it() -> None:
    life = planned_life()
    life.do(Submit(of("busy", 8)))
    life.do(Submit(of("next", 8, "two")))
    decision = life.do(Tick(), START_MS)
    assert moves(decision) == []
    life.do(Complete("busy"), START_MS)
    assert start_ms_of(life, "next") == START_MS


def test_backfill_that_ends_exactly_at_a_firm_start_may_run() -> None:
    life = planned_life()
    life.do(Submit(of("busy", 4)))
    life.do(Submit(of("wide", 8, "two")))
    life.do(Submit(of("exact", 4, "three", 120)))
    assert life.phase("exact") is Phase.RUNNING
    assert clashes(life) == []
    for name in ("busy", "exact"):
        life.do(Complete(name), START_MS)
    assert start_ms_of(life, "wide") == START_MS


@pytest.mark.parametrize("horizon_ms", [0, HOUR_MS])
def test_run_keeps_its_place_at_the_instant_at_which_what_it_waits_for_is_to_end(
    horizon_ms: int,
) -> None:
    life = planned_life(pool=quiet_pool(horizon_ms=horizon_ms))
    life.do(Submit(of("busy", 6)))
    life.do(Submit(of("wide", 8, "two")))
    life.do(Submit(of("long", 2, "three", 600)))
    assert life.phase("long") is Phase.PENDING
    life.do(Tick(), START_MS)
    assert (life.phase("wide"), life.phase("long")) == (Phase.PENDING, Phase.PENDING)
    life.do(Complete("busy"), START_MS)
    assert start_ms_of(life, "wide") == START_MS


def test_two_firm_starts_at_one_instant_are_both_met() -> None:
    life = planned_life()
    life.do(Submit(of("busy", 8)))
    for name in ("left", "right"):
        life.do(Submit(of(name, 4, "two")))
        assert firm_ms(life, name) == START_MS
    life.do(Complete("busy"), START_MS)
    assert (start_ms_of(life, "left"), start_ms_of(life, "right")) == (START_MS, START_MS)


# --- Nothing that comes or goes moves one ---


def two_firm() -> Life:
    """Return a ledger in which ``first`` is firm for 2 hours from now, and ``second`` after it."""
    life = planned_life()
    life.do(Submit(of("busy", 6)))
    life.do(Submit(of("first", 8, "two", 60)))
    life.do(Submit(of("second", 8, "two", 60)))
    assert firms(life) == (START_MS, START_MS + HOUR_MS)
    return life


def firms(life: Life) -> tuple[int | None, int | None]:
    """Return the firm starts of ``first`` and ``second``."""
    return firm_ms(life, "first"), firm_ms(life, "second")


@pytest.mark.parametrize("owner", OWNERS)
def test_firm_start_does_not_move_because_another_run_is_submitted(owner: str) -> None:
    life = two_firm()
    for number, (gpus, minutes) in enumerate(((8, 10), (2, 30), (2, 119), (1, 600), (8, 600))):
        decision = life.do(Submit(of(f"new{number}", gpus, owner, minutes)), NOW_MS + number)
        assert moves(decision) == []
        assert firms(life) == (START_MS, START_MS + HOUR_MS)
        assert clashes(life) == []


def test_firm_start_does_not_move_because_the_reservation_before_it_is_cancelled() -> None:
    life = two_firm()
    decision = life.do(Cancel("first"), NOW_MS + MINUTE_MS)
    assert (moves(decision), firm_ms(life, "second")) == ([], START_MS + HOUR_MS)
    # It starts earlier when the room is really free.
    life.do(Complete("busy"), START_MS)
    assert start_ms_of(life, "second") == START_MS


def test_firm_start_does_not_move_because_a_running_run_is_cancelled() -> None:
    life = planned_life()
    life.do(Submit(of("busy", 6)))
    life.do(Submit(of("short", 2, minutes=90)))
    life.do(Submit(of("wide", 8, "two")))
    decision = life.do(Cancel("short"), NOW_MS + MINUTE_MS)
    assert (moves(decision), firm_ms(life, "wide")) == ([], START_MS)


def test_firm_start_does_not_move_because_the_one_before_it_starts_early() -> None:
    life = two_firm()
    decision = life.do(Complete("busy"), NOW_MS + MINUTE_MS)
    assert life.phase("first") is Phase.RUNNING
    assert (moves(decision), firm_ms(life, "second")) == ([], START_MS + HOUR_MS)


def test_firm_run_starts_early_only_where_it_delays_no_other_firm_start() -> None:
    life = planned_life()
    life.do(Submit(of("busy", 4, minutes=60)))
    life.do(Submit(of("more", 4, minutes=120)))
    life.do(Submit(of("first", 8, "two", 60)))
    life.do(Submit(of("second", 4, "three", 180)))
    assert firms(life) == (START_MS, START_MS + HOUR_MS)
    life.do(Complete("busy"), NOW_MS + HOUR_MS)
    assert life.phase("second") is Phase.PENDING
    assert firms(life) == (START_MS, START_MS + HOUR_MS)


def test_firm_start_does_not_move_because_nodes_are_added() -> None:
    life = two_firm()
    decision = life.do(Apply(tuple(fleet({"A": 8, "B": 8}))), NOW_MS + MINUTE_MS)
    assert moves(decision) == []
    assert life.phase("first") is Phase.RUNNING


def test_firm_start_does_not_move_however_often_time_is_told() -> None:
    life = two_firm()
    for minutes in range(1, 120, 7):
        assert moves(life.do(Tick(), NOW_MS + minutes * MINUTE_MS)) == []
    assert firms(life) == (START_MS, START_MS + HOUR_MS)


def test_a_start_moves_when_the_lease_outlasts_its_end_not_with_the_next_command() -> None:
    """Otherwise a submit or a cancel of any owner would move it."""
    in_a, in_b = ({"selector": (("fabric.domain", each),)} for each in "AB")
    life = planned_life(nodes=[node("a0", 8), node("b0", 8, "B")], has_executor=True)
    life.do(Submit(of("long", 4, "two", 241, **in_a)))
    life.do(Submit(of("other", 4, "two", 320, **in_a)))
    life.do(Submit(of("elsewhere", 8, "three", 900, **in_b)))
    life.do(Submit(of("waits", 1, "three", 900, **in_b)))
    life.do(Tick(), NOW_MS + 241 * MINUTE_MS + 1)
    life.do(Submit(of("firm", 8, "one", 60, **in_a)), NOW_MS + 242 * MINUTE_MS)
    moved = [each for tick in tick_until(life, NOW_MS + 304 * MINUTE_MS) for each in moves(tick)]
    assert [each.cause.objects for each in moved] == [(("lease", "long/0"),)]
    assert moves(life.do(Submit(of("another", 1, "three", 10, **in_b)))) == []
    assert moves(life.do(Cancel("waits"))) == []


def test_a_start_moves_when_the_run_of_a_filled_spare_outlasts_its_end() -> None:
    """The payer of the start pays for that spare only, and no lease is in the way."""
    in_a, in_b, in_c = ({"selector": (("fabric.domain", each),)} for each in "ABC")
    lines = (alone(envelope("e", 4, selector=in_a["selector"])), alone(envelope("f", 4)))
    life = planned_life(
        nodes=fleet({"A": 8, "B": 4, "C": 8}),
        budgets=[budget("b-one", "one", *lines)],
        has_executor=True,
    )
    life.do(Submit(of("late", 4, minutes=60, group_gpus=4, spares_per_group=4)))
    life.do(Submit(of("filler", 4, "two", 300, **in_a)))
    life.do(Submit(of("busy", 4, "three", 100, **in_b)))
    life.do(Submit(of("firm", 4, "one", 60, **in_b)))
    assert [pledge.payer for pledge in life.state.pledges.values()] == ["b-one/f"] * 4
    assert firm_ms(life, "firm") == NOW_MS + 100 * MINUTE_MS
    moved = [each for tick in tick_until(life, NOW_MS + 99 * MINUTE_MS) for each in moves(tick)]
    rung_ms = NOW_MS + 93 * MINUTE_MS + 45_000
    assert [(each.at_ms, each.cause.objects) for each in moved] == [
        (rung_ms + 1, (("lease", "late/0"),))
    ]
    assert moves(life.do(Submit(of("stranger", 1, "three", 10, **in_c)))) == []


def late_and_cancelled() -> Life:
    """Return a ledger in which an overdue run is cancelled shortly before a firm start."""
    life = planned_life(8, has_executor=True)
    life.do(Submit(of("late", 8, minutes=30, checkpoint_ms=5 * MINUTE_MS)))
    tick_until(life, NOW_MS + 39 * MINUTE_MS)
    life.do(Submit(of("firm", 8, "two", 30)))
    assert firm_ms(life, "firm") == NOW_MS + 45 * MINUTE_MS
    assert moves(life.do(Cancel("late"), NOW_MS + 43 * MINUTE_MS)) == []
    return life


def test_a_firm_start_that_counts_on_an_overdue_run_keeps_its_place_when_that_is_cancelled() -> (
    None
):
    life = late_and_cancelled()
    life.do(Confirm("late/0"), NOW_MS + 44 * MINUTE_MS)
    assert start_ms_of(life, "firm") == NOW_MS + 44 * MINUTE_MS


def test_a_firm_start_moves_when_it_is_due_if_a_cancelled_overdue_run_has_not_ended() -> None:
    life = late_and_cancelled()
    moved = [each for tick in tick_until(life, NOW_MS + 48 * MINUTE_MS) for each in moves(tick)]
    assert [(each.at_ms, each.planned_start_ms, each.cause.objects) for each in moved] == [
        (NOW_MS + 45 * MINUTE_MS, NOW_MS + 48 * MINUTE_MS, (("lease", "late/0"),))
    ]
