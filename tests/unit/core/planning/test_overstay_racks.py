"""Overstaying if counting GPUs is not enough: payers that name racks, and whole nodes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorate.core.commands import Apply, Complete, Confirm, Submit, Tick
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    BackfillNoted,
    EndReason,
    LeaseEnded,
    MoveCode,
    ReservationMoved,
    StartReason,
)
from quorate.model.specs import Budget, Malleable, Node, Owner, Quota, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, budget, envelope, node
from tests.oracles.lives import Life, ends, stops
from tests.oracles.plans import alone, firm_ms, marked, moves, of, planned_life, quiet_pool

START_MS = NOW_MS + 2 * HOUR_MS
FIRST, SECOND = ((("rack", name),) for name in ("r1", "r2"))


def racks(first: int, second: int) -> list[Node]:
    """Return nodes of 4 GPUs in the first and the second rack of one domain."""
    return [
        node(f"a{number}", 4, rack="r1" if number < first else "r2")
        for number in range(first + second)
    ]


def money(rack: str = "r1", *, more: int = 1) -> Budget:
    """Return the budget of ``two``: 4 GPUs anywhere, 4 in one rack, and ``more`` anywhere."""
    there = (("region", "r"), ("rack", rack))
    lines = (envelope("any", 4), envelope("rack", 4, selector=there), envelope("more", more))
    return budget("b-two", "two", *map(alone, lines))


def wide() -> Run:
    """Return the run that needs the first rack for half of its GPUs."""
    return of("wide", 8, "two", group_gpus=4)


def one_in_front(*, has_executor: bool = False, owners: tuple[Owner, ...] = ()) -> Life:
    """Return a ledger in which ``wide`` is firm for the end of ``busy``.

    ``late`` has 2 of the 4 GPUs in the first rack and should have ended by then.
    """
    life = planned_life(
        nodes=racks(1, 2), budgets=[money()], has_executor=has_executor, owners=owners
    )
    life.do(Submit(of("busy", 8, selector=SECOND)))
    life.do(Submit(wide()))
    assert firm_ms(life, "wide") == START_MS
    life.do(Submit(of("late", 2, "three", 30, selector=FIRST, checkpoint_ms=5 * MINUTE_MS)))
    assert marked(life, "late") == [0]
    return life


def test_overstayer_that_only_racks_put_in_the_way_is_stopped() -> None:
    life = one_in_front()
    life.do(Complete("busy"), START_MS - MINUTE_MS)
    assert life.phase("late") is Phase.RUNNING
    decision = life.do(Tick(), START_MS)
    assert ends(decision) == [("late/0", EndReason.OVERSTAYED)]
    assert (moves(decision), life.phase("wide")) == ([], Phase.RUNNING)


def test_overstayer_that_only_racks_put_in_the_way_is_told_one_grace_ahead() -> None:
    life = one_in_front(has_executor=True)
    life.do(Complete("busy", has_gone=True), START_MS - 10 * MINUTE_MS)
    decision = life.do(Tick(), START_MS - 5 * MINUTE_MS)
    assert stops(decision) == [("late/0", EndReason.OVERSTAYED)]
    life.do(Confirm("late/0"), START_MS - MINUTE_MS)
    assert life.phase("wide") is Phase.RUNNING


def test_overstayer_is_stopped_in_time_for_what_is_expected_to_end_at_this_very_instant() -> None:
    life = one_in_front()
    assert ends(life.do(Tick(), START_MS)) == [("late/0", EndReason.OVERSTAYED)]
    assert life.phase("busy") is Phase.RUNNING


def test_overstayer_in_a_pool_of_whole_nodes_leaves_its_whole_node() -> None:
    life = planned_life(
        nodes=[node("a0"), node("a1")], pool=quiet_pool(whole_nodes=True), has_executor=True
    )
    life.do(Submit(of("busy", 8)))
    life.do(Submit(of("wide", 16, "two")))
    assert firm_ms(life, "wide") == START_MS
    life.do(Submit(of("late", 8, "three", 30, checkpoint_ms=5 * MINUTE_MS)))
    assert marked(life, "late") == [0]
    decision = life.do(Tick(), START_MS - 5 * MINUTE_MS)
    assert stops(decision) == [("late/0", EndReason.OVERSTAYED)]


# --- Quotas ---


def test_overstayer_goes_on_where_a_hard_quota_is_what_the_firm_start_waits_for() -> None:
    above = Owner(name="org", quota=Quota(concurrent_runs_max=2))
    below = (Owner(name=name, parents=("org",)) for name in ("two", "three"))
    life = planned_life(nodes=[node("a0"), node("b0", 8, "B")], owners=[above, *below])
    here, there = ((("fabric.domain", domain),) for domain in "AB")
    life.do(Submit(of("busy", 8, selector=here)))
    life.do(Submit(of("wide", 8, "two", selector=here)))
    life.do(Submit(of("late", 4, "three", 30, selector=there)))
    assert (firm_ms(life, "wide"), marked(life, "late")) == (START_MS, [0])
    life.do(Complete("busy"), START_MS - MINUTE_MS)
    assert life.phase("wide") is Phase.RUNNING


def test_quota_that_was_tightened_stops_no_overstayer() -> None:
    above = Owner(name="org", quota=Quota(concurrent_runs_max=2))
    below = (Owner(name=name, parents=("org",)) for name in ("two", "three"))
    life = planned_life(nodes=[node("a0"), node("b0", 8, "B")], owners=[above, *below])
    here, there = ((("fabric.domain", domain),) for domain in "AB")
    life.do(Submit(of("busy", 8, selector=here)))
    life.do(Submit(of("wide", 8, "two", selector=here)))
    life.do(Submit(of("late", 4, "three", 30, selector=there)))
    life.do(Tick(), NOW_MS + 40 * MINUTE_MS)
    life.do(Apply((Owner(name="org", quota=Quota(concurrent_runs_max=1)),)))
    life.do(Complete("busy"), START_MS - MINUTE_MS)
    decision = life.do(Tick(), START_MS)
    assert (ends(decision), life.phase("late")) == ([], Phase.RUNNING)
    assert life.phase("wide") is Phase.PENDING
    codes = {event.cause.code for event in life.events if isinstance(event, ReservationMoved)}
    assert codes <= {MoveCode.QUOTA_CHANGED, MoveCode.LEASE_OVERRAN}


# --- Marks ---


@pytest.mark.parametrize("backfill", [False, True])
def test_step_that_comes_back_is_marked_by_how_it_comes_back(
    backfill: bool,  # noqa: FBT001 - a parameter
) -> None:
    life = planned_life(nodes=racks(1, 1))
    steps = Malleable(gpus_min=2, gpus_max=4, gpus_step=2, gpus_desired=4)
    life.do(Submit(of("elastic", 4, group_gpus=2, malleable=steps)))
    state = life.state.overlay()
    first = state.leases["elastic/1"].fact
    assert first.bundle == 1
    noted = BackfillNoted(
        at_ms=NOW_MS,
        actor="test",
        run="elastic",
        bundle=1,
        vacate_ms=START_MS,
        reservation="wide@1",
    )
    ended = LeaseEnded(
        at_ms=START_MS,
        actor="test",
        lease="elastic/1",
        reason=EndReason.OVERSTAYED,
        end_ms=START_MS,
    )
    apply_all(state, [noted, ended])
    again = replace(
        first,
        at_ms=START_MS,
        lease="elastic/2",
        start_ms=START_MS,
        reason=StartReason.GROW,
        backfill=backfill,
    )
    apply_all(state, [again])
    assert ("elastic" in state.backfilled) is backfill
    seqs = [mark.seq for mark in state.runs["elastic"].backfills if mark.bundle == 1]
    assert seqs == ([state.seq] if backfill else [])
