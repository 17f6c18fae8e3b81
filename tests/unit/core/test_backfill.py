"""Backfill that should have gone: what a promise that is late waits for in truth is stopped.

Counting GPUs says in all of these but one that the promised room is there. Who pays for them asks
for racks too, which counting does not see.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from quorate.testing.in_front import stand_in_front

from quorate.core.commands import Apply, Complete, Decision, Submit, Tick
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.apply import apply_all
from quorate.model.events import (
    BackfillNoted,
    EndReason,
    LeaseEnded,
    ReservationMoved,
    ReservationStatus,
    Role,
    StartReason,
)
from quorate.model.records import Phase
from quorate.model.specs import Budget, Malleable, Node, Owner, Quota, Run, Sharing
from quorate.testing.world import NOW_MS, budget, envelope, node, run
from tests.oracles.lives import Life, ends, stops

START_MS = NOW_MS + 2 * HOUR_MS
FIRST, SECOND = ((("rack", name),) for name in ("r1", "r2"))


def of(name: str, gpus: int, owner: str, minutes: int = 120, **more: object) -> Run:
    """Return a run that is expected to take ``minutes``."""
    return run(name, gpus, owner, expected_duration_ms=minutes * MINUTE_MS, **more)


def racks(first: int, second: int) -> list[Node]:
    """Return nodes of 4 GPUs of one domain, in its first rack and in its second."""
    return [
        node(f"a{number}", 4, rack="r1" if number < first else "r2")
        for number in range(first + second)
    ]


def money(rack: str = "r1", *, more: int = 1) -> Budget:
    """Return what ``two`` has: 4 GPUs anywhere, 4 in one rack, and ``more`` anywhere."""
    there = (("region", "r"), ("rack", rack))
    lines = (envelope("any", 4), envelope("rack", 4, selector=there), envelope("more", more))
    return budget("b-two", "two", *lines)


def late_world(
    nodes: list[Node], *, has_executor: bool = False, owners: tuple[Owner, ...] = ()
) -> Life:
    """Return a ledger of three owners, of whom ``two`` needs the first rack for half its GPUs."""
    own = replace(envelope("e", 64), sharing=Sharing.NONE)
    rich = [budget(f"b-{name}", name, own) for name in ("one", "three")]
    return Life(nodes=nodes, budgets=[*rich, money()], has_executor=has_executor, owners=owners)


def one_in_front(*, has_executor: bool = False, owners: tuple[Owner, ...] = ()) -> Life:
    """Return a ledger in which ``wide`` is promised 8 GPUs when ``busy`` ends, and not in front.

    ``late`` has 2 of the 4 in the first rack and should be gone by then.
    """
    life = late_world(racks(1, 2), has_executor=has_executor, owners=owners)
    life.do(Submit(of("busy", 8, "one", selector=SECOND)))
    life.do(Submit(of("wide", 8, "two", group_gpus=4, checkpoint_ms=0)))
    assert life.state.reservations["wide@1"].planned_start_ms == START_MS
    life.do(Submit(of("late", 2, "three", 30, selector=FIRST, checkpoint_ms=5 * MINUTE_MS)))
    assert life.state.runs["late"].backfills == ((0, START_MS, "wide@1"),)
    return life


def moves(decision: Decision) -> list[ReservationMoved]:
    """Return where promised starts moved to."""
    return [event for event in decision.events if isinstance(event, ReservationMoved)]


def test_a_late_backfill_that_only_racks_put_in_the_way_is_stopped() -> None:
    life = one_in_front()
    life.do(Complete("busy"), START_MS - MINUTE_MS)
    assert life.phase("late") is Phase.RUNNING
    decision = life.do(Tick(), START_MS)
    assert ends(decision) == [("late/0", EndReason.OVERSTAYED)]
    assert moves(decision) == []
    assert life.phase("wide") is Phase.RUNNING


def test_what_is_late_is_stopped_in_time_for_what_is_expected_to_end_at_this_very_instant() -> None:
    life = one_in_front()
    assert ends(life.do(Tick(), START_MS)) == [("late/0", EndReason.OVERSTAYED)]
    assert life.phase("busy") is Phase.RUNNING


@pytest.mark.parametrize("order", [("late", "aside"), ("aside", "late")])
def test_a_late_backfill_that_is_not_in_the_way_goes_on(
    order: tuple[str, str],
) -> None:
    life = late_world(racks(1, 3))
    life.do(Submit(of("busy", 10, "one", selector=SECOND)))
    life.do(Submit(of("wide", 8, "two", group_gpus=4, checkpoint_ms=0)))
    where = {"late": FIRST, "aside": SECOND}
    for name in order:
        life.do(Submit(of(name, 2, "three", 30, selector=where[name])))
        assert life.state.runs[name].backfills == ((0, START_MS, "wide@1"),)
    life.do(Complete("busy"), START_MS - MINUTE_MS)
    decision = life.do(Tick(), START_MS)
    assert ends(decision) == [("late/0", EndReason.OVERSTAYED)]
    assert (life.phase("wide"), life.phase("aside")) == (Phase.RUNNING, Phase.RUNNING)


def test_of_two_late_backfills_the_newer_goes_where_one_is_enough() -> None:
    life = late_world(racks(1, 1))
    life.do(Submit(of("busy", 4, "one", selector=SECOND)))
    life.do(Submit(of("wide", 8, "three")))
    for number, name in enumerate(("old", "new")):
        life.do(Submit(of(name, 2, "one", 30)), NOW_MS + number)
        assert life.state.runs[name].backfills == ((0, START_MS, "wide@1"),)
    life.do(Apply((node("more", 2),)))
    life.do(Complete("busy"), START_MS - 1)
    assert ends(life.do(Tick(), START_MS)) == [("new/0", EndReason.OVERSTAYED)]
    assert (life.phase("wide"), life.phase("old")) == (Phase.RUNNING, Phase.RUNNING)


def test_with_an_executor_the_promise_moves_to_when_the_late_backfill_has_to_be_gone() -> None:
    life = one_in_front(has_executor=True)
    life.do(Complete("busy", has_gone=True), START_MS - 10 * MINUTE_MS)
    decision = life.do(Tick(), START_MS)
    assert stops(decision) == [("late/0", EndReason.OVERSTAYED)]
    (moved,) = moves(decision)
    assert moved.planned_start_ms == START_MS + 5 * MINUTE_MS
    assert list(stand_in_front(moved, life.state)) == []
    assert life.do(Tick(), START_MS + 1).events == ()


def test_a_late_backfill_goes_on_where_money_is_what_the_promise_waits_for() -> None:
    life = late_world([*racks(1, 2), *(node(f"b{number}", 4, "B") for number in range(2))])
    life.do(Submit(of("debt", 1, "two", 300, selector=(("fabric.domain", "B"),))))
    life.do(Submit(of("block", 7, "one", 900, selector=(("fabric.domain", "B"),))))
    life.do(Submit(of("busy", 8, "one", selector=SECOND)))
    life.do(Submit(of("wide", 8, "two", group_gpus=4)))
    life.do(Submit(of("late", 2, "three", 30, selector=FIRST)))
    assert life.state.runs["late"].backfills == ((0, START_MS, "wide@1"),)
    life.do(Complete("busy"), START_MS - MINUTE_MS)
    # Nobody pays for the first rack alone any more, and another run has what would do instead.
    life.do(Apply((money("r9", more=4),)))
    decision = life.do(Tick(), START_MS)
    (moved,) = moves(decision)
    assert (moved.status, stops(decision)) == (ReservationStatus.DEFERRED, [])
    assert list(stand_in_front(moved, life.state)) == []
    assert life.phase("late") is Phase.RUNNING
    life.do(Tick(), START_MS + MINUTE_MS)
    assert life.phase("late") is Phase.RUNNING


def test_a_late_filler_goes_on_where_its_slots_would_be_a_spares_again() -> None:
    life = late_world(racks(2, 2))
    keeper = of("keeper", 4, "one", selector=FIRST, group_gpus=4, spares_per_group=2)
    life.do(Submit(keeper))
    life.do(Submit(of("busy", 8, "one", 60, selector=SECOND)))
    life.do(Submit(of("wide", 8, "two", group_gpus=4)))
    assert life.state.reservations["wide@1"].planned_start_ms == START_MS
    life.do(Submit(of("filler", 4, "three", 30, selector=FIRST)))
    assert life.filled("keeper") == 2
    assert life.state.runs["filler"].backfills == ((0, START_MS, "wide@1"),)
    life.do(Complete("busy"), NOW_MS + HOUR_MS)
    # Its spares back, the keeper, which is overdue, would leave half of what the rack must give.
    life.do(Tick(), START_MS)
    decision = life.do(Tick(), START_MS + 1)
    (moved,) = moves(decision)
    assert (moved.status, stops(decision)) == (ReservationStatus.DEFERRED, [])
    assert list(stand_in_front(moved, life.state)) == []
    assert life.phase("filler") is Phase.RUNNING
    # Where the keeper itself was is enough.
    life.do(Complete("keeper"), START_MS + MINUTE_MS)
    assert (life.phase("wide"), life.phase("filler")) == (Phase.RUNNING, Phase.RUNNING)


def test_a_late_filler_that_is_in_the_way_gives_the_spare_back_and_goes() -> None:
    life = late_world(racks(2, 2))
    keeper = of("keeper", 2, "one", 900, selector=FIRST, group_gpus=2, spares_per_group=1)
    life.do(Submit(keeper))
    life.do(Submit(of("busy", 8, "one", selector=SECOND)))
    life.do(Submit(of("wide", 8, "two", group_gpus=4)))
    assert life.state.reservations["wide@1"].planned_start_ms == START_MS
    life.do(Submit(of("filler", 6, "three", 30, selector=FIRST)))
    assert life.filled("keeper") == 1
    assert life.state.runs["filler"].backfills == ((0, START_MS, "wide@1"),)
    life.do(Complete("busy"), START_MS - MINUTE_MS)
    decision = life.do(Tick(), START_MS)
    assert {name for name, _ in ends(decision)} == {"filler/0"}
    assert (life.phase("wide"), life.gpus("keeper", Role.SPARE)) == (Phase.RUNNING, 1)


def test_nobody_is_stopped_for_the_sake_of_a_hard_quota() -> None:
    above = Owner(name="org", quota=Quota(concurrent_runs_max=1))
    below = (Owner(name=name, parents=("org",)) for name in ("two", "three"))
    life = one_in_front(owners=(above, *below))
    life.do(Complete("busy"), START_MS - MINUTE_MS)
    decision = life.do(Tick(), START_MS)
    (moved,) = moves(decision)
    assert moved.cause.startswith("waiting for quota headroom")
    assert life.phase("late") is Phase.RUNNING
    # When it is a promise for one more run that is late, only room keeps it from its start.
    life.do(Apply((Owner(name="org", quota=Quota(concurrent_runs_max=2)),)))
    assert (life.phase("late"), life.phase("wide")) == (Phase.PENDING, Phase.RUNNING)


def test_a_step_that_comes_back_does_not_stand_where_the_one_before_it_stood() -> None:
    life = late_world(racks(1, 1))
    steps = Malleable(gpus_min=2, gpus_max=4, gpus_step=2, gpus_desired=4)
    life.do(Submit(of("elastic", 4, "one", group_gpus=2, malleable=steps)))
    state, actor = life.state.overlay(), "test"
    first = state.leases["elastic/1"].fact
    assert first.bundle == 1
    noted = BackfillNoted(
        at_ms=NOW_MS,
        actor=actor,
        run="elastic",
        bundle=1,
        vacate_ms=START_MS,
        reservation="wide@1",
    )
    ended = LeaseEnded(
        at_ms=START_MS,
        actor=actor,
        lease="elastic/1",
        reason=EndReason.OVERSTAYED,
        end_ms=START_MS,
    )
    apply_all(state, [noted, ended])
    assert state.runs["elastic"].backfills == ((1, START_MS, "wide@1"),)
    grown = StartReason.GROW
    again = replace(first, at_ms=START_MS, lease="elastic/2", start_ms=START_MS, reason=grown)
    apply_all(state, [again])
    assert "elastic" not in state.backfilled
    assert sum(1 for _ in state.runs["elastic"].backfills) == 0
