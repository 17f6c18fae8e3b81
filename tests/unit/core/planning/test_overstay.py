"""Overstaying: backfill past its declared end is stopped for a firm start."""

from __future__ import annotations

import pytest

from quorate.core.commands import Apply, Cancel, Complete, Confirm, MarkNode, Submit, Tick
from quorate.core.preemption.conflict_preview import Contest, foresee
from quorate.core.preemption.conflict_scope import Question
from quorate.core.profile.overstayers import overstayers
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import ConflictCause, CutStep, EndReason, MoveCode, NodeStatus, Scope
from quorate.model.specs import DEFAULT_POOL, Follow, Malleable, TaskArray
from quorate.model.state.records import Phase
from quorate.model.task_arrays import task_runs
from quorate.testing.builders import NOW_MS, fleet, node
from tests.oracles.lives import Life, ends, stops
from tests.oracles.plans import (
    clashes,
    firm_ms,
    marked,
    moves,
    of,
    planned_life,
    quiet_pool,
    start_ms_of,
    tick_until,
)

START_MS = NOW_MS + 2 * HOUR_MS
GRACE_MS = 5 * MINUTE_MS


def one_overstayer(*, has_executor: bool = False, checkpoint_ms: int = GRACE_MS) -> Life:
    """Return a ledger in which ``wide`` is firm for the end of ``busy``, with ``late`` in its way.

    ``late`` declared half an hour, and does not end by itself.
    """
    life = planned_life(has_executor=has_executor)
    life.do(Submit(of("busy", 4)))
    life.do(Submit(of("wide", 8, "two")))
    life.do(Submit(of("late", 4, "three", 30, checkpoint_ms=checkpoint_ms)))
    assert (firm_ms(life, "wide"), life.phase("late")) == (START_MS, Phase.RUNNING)
    return life


def test_what_starts_while_a_firm_run_waits_is_marked() -> None:
    life = one_overstayer()
    assert (marked(life, "late"), marked(life, "busy")) == ([0], [])


def test_what_starts_in_order_is_not_marked() -> None:
    life = planned_life(16)
    life.do(Submit(of("first", 4)))
    life.do(Submit(of("second", 4, "two")))
    assert (marked(life, "first"), marked(life, "second")) == ([], [])


def test_overstayer_is_stopped_at_the_firm_start_without_an_executor() -> None:
    life = one_overstayer()
    life.do(Complete("busy"), START_MS - MINUTE_MS)
    assert life.due_ms() == START_MS
    decision = life.do(Tick(), START_MS)
    assert ends(decision) == [("late/0", EndReason.OVERSTAYED)]
    assert (moves(decision), life.phase("wide")) == ([], Phase.RUNNING)


def test_overstayer_is_told_one_grace_before_the_firm_start_with_an_executor() -> None:
    life = one_overstayer(has_executor=True)
    told_ms = START_MS - GRACE_MS
    before = tick_until(life, told_ms - 1)
    assert [stops(each) for each in before if stops(each)] == []
    assert life.due_ms() == told_ms
    decision = life.do(Tick(), told_ms)
    assert stops(decision) == [("late/0", EndReason.OVERSTAYED)]
    assert moves(decision) == []
    life.do(Confirm("late/0"), START_MS - MINUTE_MS)
    life.do(Complete("busy", has_gone=True), START_MS)
    assert (life.phase("wide"), start_ms_of(life, "wide")) == (Phase.RUNNING, START_MS)


def test_overstayer_within_its_declared_time_is_not_stopped() -> None:
    life = planned_life()
    life.do(Submit(of("busy", 4)))
    life.do(Submit(of("wide", 8, "two")))
    life.do(Submit(of("exact", 4, "three", 120)))
    assert marked(life, "exact") == [0]
    assert ends(life.do(Tick(), START_MS - 1)) == []
    life.do(Complete("exact"), START_MS)
    life.do(Complete("busy"), START_MS)
    assert start_ms_of(life, "wide") == START_MS


def test_backfill_that_ends_one_grace_before_the_start_is_told_at_its_very_end() -> None:
    life = planned_life(has_executor=True)
    life.do(Submit(of("busy", 4)))
    life.do(Submit(of("wide", 8, "two")))
    life.do(Submit(of("late", 4, "three", 115, checkpoint_ms=GRACE_MS)))
    assert marked(life, "late") == [0]
    tick_until(life, START_MS - GRACE_MS - 1)
    decision = life.do(Tick(), START_MS - GRACE_MS)
    assert stops(decision) == [("late/0", EndReason.OVERSTAYED)]


def test_lease_older_than_the_waiting_of_a_firm_run_is_not_stopped_for_it() -> None:
    life = planned_life()
    life.do(Submit(of("old", 4, "three", 30)))
    life.do(Submit(of("busy", 4)))
    life.do(Submit(of("wide", 8, "two")))
    decisions = tick_until(life, START_MS)
    assert [ends(each) for each in decisions if ends(each)] == []
    assert life.phase("old") is Phase.RUNNING
    (moved,) = [event for each in decisions for event in moves(each)]
    assert (moved.cause.code, moved.cause.objects) == (
        MoveCode.LEASE_OVERRAN,
        (("lease", "old/0"),),
    )


def test_overstayer_goes_on_where_the_firm_start_lacks_nothing_of_it() -> None:
    life = planned_life(nodes=[node("a0", 8, "A"), node("b0", 8, "B")])
    here, there = ((("fabric.domain", domain),) for domain in "AB")
    life.do(Submit(of("busy", 4, selector=here)))
    life.do(Submit(of("wide", 8, "two", selector=here)))
    life.do(Submit(of("late", 4, "three", 30, selector=here)))
    life.do(Submit(of("aside", 4, "three", 30, selector=there)))
    assert (marked(life, "late"), marked(life, "aside")) == ([0], [0])
    life.do(Complete("busy"), START_MS - MINUTE_MS)
    assert ends(life.do(Tick(), START_MS)) == [("late/0", EndReason.OVERSTAYED)]
    assert (life.phase("wide"), life.phase("aside")) == (Phase.RUNNING, Phase.RUNNING)


def test_newest_of_two_overstayers_goes_where_one_is_enough() -> None:
    life = planned_life(nodes=[node("a0", 4), node("a1", 4)])
    life.do(Submit(of("busy", 4)))
    life.do(Submit(of("wide", 8, "two")))
    for number, name in enumerate(("old", "new")):
        life.do(Submit(of(name, 2, "three", 30)), NOW_MS + number)
    life.do(Apply((node("more", 2),)))
    life.do(Complete("busy"), START_MS - 1)
    assert ends(life.do(Tick(), START_MS)) == [("new/0", EndReason.OVERSTAYED)]
    assert (life.phase("wide"), life.phase("old")) == (Phase.RUNNING, Phase.RUNNING)


# --- Other reservations change nothing ---


def behind_a_decoy(*, has_executor: bool = False) -> Life:
    """Return a ledger in which ``late`` started before ``decoy`` and before ``wide`` after it."""
    life = planned_life(has_executor=has_executor)
    life.do(Submit(of("busy", 4)))
    life.do(Submit(of("decoy", 8, "two", 60)))
    life.do(Submit(of("wide", 8, "two", 60)))
    life.do(Submit(of("late", 4, "three", 30, checkpoint_ms=GRACE_MS)))
    assert (firm_ms(life, "decoy"), firm_ms(life, "wide")) == (START_MS, START_MS + HOUR_MS)
    assert (life.phase("late"), marked(life, "late")) == (Phase.RUNNING, [0])
    return life


@pytest.mark.parametrize("minutes", [1, 40, 119])
def test_overstayer_is_stopped_one_grace_before_the_firm_start_though_a_decoy_was_cancelled(
    minutes: int,
) -> None:
    life = behind_a_decoy(has_executor=True)
    life.do(Cancel("decoy"), NOW_MS + minutes * MINUTE_MS)
    firm = firm_ms(life, "wide")
    assert firm == START_MS + HOUR_MS
    life.do(Complete("busy", has_gone=True), START_MS)
    tick_until(life, firm - GRACE_MS - 1)
    assert life.phase("late") is Phase.RUNNING
    decision = life.do(Tick(), firm - GRACE_MS)
    assert stops(decision) == [("late/0", EndReason.OVERSTAYED)]
    life.do(Confirm("late/0"), firm - MINUTE_MS)
    assert life.phase("wide") is Phase.RUNNING


def test_decoy_that_is_submitted_and_cancelled_before_the_backfill_starts_changes_nothing() -> None:
    life = planned_life(has_executor=True)
    life.do(Submit(of("busy", 4)))
    life.do(Submit(of("wide", 8, "two")))
    life.do(Submit(of("decoy", 8, "three", 60)))
    life.do(Cancel("decoy"), NOW_MS + MINUTE_MS)
    life.do(Submit(of("late", 4, "three", 30, checkpoint_ms=GRACE_MS)))
    tick_until(life, START_MS - GRACE_MS - 1)
    assert life.phase("late") is Phase.RUNNING
    decision = life.do(Tick(), START_MS - GRACE_MS)
    assert stops(decision) == [("late/0", EndReason.OVERSTAYED)]


def test_early_start_of_one_reservation_leaves_the_overstayer_to_the_other() -> None:
    life = planned_life(has_executor=True)
    life.do(Submit(of("busy", 6)))
    life.do(Submit(of("early", 4, "two", 30)))
    life.do(Submit(of("wide", 8, "two", 60)))
    life.do(Submit(of("late", 2, "three", 30, checkpoint_ms=GRACE_MS)))
    firm = START_MS + 30 * MINUTE_MS
    assert (firm_ms(life, "early"), firm_ms(life, "wide")) == (START_MS, firm)
    life.do(Complete("busy", has_gone=True), NOW_MS + HOUR_MS)
    assert start_ms_of(life, "early") == NOW_MS + HOUR_MS
    assert firm_ms(life, "wide") == firm
    life.do(Complete("early", has_gone=True), NOW_MS + 90 * MINUTE_MS)
    assert firm_ms(life, "wide") == firm
    tick_until(life, firm - GRACE_MS - 1)
    assert life.phase("late") is Phase.RUNNING
    decision = life.do(Tick(), firm - GRACE_MS)
    assert stops(decision) == [("late/0", EndReason.OVERSTAYED)]


def test_overstayer_in_front_of_two_firm_starts_is_stopped_for_the_one_that_needs_its_room() -> (
    None
):
    life = planned_life()
    life.do(Submit(of("busy", 4)))
    life.do(Submit(of("narrow", 6, "two", 60)))
    life.do(Submit(of("wide", 8, "two", 60)))
    life.do(Submit(of("late", 2, "three", 30)))
    life.do(Complete("busy"), START_MS)
    assert (start_ms_of(life, "narrow"), life.phase("late")) == (START_MS, Phase.RUNNING)
    decision = life.do(Complete("narrow"), START_MS + HOUR_MS)
    assert ("late/0", EndReason.OVERSTAYED) in ends(decision)
    assert start_ms_of(life, "wide") == START_MS + HOUR_MS


def test_reservation_cancelled_hours_ago_lets_no_conflict_end_an_overdue_run_first() -> None:
    life = behind_a_decoy()
    life.do(Cancel("decoy"), NOW_MS + MINUTE_MS)
    life.do(Cancel("wide"))
    life.do(Complete("busy"), START_MS)
    life.now_ms = START_MS + 3 * HOUR_MS
    question = Question(ConflictCause.BY_HAND, Scope(DEFAULT_POOL, "H100", ()), gpus=4)
    found = foresee(life.state, question, life.now_ms)
    assert isinstance(found, Contest), found
    assert (found.cuts, [each.run for each in found.entrants]) == ((), ["late"])


@pytest.mark.heavy
def test_reservation_cancelled_hours_ago_ends_no_overdue_run_for_one_that_came_later() -> None:
    life = behind_a_decoy()
    life.do(Cancel("decoy"), NOW_MS + MINUTE_MS)
    life.do(Cancel("wide"))
    life.do(Submit(of("new", 8, "two")), START_MS + 3 * HOUR_MS)
    firm = firm_ms(life, "new")
    assert firm is not None
    decisions = tick_until(life, firm + 1)
    assert [ends(each) for each in decisions if ends(each)] == []
    question = Question(ConflictCause.BY_HAND, Scope(DEFAULT_POOL, "H100", ()), gpus=4)
    found = foresee(life.state, question, life.now_ms)
    assert isinstance(found, Contest), found
    assert CutStep.BACKFILL not in {cut.step for cut in found.cuts}


def test_conflict_by_hand_ends_an_overstayer_of_a_firm_start_first() -> None:
    life = one_overstayer()
    life.now_ms = NOW_MS + HOUR_MS
    question = Question(ConflictCause.BY_HAND, Scope(DEFAULT_POOL, "H100", ()), gpus=4)
    found = foresee(life.state, question, life.now_ms)
    assert isinstance(found, Contest)
    assert [(cut.step, cut.run) for cut in found.cuts] == [(CutStep.BACKFILL, "late")]


# --- No grace ---


def without_grace(*, has_executor: bool) -> Life:
    """Return a ledger in which ``wide`` is firm in an hour, and ``late`` needs no time to stop."""
    life = planned_life(pool=quiet_pool(horizon_ms=HOUR_MS), has_executor=has_executor)
    life.do(Submit(of("busy", 4, minutes=60)))
    life.do(Submit(of("wide", 8, "two", 90)))
    life.do(Submit(of("late", 4, "three", 30)))
    assert firm_ms(life, "wide") == NOW_MS + HOUR_MS
    return life


def test_overstayer_without_grace_is_stopped_at_the_start_and_the_firm_run_starts_at_once() -> None:
    life = without_grace(has_executor=False)
    firm = NOW_MS + HOUR_MS
    tick_until(life, firm - 1)
    assert life.phase("late") is Phase.RUNNING
    life.do(Complete("busy"), firm)
    life.do(Tick(), firm)
    assert life.phase("late") is not Phase.RUNNING
    assert (life.phase("wide"), start_ms_of(life, "wide")) == (Phase.RUNNING, firm)


@pytest.mark.heavy
def test_overstayer_without_grace_is_told_at_the_start_and_the_firm_run_starts_when_it_has_gone() -> (  # noqa: E501
    None
):
    life = without_grace(has_executor=True)
    firm = NOW_MS + HOUR_MS
    tick_until(life, firm - MINUTE_MS)
    life.do(Submit(of("behind", 4, "one", 60)))
    assert firm_ms(life, "behind") is None
    life.do(Tick(), firm - 1)
    assert life.stopping() == []
    life.do(Complete("busy", has_gone=True), firm)
    assert life.stopping() == ["late/0"]
    assert life.phase("wide") is Phase.PENDING
    for seconds in (1, 30, 60):
        decision = life.do(Tick(), firm + 1_000 * seconds)
        assert {event.cause.code for event in moves(decision)} <= {MoveCode.EXECUTOR_LATE}
        assert (life.phase("wide"), life.phase("behind")) == (Phase.PENDING, Phase.PENDING)
    life.do(Confirm("late/0"), firm + 2 * MINUTE_MS)
    assert (life.phase("wide"), life.phase("behind")) == (Phase.RUNNING, Phase.PENDING)
    assert start_ms_of(life, "wide") == firm + 2 * MINUTE_MS


def test_later_run_does_not_start_in_front_of_a_firm_start_that_it_would_reach() -> None:
    life = without_grace(has_executor=False)
    life.do(Complete("late"), NOW_MS + 30 * MINUTE_MS)
    life.do(Submit(of("reaches", 4, "three", 31)))
    assert life.phase("reaches") is Phase.PENDING
    life.do(Submit(of("fits", 4, "three", 30)))
    assert life.phase("fits") is Phase.RUNNING
    assert clashes(life) == []


# --- Runs that were requeued ---


def test_requeued_run_waits_anew_so_that_what_ran_before_is_no_overstayer_to_it() -> None:
    life = planned_life(nodes=[node("a0", 4), node("a1", 4)])
    life.do(Submit(of("again", 4, "two")))
    life.do(Submit(of("wide", 8)))
    life.do(Submit(of("late", 4, "three", 30)))
    assert marked(life, "late") == [0]
    life.do(Cancel("wide"), NOW_MS + MINUTE_MS)
    where = next(iter(life.on("again")))
    life.do(MarkNode(where, NodeStatus.FAILED))
    assert life.phase("again") is Phase.PENDING
    firm = firm_ms(life, "again")
    assert firm == NOW_MS + 30 * MINUTE_MS
    decisions = tick_until(life, firm + 1)
    assert [ends(each) for each in decisions if ends(each)] == []
    assert [event.cause.code for each in decisions for event in moves(each)] == [
        MoveCode.LEASE_OVERRAN
    ]


def test_requeued_overstayer_is_marked_by_how_it_started_last() -> None:
    life = planned_life(nodes=[node("a0", 4), node("a1", 4)])
    life.do(Submit(of("busy", 4)))
    life.do(Submit(of("wide", 8, "two")))
    life.do(Submit(of("late", 4, "three", 30)))
    assert marked(life, "late") == [0]
    where = next(iter(life.on("late")))
    life.do(MarkNode(where, NodeStatus.FAILED), NOW_MS + MINUTE_MS)
    assert (life.phase("late"), marked(life, "late")) == (Phase.PENDING, [])
    life.do(Cancel("wide"))
    life.do(MarkNode(where, NodeStatus.READY))
    assert (life.phase("late"), marked(life, "late")) == (Phase.RUNNING, [])


def test_one_overstayer_that_is_told_late_is_enough_and_the_start_waits_for_it() -> None:
    """The program was down when the stop was due: a second run would end no sooner."""
    life = planned_life(has_executor=True)
    life.do(Submit(of("busy", 4)))
    life.do(Submit(of("wide", 6, "two")))
    life.do(Submit(of("older", 2, "three", 30, checkpoint_ms=GRACE_MS)))
    life.do(Submit(of("newer", 2, "three", 30, checkpoint_ms=GRACE_MS)))
    assert firm_ms(life, "wide") == START_MS
    decision = life.do(Complete("busy", has_gone=True), START_MS)
    assert stops(decision) == [("newer/0", EndReason.OVERSTAYED)]
    assert firm_ms(life, "wide") == START_MS + GRACE_MS
    assert life.do(Tick(), START_MS).events == ()
    life.do(Confirm("newer/0"), START_MS + GRACE_MS)
    assert start_ms_of(life, "wide") == START_MS + GRACE_MS
    assert life.phase("older") is Phase.RUNNING


@pytest.mark.parametrize("has_executor", [True, False])
def test_a_newer_bundle_is_spared_if_an_older_one_is_enough_alone(has_executor: bool) -> None:  # noqa: FBT001 - a parameter of the test
    in_a, in_b = ({"selector": (("fabric.domain", each),)} for each in "AB")
    nodes = [node("a0", 8, "A"), node("a1", 9, "A"), node("b0", 1, "B")]
    life = planned_life(nodes=nodes, has_executor=has_executor)
    life.do(Submit(of("first", 8, "two", 60, **in_a)))
    life.do(Submit(of("other", 1, "two", 600, **in_b)))
    life.do(Submit(of("due", 16, "one", 60, **in_a)))
    life.do(Submit(of("big", 8, "three", 30, **in_a)))
    life.do(Submit(of("small", 1, "three", 30, **in_a)))
    assert marked(life, "big") == marked(life, "small") == [0]
    due_ms = firm_ms(life, "due")
    assert due_ms == NOW_MS + 60 * MINUTE_MS
    decision = life.do(Complete("first", has_gone=True), due_ms)
    stopped = stops(decision) or stops(life.do(Tick(), due_ms + 1))
    assert stopped == [("big/0", EndReason.OVERSTAYED)]


def test_the_steps_of_an_overstayer_free_their_gpus_once() -> None:
    """Stopping the first bundle of a run stops its steps, which are separate bundles."""
    life = planned_life(16, has_executor=True)
    life.do(Submit(of("busy", 8)))
    life.do(Submit(of("wide", 16, "two")))
    life.do(Submit(of("older", 2, "three", 30, checkpoint_ms=0)))
    steps = Malleable(gpus_min=2, gpus_max=6, gpus_step=2, gpus_desired=6)
    life.do(Submit(of("newer", 6, "three", 30, malleable=steps, checkpoint_ms=0)))
    assert (marked(life, "older"), marked(life, "newer")) == ([0], [0, 1, 2])
    held = [lease for each in overstayers(life.state, START_MS) for lease in each.leases]
    assert sorted(held) == ["newer/0", "newer/1", "newer/2", "older/0"]
    decision = life.do(Complete("busy", has_gone=True), START_MS)
    assert {lease.partition("/")[0] for lease, _ in stops(decision)} == {"older", "newer"}
    assert life.do(Tick()).events == ()


@pytest.mark.parametrize("follows", [False, True])
def test_backfill_is_not_stopped_for_a_follower_that_began_to_wait_after_it(
    *, follows: bool
) -> None:
    here, there = (("fabric.domain", "A"),), (("fabric.domain", "B"),)
    life = planned_life(nodes=fleet({"A": 8, "B": 8}))
    life.do(Submit(of("upstream", 8, minutes=75, selector=there)))
    if follows:
        follow = Follow(after=("upstream",))
        life.do(Submit(of("follower", 4, "two", selector=here, follow=follow)))
    life.do(Submit(of("hold", 4, minutes=240, selector=here)))
    life.do(Submit(of("wide", 8, minutes=60, selector=here)))
    life.do(Submit(of("fill", 4, "three", minutes=60, selector=here)))
    assert marked(life, "fill") == [0]
    life.do(Cancel("wide"), NOW_MS + 70 * MINUTE_MS)
    life.do(Complete("upstream"), NOW_MS + 75 * MINUTE_MS)
    if not follows:
        life.do(Submit(of("follower", 4, "two", selector=here)))
    assert firm_ms(life, "follower") is not None
    found = [end for each in tick_until(life, NOW_MS + 200 * MINUTE_MS) for end in ends(each)]
    assert ("fill/0", EndReason.OVERSTAYED) not in found


def test_backfill_is_not_stopped_for_a_task_that_was_released_after_it() -> None:
    life = planned_life(nodes=fleet({"A": 12}, gpus=12))
    array = TaskArray(name="tasks", tasks="0-1", at_once_max=1)
    life.do(Apply(task_runs(of("tasks", 4, "two", minutes=75, array=array))))
    life.do(Submit(of("hold", 4, minutes=240)))
    life.do(Submit(of("wide", 12, minutes=60)))
    life.do(Submit(of("fill", 4, "three", minutes=60)))
    assert marked(life, "fill") == [0]
    life.do(Cancel("wide"), NOW_MS + 70 * MINUTE_MS)
    life.do(Submit(of("next", 4, minutes=240)))
    life.do(Complete("tasks_0"), NOW_MS + 75 * MINUTE_MS)
    assert {life.phase("tasks_1"), life.phase("next")} == {Phase.RUNNING, Phase.PENDING}
    found = [end for each in tick_until(life, NOW_MS + 200 * MINUTE_MS) for end in ends(each)]
    assert life.phase("next") is Phase.RUNNING
    assert ("fill/0", EndReason.OVERSTAYED) not in found
