"""Causes of moved firm starts: each names an object that was late, lost or withdrawn."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorate.core.commands import (
    Apply,
    Cancel,
    Complete,
    Confirm,
    Drain,
    Fail,
    MarkNode,
    Reported,
    Submit,
    Tick,
)
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import MoveCause, MoveCode, NodeStatus, ReservationStatus
from quorate.model.specs import Budget, Cap, Owner, Pool, Quota
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, WINDOW_END_MS, budget, envelope, node
from tests.oracles.lives import Life, ends
from tests.oracles.plans import (
    alone,
    clashes,
    firm_ms,
    funds,
    moves,
    of,
    planned_life,
    quiet_pool,
    start_ms_of,
    tick_until,
)

START_MS = NOW_MS + 2 * HOUR_MS
SOON_MS = NOW_MS + MINUTE_MS


def two_money(gpus: int = 16, *, end_ms: int = WINDOW_END_MS) -> Budget:
    """Return the budget of owner ``two``."""
    return budget("b-two", "two", alone(envelope("e", gpus, end_ms=end_ms)))


def one_firm(*, gpus: int = 16, owners: tuple[Owner, ...] = ()) -> Life:
    """Return a ledger of two nodes that are full until ``wide`` is firm for 16 GPUs."""
    life = planned_life(nodes=[node("a0"), node("a1")], budgets=[two_money(gpus)], owners=owners)
    life.do(Submit(of("busy", 16)))
    life.do(Submit(of("wide", 16, "two")))
    assert firm_ms(life, "wide") == START_MS
    return life


# --- Late ---


def test_firm_start_moves_to_the_next_rung_of_a_lease_that_overran() -> None:
    life = one_firm()
    assert moves(life.do(Tick(), START_MS)) == []
    (moved,) = moves(life.do(Tick(), START_MS + 1))
    assert moved.planned_start_ms == START_MS + 30 * MINUTE_MS
    assert moved.status is ReservationStatus.DEFERRED
    assert moved.cause.code is MoveCode.LEASE_OVERRAN
    assert {name.split("/")[0] for _, name in moved.cause.objects} == {"busy"}


def test_firm_start_that_moved_starts_as_soon_as_the_late_lease_has_gone() -> None:
    life = one_firm()
    life.do(Tick(), START_MS + 1)
    life.do(Complete("busy"), START_MS + MINUTE_MS)
    assert start_ms_of(life, "wide") == START_MS + MINUTE_MS


def test_firm_start_moves_with_the_next_command_even_if_that_is_turned_away() -> None:
    """A stop is late for the second time, and a run is submitted beyond the depth of the pool."""
    life = planned_life(has_executor=True, pool=quiet_pool(reservation_depth=1))
    life.do(Submit(of("stops", 4, checkpoint_ms=5 * MINUTE_MS)))
    life.do(Submit(of("busy", 4, minutes=30)))
    life.do(Cancel("stops"))
    life.do(Submit(of("next", 8, "two")))
    life.do(Submit(of("behind", 8, "three")))
    assert firm_ms(life, "next") == NOW_MS + 30 * MINUTE_MS
    # Its deadline was after 5 minutes, so it is expected to end after 20, and then after 35.
    assert moves(life.do(Submit(of("more", 8, "three")), NOW_MS + 19 * MINUTE_MS)) == []
    (moved,) = moves(life.do(Submit(of("most", 8, "three")), NOW_MS + 21 * MINUTE_MS))
    assert moved.planned_start_ms == NOW_MS + 35 * MINUTE_MS
    assert moved.cause == MoveCause(MoveCode.EXECUTOR_LATE, (("lease", "stops/0"),))


def test_only_the_firm_start_that_lacks_the_room_of_a_late_lease_moves() -> None:
    life = planned_life(nodes=[node("a0", 8, "A"), node("b0", 8, "B")])
    here, there = ((("fabric.domain", domain),) for domain in "AB")
    for name, where in (("a", here), ("b", there)):
        life.do(Submit(of(f"busy-{name}", 8, selector=where)))
        life.do(Submit(of(f"next-{name}", 8, "two", selector=where)))
    life.do(Complete("busy-b"), START_MS)
    assert start_ms_of(life, "next-b") == START_MS
    (moved,) = moves(life.do(Tick(), START_MS + 1))
    assert (moved.reservation, moved.cause) == (
        "next-a@1",
        MoveCause(MoveCode.LEASE_OVERRAN, (("lease", "busy-a/0"),)),
    )


def test_move_is_planned_around_firm_starts_that_stand() -> None:
    life = planned_life(nodes=[node("a0", 8, "A"), node("b0", 8, "B")])
    here, there = ((("fabric.domain", domain),) for domain in "AB")
    life.do(Submit(of("late", 8, selector=here)))
    life.do(Submit(of("busy", 8, minutes=180, selector=there)))
    life.do(Submit(of("first", 8, "two", 60)))
    life.do(Submit(of("second", 8, "three", 60, selector=there)))
    assert (firm_ms(life, "first"), firm_ms(life, "second")) == (START_MS, NOW_MS + 3 * HOUR_MS)
    moved = moves(life.do(Tick(), START_MS + 1))
    assert [event.reservation for event in moved] == ["first@1"]
    assert clashes(life) == []


def test_executor_that_is_late_with_a_confirmation_is_the_cause() -> None:
    life = planned_life(has_executor=True)
    life.do(Submit(of("busy", 8, checkpoint_ms=5 * MINUTE_MS)))
    life.do(Submit(of("next", 8, "two")))
    life.do(Cancel("busy"), START_MS - 5 * MINUTE_MS)
    decisions = tick_until(life, START_MS + 1)
    (moved,) = [event for each in decisions for event in moves(each)]
    assert moved.at_ms == START_MS + 1
    assert moved.cause == MoveCause(MoveCode.EXECUTOR_LATE, (("lease", "busy/0"),))
    life.do(Confirm("busy/0"), START_MS + MINUTE_MS)
    assert start_ms_of(life, "next") == START_MS + MINUTE_MS


@pytest.mark.parametrize("together", [True, False])
def test_ends_that_are_reported_together_move_no_start(
    together: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Both are late; when both have ended, the start has all its room."""
    life = planned_life(has_executor=True)
    for name in ("stops", "also"):
        life.do(Submit(of(name, 2, checkpoint_ms=5 * MINUTE_MS)))
        life.do(Cancel(name))
    life.do(Submit(of("busy", 4, "three", minutes=30)))
    life.do(Submit(of("next", 8, "two")))
    assert firm_ms(life, "next") == NOW_MS + 30 * MINUTE_MS
    gone = (Confirm("stops/0"), Confirm("also/0"), Fail("nobody"))
    reported = Reported(gone) if together else gone[0]
    decision = life.do(reported, NOW_MS + 21 * MINUTE_MS)
    assert bool(moves(decision)) is not together
    assert [lease for lease, _ in ends(decision)] == ["stops/0", "also/0"][: 1 + together]


# --- Lost ---


def half_busy() -> Life:
    """Return a ledger of two nodes, with ``busy`` on one, in which ``wide`` is firm for both."""
    life = planned_life(nodes=[node("a0"), node("a1")])
    life.do(Submit(of("busy", 8)))
    life.do(Submit(of("wide", 16, "two")))
    assert firm_ms(life, "wide") == START_MS
    return life


def free_node(life: Life) -> str:
    """Return the node without work."""
    return ({"a0", "a1"} - set(life.on("busy"))).pop()


@pytest.mark.parametrize(
    ("status", "code"),
    [(NodeStatus.FAILED, MoveCode.NODE_LOST), (NodeStatus.CORDONED, MoveCode.NODE_DRAINED)],
)
def test_node_that_is_lost_or_cordoned_is_the_cause(status: NodeStatus, code: MoveCode) -> None:
    life = half_busy()
    lost = free_node(life)
    (moved,) = moves(life.do(MarkNode(lost, status), SOON_MS))
    assert moved.cause == MoveCause(code, (("node", lost),))
    assert (moved.planned_start_ms, moved.status) == (None, ReservationStatus.BLOCKED)
    life.do(MarkNode(lost, NodeStatus.READY), SOON_MS + MINUTE_MS)
    assert firm_ms(life, "wide") == START_MS


def test_lost_node_is_named_beside_a_late_lease_that_lies_on_two_others() -> None:
    life = planned_life(nodes=[node(name, 4) for name in ("a0", "a1", "a2")])
    life.do(Submit(of("busy", 8)))
    life.do(Submit(of("wide", 12, "two")))
    assert firm_ms(life, "wide") == START_MS
    lost = ({"a0", "a1", "a2"} - set(life.on("busy"))).pop()
    (moved,) = moves(life.do(MarkNode(lost, NodeStatus.FAILED), START_MS + 1))
    assert set(moved.cause.objects) == {("lease", "busy/0"), ("node", lost)}


def test_start_moves_for_a_lost_node_though_a_late_lease_could_be_stopped_for_it() -> None:
    """Backfill is in its way until it ends, and another firm start after that."""
    opens_ms = NOW_MS + HOUR_MS
    line = replace(envelope("e", 8, start_ms=opens_ms), allow_reservations=True)
    life = planned_life(
        nodes=[node("a0", 4), node("a1", 4)], budgets=[budget("b-two", "two", alone(line))]
    )
    life.do(Submit(of("wide", 4, minutes=40)))
    life.do(Submit(of("small", 2, minutes=40)))
    life.do(Submit(of("soon", 2, "two", 60)))
    life.do(Submit(of("long", 4, "three", 600)))
    life.do(Submit(of("fills", 2, minutes=20)))
    starts = [firm_ms(life, name) for name in ("soon", "long")]
    assert starts == [opens_ms, NOW_MS + 40 * MINUTE_MS]
    (lost,) = life.on("wide")
    assert life.on("fills") == life.on("small")
    decision = life.do(MarkNode(lost, NodeStatus.FAILED), NOW_MS + 36 * MINUTE_MS)
    (moved,) = [event for event in moves(decision) if event.reservation == "long@1"]
    assert set(moved.cause.objects) == {("lease", "fills/0"), ("node", lost)}
    assert clashes(life) == []


def test_drained_node_is_the_cause() -> None:
    life = half_busy()
    drained = free_node(life)
    (moved,) = moves(life.do(Drain(drained), SOON_MS))
    assert moved.cause == MoveCause(MoveCode.NODE_DRAINED, (("node", drained),))


def test_late_lease_on_a_node_that_is_drained_is_named_beside_it() -> None:
    """If the node were ready again, the late lease would still delay the start."""
    life = planned_life(nodes=[node("a0"), node("a1")], has_executor=True)
    life.do(Submit(of("stops", 8, checkpoint_ms=5 * MINUTE_MS)))
    life.do(Submit(of("busy", 8, minutes=30)))
    life.do(Cancel("stops"))
    life.do(Submit(of("next", 16, "two")))
    assert firm_ms(life, "next") == NOW_MS + 30 * MINUTE_MS
    ((lost, _),) = life.state.leases["stops/0"].fact.slots
    # Its deadline was after 5 minutes, so it is expected to end after 20, and then after 35.
    (moved,) = moves(life.do(Drain(lost), NOW_MS + 21 * MINUTE_MS))
    assert set(moved.cause.objects) == {("node", lost), ("lease", "stops/0")}


def test_late_run_to_which_a_filled_spare_goes_back_is_the_cause() -> None:
    """Its own lease is on a node without new work, so that lease takes no room from the start."""
    life = planned_life(nodes=[node("a0", 4), node("a1", 4)])
    life.do(Submit(of("keeper", 4, minutes=30, group_gpus=4, spares_per_group=4)))
    life.do(Submit(of("filler", 4, "three", 100)))
    assert life.filled("keeper") == 4
    (own,) = life.on("keeper")
    life.do(MarkNode(own, NodeStatus.CORDONED))
    life.do(Submit(of("next", 4, "two")))
    # The filler is expected to end at 100 minutes; the keeper is late at any time after 30.
    assert firm_ms(life, "next") == NOW_MS + 100 * MINUTE_MS
    (moved,) = moves(life.do(Tick(), NOW_MS + 95 * MINUTE_MS))
    assert moved.cause == MoveCause(MoveCode.LEASE_OVERRAN, (("lease", "keeper/0"),))


def test_node_loss_elsewhere_moves_no_firm_start() -> None:
    life = planned_life(nodes=[node("a0", 8, "A"), node("b0", 8, "B")])
    for domain in "AB":
        life.do(Submit(of(f"busy-{domain}", 8, selector=(("fabric.domain", domain),))))
    life.do(Submit(of("next", 8, "two", selector=(("fabric.domain", "A"),))))
    decision = life.do(MarkNode("b0", NodeStatus.FAILED), SOON_MS)
    assert (moves(decision), firm_ms(life, "next")) == ([], START_MS)


def test_node_that_changes_its_domain_is_the_cause() -> None:
    life = half_busy()
    (moved,) = moves(life.do(Apply((node(free_node(life), 8, "B"),)), SOON_MS))
    assert moved.cause == MoveCause(MoveCode.NODES_CHANGED, (("domain", "r/c/A"),))


def test_node_that_shrinks_is_the_cause_and_not_one_that_was_drained_before() -> None:
    life = planned_life(nodes=[node(f"a{number}") for number in range(3)])
    life.do(Drain("a2"))
    life.do(Submit(of("busy", 8)))
    life.do(Submit(of("wide", 16, "two")))
    assert firm_ms(life, "wide") == START_MS
    (idle,) = {"a0", "a1"} - set(life.on("busy"))
    (moved,) = moves(life.do(Apply((node(idle, 4),)), SOON_MS))
    assert moved.cause == MoveCause(MoveCode.NODES_CHANGED, (("domain", "r/c/A"),))


# --- Withdrawn ---


def test_budget_that_is_tightened_is_the_cause() -> None:
    life = one_firm()
    (moved,) = moves(life.do(Apply((two_money(8),)), SOON_MS))
    assert moved.cause == MoveCause(MoveCode.BUDGET_CHANGED, (("envelope", "b-two/e"),))
    assert moved.planned_start_ms is None


def test_budget_that_is_replaced_by_another_envelope_is_the_cause_and_pays_at_the_same_start() -> (
    None
):
    life = one_firm()
    other = budget("b-two", "two", alone(envelope("f", 16)))
    (moved,) = moves(life.do(Apply((other,)), SOON_MS))
    assert moved.cause == MoveCause(MoveCode.BUDGET_CHANGED, (("envelope", "b-two/e"),))
    assert moved.planned_start_ms == START_MS
    assert [share.payer for share in moved.payers] == ["b-two/f"]
    life.do(Complete("busy"), START_MS)
    assert start_ms_of(life, "wide") == START_MS


def test_budget_that_is_widened_moves_nothing() -> None:
    life = one_firm()
    decision = life.do(Apply((two_money(32),)), SOON_MS)
    assert (moves(decision), firm_ms(life, "wide")) == ([], START_MS)


def test_window_that_closes_before_the_start_is_the_cause() -> None:
    life = one_firm()
    (moved,) = moves(life.do(Apply((two_money(16, end_ms=START_MS - 1),)), SOON_MS))
    assert moved.cause == MoveCause(MoveCode.BUDGET_CHANGED, (("envelope", "b-two/e"),))
    assert moved.planned_start_ms is None


def test_cap_that_is_tightened_is_the_cause() -> None:
    def money(most: int) -> Budget:
        cap = Cap(name="c", flavor="H100", envelopes=("e",), concurrency_max=most)
        return budget("b-two", "two", alone(envelope("e", 16)), caps=[cap])

    life = planned_life(budgets=[money(8)])
    life.do(Submit(of("busy", 8)))
    life.do(Submit(of("next", 8, "two")))
    (moved,) = moves(life.do(Apply((money(4),)), SOON_MS))
    assert moved.cause == MoveCause(MoveCode.CAP_CHANGED, (("cap", "b-two/c"),))


def test_quota_that_is_tightened_is_the_cause() -> None:
    life = planned_life(nodes=[node("a0", 8, "A"), node("b0", 4, "B")])
    life.do(Submit(of("own", 4, "two", 300, selector=(("fabric.domain", "B"),))))
    life.do(Submit(of("busy", 8)))
    life.do(Submit(of("next", 8, "two")))
    assert firm_ms(life, "next") == START_MS
    limited = Owner(name="two", quota=Quota(concurrent_runs_max=1))
    (moved,) = moves(life.do(Apply((limited,)), SOON_MS))
    assert moved.cause == MoveCause(MoveCode.QUOTA_CHANGED, (("owner", "two"),))
    assert moved.planned_start_ms == NOW_MS + 300 * MINUTE_MS


def test_pool_that_takes_a_node_from_another_is_the_cause() -> None:
    life = planned_life(nodes=[node("a0", rack="k0"), node("a1", rack="k1")])
    life.do(Submit(of("busy", 8, selector=(("rack", "k0"),))))
    life.do(Submit(of("wide", 16, "two")))
    assert firm_ms(life, "wide") == START_MS
    side = Pool(name="side", selector=(("rack", "k1"),))
    (moved,) = moves(life.do(Apply((side,)), SOON_MS))
    assert moved.cause == MoveCause(MoveCode.POOL_CHANGED, (("pool", "side"),))
    assert moved.status is ReservationStatus.BLOCKED


def test_pool_that_gives_whole_nodes_from_now_on_is_the_cause_where_a_part_was_promised() -> None:
    life = planned_life(nodes=[node("a0")])
    life.do(Submit(of("busy", 8)))
    life.do(Submit(of("part", 4, "two")))
    life.do(Submit(of("whole", 8, "three")))
    assert firm_ms(life, "part") == START_MS
    (moved,) = moves(life.do(Apply((replace(quiet_pool(), whole_nodes=True),)), SOON_MS))
    assert moved.cause == MoveCause(MoveCode.POOL_CHANGED, (("pool", "default"),))
    assert (moved.reservation, moved.status) == ("part@1", ReservationStatus.BLOCKED)
    assert clashes(life) == []


def test_pool_that_gives_whole_nodes_from_now_on_moves_no_start_that_still_stands() -> None:
    life = one_firm()
    whole = replace(quiet_pool(), whole_nodes=True)
    decision = life.do(Apply((whole,)), SOON_MS)
    assert (moves(decision), firm_ms(life, "wide")) == ([], START_MS)
    assert life.phase("wide") is Phase.PENDING


def test_a_start_that_is_late_itself_names_only_the_lease_it_waits_for() -> None:
    """It would also end later, in the place behind it, but because of the same lease."""
    life = planned_life(8, budgets=[funds("one", 8)], has_executor=True)
    life.do(Submit(of("late", 8, "one", 30)))
    life.do(Submit(of("next", 8, "one", 60)))
    life.do(Submit(of("behind", 8, "one", 60)))
    due_ms = NOW_MS + 30 * MINUTE_MS
    assert (firm_ms(life, "next"), firm_ms(life, "behind")) == (due_ms, due_ms + HOUR_MS)
    tick_until(life, due_ms)
    (moved, *_) = moves(life.do(Tick(), due_ms + 1))
    assert moved.cause == MoveCause(MoveCode.LEASE_OVERRAN, (("lease", "late/0"),))
