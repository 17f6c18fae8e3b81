"""Windows and hard quotas in the plan: a run starts as soon as they allow it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorate.core.commands import Cancel, Complete, Submit, Tick
from quorate.core.planning.foresight import PlanState
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import MoveCause, MoveCode
from quorate.model.refusal import RefusalCode
from quorate.model.specs import Envelope, OnQuota, Owner, Pool, Quota
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, budget, envelope, node
from tests.oracles.lives import Life
from tests.oracles.plans import (
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
OPENS_MS = NOW_MS + 90 * MINUTE_MS + 17


# --- Windows ---


def later(concurrency: int = 8) -> Envelope:
    """Return an envelope that opens at ``OPENS_MS`` and may be planned on before that."""
    line = alone(envelope("e", concurrency, start_ms=OPENS_MS))
    return replace(line, allow_reservations=True)


def opening_life(pool: Pool | None = None) -> Life:
    """Return a ledger in which the envelope of ``two`` opens later."""
    return planned_life(pool=pool, budgets=[budget("b-two", "two", later())])


def test_run_whose_window_opens_later_is_planned_for_that_very_millisecond() -> None:
    life = opening_life()
    life.do(Submit(of("waits", 8, "two")))
    assert firm_ms(life, "waits") == OPENS_MS
    tick_until(life, OPENS_MS - 1)
    assert life.phase("waits") is Phase.PENDING
    assert life.due_ms() == OPENS_MS
    life.do(Tick(), OPENS_MS)
    assert start_ms_of(life, "waits") == OPENS_MS


def test_run_whose_window_opens_later_keeps_no_room_from_what_is_gone_by_then() -> None:
    life = opening_life()
    life.do(Submit(of("waits", 8, "two")))
    life.do(Submit(of("brief", 8, minutes=90)))
    assert life.phase("brief") is Phase.RUNNING
    life.do(Submit(of("reaches", 1, "three", 91)))
    assert life.phase("reaches") is Phase.PENDING
    assert clashes(life) == []


def test_window_that_opens_beyond_the_horizon_is_a_forecast_until_it_is_near() -> None:
    life = opening_life(quiet_pool(horizon_ms=HOUR_MS))
    life.do(Submit(of("waits", 8, "two")))
    assert (firm_ms(life, "waits"), foreseen_ms(life, "waits")) == (None, OPENS_MS)
    tick_until(life, OPENS_MS)
    assert start_ms_of(life, "waits") == OPENS_MS


def test_run_is_planned_for_the_last_start_that_its_closing_window_allows() -> None:
    # A start must be paid for until the run's first hold ends.
    line = alone(envelope("e", 8, end_ms=START_MS + 10 * HOUR_MS))
    life = planned_life(budgets=[budget("b-two", "two", line)])
    life.do(Submit(of("busy", 8)))
    life.do(Submit(of("in-time", 8, "two")))
    assert firm_ms(life, "in-time") == START_MS


def test_run_whose_window_closes_before_there_is_room_has_no_start() -> None:
    line = alone(envelope("e", 8, end_ms=START_MS - 1))
    life = planned_life(budgets=[budget("b-two", "two", line)])
    life.do(Submit(of("busy", 8)))
    life.do(Submit(of("too-late", 8, "two")))
    assert (firm_ms(life, "too-late"), foreseen(life, "too-late").state) == (None, PlanState.NONE)


def test_run_that_no_envelope_will_ever_pay_holds_nothing() -> None:
    life = planned_life(budgets=[budget("b-two", "two", alone(envelope("e", 4)))])
    life.do(Submit(of("never", 8, "two")))
    assert foreseen(life, "never").state is PlanState.NONE
    life.do(Submit(of("long", 8, "three", 6_000)))
    assert life.phase("long") is Phase.RUNNING


def test_tentative_start_at_the_end_of_a_window_keeps_no_money_from_what_starts_before() -> None:
    line = alone(envelope("e", 8, gpu_ms_max=16 * HOUR_MS))
    life = planned_life(pool=quiet_pool(horizon_ms=HOUR_MS), budgets=[budget("b-two", "two", line)])
    # Its GPU-hours are enough only for the last two hours of the window.
    life.do(Submit(of("dear", 8, "two", 9 * 60)))
    assert foreseen(life, "dear").state is PlanState.TENTATIVE
    life.do(Submit(of("cheap", 8, "two", 60)))
    assert life.phase("cheap") is Phase.RUNNING


# --- Racks ---


def test_run_that_is_paid_in_one_rack_only_starts_in_a_domain_of_several() -> None:
    there = alone(envelope("e", 4, selector=(("region", "r"), ("rack", "r1"))))
    life = planned_life(
        nodes=[node("a0", 4, rack="r2"), node("a1", 4, rack="r1")],
        budgets=[budget("b-two", "two", there)],
    )
    life.do(Submit(of("there", 4, "two", 60)))
    assert life.on("there") == {"a1": 4}
    life.do(Submit(of("next", 4, "two", 60)))
    assert firm_ms(life, "next") == NOW_MS + HOUR_MS
    life.do(Complete("there"), NOW_MS + HOUR_MS)
    assert life.on("next") == {"a1": 4}


# --- Hard quotas ---


def limited_life(quota: Quota, pool: Pool | None = None) -> Life:
    """Return a ledger of two nodes in which ``two`` has a hard quota that ``own`` uses up."""
    life = planned_life(
        nodes=[node("a0"), node("a1")],
        pool=pool,
        owners=[Owner(name="two", quota=quota)],
    )
    life.do(Submit(of("own", 8, "two", 60)))
    life.do(Submit(of("waits", 8, "two", 60, on_quota=OnQuota.WAIT)))
    assert (life.phase("own"), life.phase("waits")) == (Phase.RUNNING, Phase.PENDING)
    return life


QUOTAS = pytest.mark.parametrize(
    "quota", [Quota(concurrent_runs_max=1), Quota(nodes_max=1)], ids=["runs", "nodes"]
)


@QUOTAS
def test_run_held_by_a_quota_is_planned_for_the_instant_at_which_it_frees(
    quota: Quota,
) -> None:
    life = limited_life(quota)
    refusal = life.state.runs["waits"].refusal
    assert refusal is not None
    assert refusal.code is RefusalCode.WAITING_FOR_QUOTA
    assert firm_ms(life, "waits") == NOW_MS + HOUR_MS
    life.do(Complete("own"), NOW_MS + HOUR_MS)
    assert start_ms_of(life, "waits") == NOW_MS + HOUR_MS


@QUOTAS
@pytest.mark.parametrize("whole_nodes", [False, True])
def test_run_held_by_a_quota_keeps_no_room_from_what_is_gone_by_then(
    quota: Quota,
    whole_nodes: bool,  # noqa: FBT001 - a parameter
) -> None:
    life = limited_life(quota, quiet_pool(whole_nodes=whole_nodes))
    life.do(Submit(of("brief", 8, "three", 60)))
    assert life.phase("brief") is Phase.RUNNING
    assert clashes(life) == []


@pytest.mark.parametrize("whole_nodes", [False, True])
def test_another_owner_uses_what_a_run_held_by_its_quota_will_not_need(
    whole_nodes: bool,  # noqa: FBT001 - a parameter
) -> None:
    life = limited_life(Quota(concurrent_runs_max=1), quiet_pool(whole_nodes=whole_nodes))
    # When its quota becomes free, the node with its owner's other run becomes free, too.
    life.do(Submit(of("long", 8, "three", 600)))
    assert (life.phase("long"), firm_ms(life, "waits")) == (Phase.RUNNING, NOW_MS + HOUR_MS)
    assert clashes(life) == []


def test_run_that_is_told_to_stop_counts_under_a_quota_until_its_lease_is_gone() -> None:
    limited = Owner(name="two", quota=Quota(concurrent_runs_max=1))
    life = planned_life(16, owners=[limited], has_executor=True)
    life.do(Submit(of("own", 8, "two", 60, checkpoint_ms=5 * MINUTE_MS)))
    life.do(Cancel("own"), NOW_MS + 10 * MINUTE_MS)
    life.do(Submit(of("waits", 8, "two", 60, on_quota=OnQuota.WAIT)))
    stopped_ms = NOW_MS + 15 * MINUTE_MS
    assert firm_ms(life, "waits") == stopped_ms
    (moved,) = moves(life.do(Tick(), stopped_ms + 1))
    assert moved.cause == MoveCause(MoveCode.EXECUTOR_LATE, (("lease", "own/0"),))
    assert moved.planned_start_ms == stopped_ms + 15 * MINUTE_MS
    assert clashes(life) == []


def test_quota_above_the_owner_frees_with_the_runs_of_its_family() -> None:
    above = Owner(name="org", quota=Quota(concurrent_runs_max=1))
    below = [Owner(name=name, parents=("org",)) for name in ("two", "three")]
    life = planned_life(16, owners=[above, *below])
    life.do(Submit(of("sibling", 4, "three", 45)))
    life.do(Submit(of("waits", 4, "two", on_quota=OnQuota.WAIT)))
    assert firm_ms(life, "waits") == NOW_MS + 45 * MINUTE_MS
    life.do(Complete("sibling"), NOW_MS + 45 * MINUTE_MS)
    assert life.phase("waits") is Phase.RUNNING


def test_runs_held_by_one_quota_are_planned_one_after_the_other() -> None:
    life = limited_life(Quota(concurrent_runs_max=1))
    life.do(Submit(of("again", 8, "two", 60, on_quota=OnQuota.WAIT)))
    assert firm_ms(life, "again") == NOW_MS + 2 * HOUR_MS
    assert clashes(life) == []


def test_run_under_a_quota_of_nothing_is_parked_and_holds_nothing() -> None:
    life = planned_life(owners=[Owner(name="two", quota=Quota(nodes_max=0))])
    life.do(Submit(of("never", 4, "two", on_quota=OnQuota.WAIT)))
    assert (life.state.reservations, foreseen(life, "never").state) == ({}, PlanState.NONE)
    life.do(Submit(of("long", 8, "three", 6_000)))
    assert life.phase("long") is Phase.RUNNING
