"""Causes of moved firm starts: what is recorded, and what the books of promises accept."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from quorate.core.commands import Apply, Cancel, Complete, Confirm, Draw, Submit, Tick
from quorate.core.decision_log import DecisionLog
from quorate.core.planning.conflict_starts import cleared_ms
from quorate.core.planning.firm_or_tentative import PlannedStarts
from quorate.core.planning.walk_plan import WalkPlan
from quorate.core.preemption.lottery import chain_link
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.cause_text import cause_text
from quorate.model.events import (
    ConflictDeclared,
    Event,
    LotteryCommitted,
    MoveCause,
    MoveCode,
    ReservationMade,
    ReservationMoved,
    ReservationStatus,
    RunSubmitted,
    Slice,
)
from quorate.model.specs import Budget, Node, Owner, Pool, Quota, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, borrowing, budget, envelope, fleet, lending, node, run
from quorate.testing.memory_engines import LOTTERY_LENGTH, LOTTERY_SECRET
from quorate.testing.promise_books import PromiseBooks
from tests.oracles.lives import Life
from tests.oracles.plans import alone

MADE_MS = NOW_MS + 2 * HOUR_MS
START_MS = MADE_MS + 15 * MINUTE_MS
PLACE = Slice("H100", 8, (("r/c/A", 8),))


def pool(lost_max_hours: int) -> Pool:
    """Return a pool in which conflicts may cost that much in a day."""
    return Pool(
        name="default",
        disruption_rate_ppm=1_000_000 if lost_max_hours else 0,
        firm_horizon_ms=1_000 * HOUR_MS,
    )


def life_of(
    lost_max_hours: int,
    gpus: int = 8,
    *,
    budgets: Sequence[Budget] = (),
    has_executor: bool = False,
) -> Life:
    """Return a ledger of one domain of ``gpus`` and three owners, with a lottery.

    ``budgets`` replace those of the three owners.
    """
    owners = ("one", "two", "three")
    life = Life(
        nodes=fleet({"A": gpus}),
        budgets=budgets or [budget(f"b-{name}", name, envelope("e", 8)) for name in owners],
        pools=[pool(lost_max_hours)],
        has_executor=has_executor,
    )
    committed = LotteryCommitted(
        at_ms=NOW_MS,
        actor="test",
        commitment=chain_link(LOTTERY_SECRET, 0, length=LOTTERY_LENGTH).hex(),
        length=LOTTERY_LENGTH,
    )
    apply_all(life.state, [committed])
    life.events.append(committed)
    return life


def of(name: str, gpus: int, owner: str, hours: int = 9, **more: object) -> Run:
    """Return a run that is expected to take ``hours``."""
    return run(name, gpus, owner, expected_duration_ms=hours * HOUR_MS, **more)


def test_a_start_that_counted_on_a_conflict_says_why_there_is_none() -> None:
    life = life_of(100)
    life.do(Submit(of("old", 8, "one")))
    life.do(Submit(of("new", 8, "two")), MADE_MS)
    assert life.state.reservations["new@1"].planned_start_ms == START_MS
    life.do(Apply((pool(0),)), START_MS - MINUTE_MS)
    decision = life.do(Tick(), START_MS)
    (moved,) = [event for event in decision.events if isinstance(event, ReservationMoved)]
    assert moved.planned_start_ms == NOW_MS + 9 * HOUR_MS
    assert moved.cause == MoveCause(MoveCode.CONFLICT_RATE_ZERO, (("pool", "default"),))
    assert cause_text(moved.cause) == "no conflict: its pool has a disruptionRate of 0"


def test_the_cause_of_an_older_ledger_is_shown_as_it_was_recorded() -> None:
    cause = MoveCause(MoveCode.CONFLICT_CALLED_OFF, (), "none is needed")
    assert cause_text(cause) == "no conflict: none is needed"


def test_quota_headroom_that_a_start_by_conflict_needs_is_kept_for_it() -> None:
    life = life_of(100)
    side = Pool(name="side", selector=(("fabric.domain", "S"),))
    two = Owner(name="two", quota=Quota(nodes_max=1))
    money = budget("b-two", "two", envelope("e", 16))
    life.do(Apply((side, *fleet({"S": 8}), two, money)))
    life.do(Submit(of("old", 8, "one")))
    life.do(Submit(of("new", 8, "two")), MADE_MS)
    assert life.state.reservations["new@1"].planned_start_ms == START_MS
    life.do(Submit(of("own", 8, "two", pool="side")), START_MS - MINUTE_MS)
    assert life.phase("own") is Phase.PENDING
    decision = life.do(Tick(), START_MS)
    assert [event for event in decision.events if isinstance(event, ReservationMoved)] == []
    (declared,) = [event for event in decision.events if isinstance(event, ConflictDeclared)]
    assert declared.reservation == "new@1"


@pytest.mark.heavy
def test_nobody_fills_spares_that_a_conflict_is_to_cut_before_it_is_gone() -> None:
    life = life_of(2)
    life.do(Submit(of("keeper", 5, "one", group_gpus=5, spares_per_group=2)))
    life.do(Submit(of("small", 1, "one")))
    # Two spares, which cost nothing, and one GPU of a run: the account does not cover much more.
    life.do(Submit(of("new", 3, "two", group_gpus=3)), MADE_MS)
    assert life.state.reservations["new@1"].planned_start_ms == START_MS
    life.do(Submit(of("filler", 2, "three", 1)))
    assert life.phase("filler") is Phase.PENDING
    # A run that ends in time may start.
    life.do(Submit(run("brief", 2, "three", expected_duration_ms=15 * MINUTE_MS, checkpoint_ms=0)))
    assert life.phase("brief") is Phase.RUNNING
    assert [mark.bundle for mark in life.state.runs["brief"].backfills] == [0]
    life.do(Complete("brief"), START_MS - MINUTE_MS)
    life.do(Cancel("filler"))  # A conflict leaves other firm starts their GPUs.
    decision = life.do(Tick(), START_MS)
    assert not any(isinstance(event, ReservationMoved) for event in decision.events)
    (declared,) = [event for event in decision.events if isinstance(event, ConflictDeclared)]
    assert [token.run for token in declared.tokens] == ["small"]


@pytest.mark.parametrize(
    ("has_executor", "minutes", "planned_ms"),
    [
        (False, 75, START_MS),
        (False, 74, None),
        (True, 80, START_MS + 5 * MINUTE_MS),
        (True, 79, None),
    ],
)
def test_no_conflict_makes_room_that_a_promise_before_needs_when_what_is_cut_has_gone(
    has_executor: bool,  # noqa: FBT001 - a parameter
    minutes: int,
    planned_ms: int | None,
) -> None:
    life = life_of(100, gpus=5)
    life.has_executor = has_executor
    # Its owner is at its share, so it waits for its turn.
    life.do(Apply((Owner(name="two", quota=Quota(fair_share_target_ppm=1)),)))
    first_ms = MADE_MS + minutes * MINUTE_MS
    life.do(Submit(run("x", 4, "one", expected_duration_ms=first_ms - NOW_MS)))
    life.do(Submit(of("first", 5, "two")))
    assert life.state.reservations["first@1"].planned_start_ms == first_ms
    # One hour, from when x is cut or (with an executor) from when it has ended.
    life.do(Submit(of("second", 2, "three", 1, checkpoint_ms=0)), MADE_MS)
    second = life.state.reservations["second@1"]
    assert second.by_conflict is (planned_ms is not None)
    assert second.planned_start_ms == (planned_ms or first_ms + 9 * HOUR_MS)


@pytest.mark.heavy
def test_a_start_counts_on_no_other_conflict_while_what_was_cut_for_it_is_going() -> None:
    life = life_of(100)
    life.has_executor = True
    soon = replace(pool(100), notice_ms=MINUTE_MS)
    life.do(Apply((soon, Owner(name="two", quota=Quota(fair_share_target_ppm=1)))))
    first_ms = MADE_MS + 2 * MINUTE_MS
    life.do(Submit(run("late", 2, "one", expected_duration_ms=first_ms - NOW_MS)))
    life.do(Submit(of("x", 3, "one")))
    life.do(Submit(of("w", 2, "three")))
    life.do(Submit(of("first", 3, "two")))
    life.do(Submit(of("second", 3, "three", 1)), MADE_MS)
    life.do(Tick(), MADE_MS + MINUTE_MS)
    link = chain_link(LOTTERY_SECRET, 1, length=LOTTERY_LENGTH).hex()
    life.do(Draw("1", link))
    assert life.state.reservations["second@1"].conflict == "1"
    going = life.state.leases["x/0"].ending
    assert going is not None
    # The first start is late, and takes the GPUs that are late, too.
    moved: list[ReservationMoved] = []
    while life.now_ms < MADE_MS + 30 * MINUTE_MS:
        decision = life.do(Tick(), life.due_ms())
        moved += [
            event
            for event in decision.events
            if isinstance(event, ReservationMoved) and event.reservation == "second@1"
        ]
    assert moved[0].at_ms == going.deadline_ms + 1
    clearing = MoveCause(MoveCode.CONFLICT_CLEARING, (("conflict", "1"),))
    assert {event.cause for event in moved} == {clearing}
    assert set(life.state.conflicts) == {"1"}
    place = life.state.reservations["first@1"].planned_start_ms
    life.do(Confirm("x/0"))
    # The second run has the room from its conflict; the first keeps its place beside it.
    assert (life.phase("first"), life.phase("second")) == (Phase.PENDING, Phase.RUNNING)
    assert life.state.reservations["first@1"].planned_start_ms == place


def cleared_for_first(nodes: list[Node]) -> Life:
    """Return a ledger in which ``x`` or ``y`` was cut for ``first``, made before ``second``.

    With an executor, so that the cut run is still stopping. ``second`` is at its share, and may not
    call a conflict.
    """
    life = life_of(100, gpus=0)
    life.has_executor = True
    waits = Owner(name="three", quota=Quota(fair_share_target_ppm=1))
    rich = (budget(f"b-{name}", name, envelope("e", 16)) for name in ("one", "two"))
    life.do(Apply((*nodes, waits, *rich)))
    home = (("fabric.domain", "A"),)
    for name in ("x", "y"):
        life.do(Submit(of(name, 8, "one", selector=home)))
    life.do(Submit(of("first", life.state.flavor_gpus("H100")[0] - 8, "two")), MADE_MS)
    life.do(Submit(of("second", 8, "three", selector=home)))
    life.do(Tick(), life.due_ms())
    life.do(Draw("1", chain_link(LOTTERY_SECRET, 1, length=LOTTERY_LENGTH).hex()))
    assert len(life.stopping()) == 1
    assert life.state.reservations["second@1"].planned_start_ms == NOW_MS + 9 * HOUR_MS
    return life


def test_no_second_conflict_is_sought_while_what_was_cut_for_a_start_is_stopping() -> None:
    life = life_of(100, gpus=0)
    life.has_executor = True
    rich = (budget(f"b-{name}", name, envelope("e", 32)) for name in ("one", "two"))
    life.do(Apply((*fleet({"A": 24}), *rich)))
    for name in ("x", "y", "z"):
        life.do(Submit(of(name, 8, "one")))
    life.do(Submit(of("first", 8, "two")), MADE_MS)
    life.do(Tick(), life.due_ms())
    life.do(Draw("1", chain_link(LOTTERY_SECRET, 1, length=LOTTERY_LENGTH).hex()))
    assert len(life.stopping()) == 1
    assert life.state.reservations["first@1"].conflict == "1"
    # A minute later, when conflicts are searched again, another lease could be cut for it, too.
    log = DecisionLog(life.state, now_ms=life.now_ms + MINUTE_MS, actor="test", has_executor=True)
    planned = PlannedStarts(WalkPlan(log, None))
    assert planned.by_conflict(life.state.runs["first"], life.now_ms + 9 * HOUR_MS) is None
    life.do(Confirm(life.stopping()[0]))
    assert life.phase("first") is Phase.RUNNING


def test_a_domain_that_is_gone_is_not_waited_for() -> None:
    life = cleared_for_first(fleet({"A": 16, "B": 8}))
    assert dict(life.state.reservations["first@1"].slice.domains) == {"r/c/A": 8, "r/c/B": 8}
    life.do(Apply((node("b0000", 8, "C"),)))
    moved_ms = life.state.reservations["first@1"].planned_start_ms
    assert moved_ms is not None
    life.do(Tick(), moved_ms)
    life.do(Confirm(life.stopping()[0]))
    assert life.phase("first") is Phase.RUNNING


def test_a_start_does_not_wait_for_what_is_told_to_stop_after_the_conflict() -> None:
    life = cleared_for_first(fleet({"A": 16}))
    (cut,) = life.stopping()
    left = next(name for name in ("x", "y") if f"{name}/0" != cut)
    life.do(Cancel(left), life.now_ms + MINUTE_MS)
    ending, later = (life.state.leases[name].ending for name in (cut, f"{left}/0"))
    assert ending is not None
    assert later is not None
    assert ending.deadline_ms < later.deadline_ms
    first = life.state.reservations["first@1"]
    assert cleared_ms(life.state, first, life.now_ms) == ending.deadline_ms


# --- The simulation's books ---


def made(name: str, *, by_conflict: bool = False) -> ReservationMade:
    """Return a firm start for an hour from now."""
    start_ms = NOW_MS + HOUR_MS
    return ReservationMade(
        at_ms=NOW_MS,
        actor="test",
        reservation=f"{name}@1",
        run=name,
        slice=PLACE,
        payers=(),
        planned_start_ms=start_ms,
        natural_start_ms=start_ms,
        by_conflict=by_conflict,
    )


def moved_to(minutes: int, cause: MoveCause) -> ReservationMoved:
    """Return the move of ``r`` to ``minutes`` minutes from now."""
    start_ms = NOW_MS + minutes * MINUTE_MS
    return ReservationMoved(
        at_ms=NOW_MS,
        actor="test",
        reservation="r@1",
        status=ReservationStatus.DEFERRED,
        slice=PLACE,
        payers=(),
        planned_start_ms=start_ms,
        natural_start_ms=start_ms,
        by_conflict=False,
        cause=cause,
    )


def faults(minutes: int, cause: MoveCause, *, by_conflict: bool = False, busy: int = 0) -> str:
    """Return the violations in the books for a move of ``r``, which waits for 8 of 8 GPUs.

    It moves after 61 minutes. ``busy`` is the declared duration, in minutes, of a run on all GPUs.
    """
    life = life_of(0)
    if busy:
        life.do(Submit(run("busy", 8, "one", expected_duration_ms=busy * MINUTE_MS)))
    state = life.state.overlay()
    spec = of("r", 8, "two", 1)
    first: list[Event] = [
        RunSubmitted(at_ms=NOW_MS, actor="test", run=spec),
        made("r", by_conflict=by_conflict),
    ]
    apply_all(state, first)
    books = PromiseBooks(LOTTERY_SECRET, LOTTERY_LENGTH)
    assert list(books.enter(1, first, state)) == []
    later = replace(moved_to(minutes, cause), at_ms=NOW_MS + 61 * MINUTE_MS)
    apply_all(state, [later])
    return "; ".join(books.enter(2, [later], state))


OVERRAN = MoveCause(MoveCode.LEASE_OVERRAN, (("lease", "busy/0"),))


def test_books_find_a_start_that_moves_later_though_its_place_stands() -> None:
    assert "although its place is still free" in faults(120, OVERRAN)


def test_books_accept_a_start_that_moves_later_for_a_lease_that_overran() -> None:
    assert faults(65, OVERRAN, busy=50) == ""


def test_books_find_a_start_that_moves_sooner() -> None:
    assert "which is sooner" in faults(30, OVERRAN)


@pytest.mark.parametrize("by_conflict", [True, False])
def test_books_let_only_a_start_by_conflict_be_called_off(
    by_conflict: bool,  # noqa: FBT001 - a parameter
) -> None:
    cause = MoveCause(MoveCode.CONFLICT_NOT_COVERED, (("owner", "two"), ("pool", "default")))
    assert bool(faults(120, cause, by_conflict=by_conflict)) is not by_conflict


def test_loan_that_is_recalled_once_a_conflict_is_called_off_is_told_in_the_same_decision() -> None:
    """Its grace is as long as the notice, so the stop is due at once."""
    notice_ms = 5 * MINUTE_MS
    lent = envelope("e", 8, lending=lending(recall_notice_ms=notice_ms))
    life = life_of(
        100,
        budgets=[
            budget("b-one", "one", alone(lent)),
            budget("b-two", "two", alone(envelope("e", 1))),
            budget("b-three", "three", alone(envelope("e", 8))),
        ],
        has_executor=True,
    )
    life.do(Submit(of("loan", 8, "two", funding=borrowing(), checkpoint_ms=notice_ms)))
    life.do(Submit(of("new", 8, "three")), MADE_MS)
    life.do(Submit(of("mine", 8, "one", 1)))
    assert life.state.recalls == {}
    life.do(Apply((pool(0),)))
    decision = life.do(Tick(), START_MS)
    moved = [event.cause.code for event in decision.events if isinstance(event, ReservationMoved)]
    assert moved == [MoveCode.CONFLICT_RATE_ZERO, MoveCode.LOANS_RECALLED]
    assert list(life.state.recalls) == [("loan", 0)]
    assert life.stopping() == ["loan/0", "loan/1"]
