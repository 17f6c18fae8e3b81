"""Why a promised start moves: what is recorded, and what the simulation's books accept."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorate.core.commands import Apply, Cancel, Complete, Confirm, Draw, Submit, Tick
from quorate.core.lottery import chain_link
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.apply import apply_all
from quorate.model.events import (
    ConflictDeclared,
    Event,
    LotteryCommitted,
    ReservationClosed,
    ReservationMade,
    ReservationMoved,
    ReservationOutcome,
    ReservationStatus,
    Slice,
)
from quorate.model.records import Phase
from quorate.model.selector import RACK
from quorate.model.specs import Node, Owner, Pool, Quota, Run
from quorate.testing.engines import LOTTERY_LENGTH, LOTTERY_SECRET
from quorate.testing.promise_books import PromiseBooks
from quorate.testing.world import NOW_MS, budget, envelope, fleet, node, run, world
from tests.oracles.lives import Life

MADE_MS = NOW_MS + 2 * HOUR_MS
START_MS = MADE_MS + 15 * MINUTE_MS
PLACE = Slice("H100", 8, (("r/c/A", 8),))


def pool(lost_max_hours: int) -> Pool:
    """Return a pool in which there are conflicts, or none where they may cost nothing."""
    return Pool(name="default", disruption_rate_ppm=1_000_000 if lost_max_hours else 0)


def life_of(lost_max_hours: int, gpus: int = 8) -> Life:
    """Return a ledger of one domain of ``gpus`` and three owners, with a lottery."""
    owners = ("one", "two", "three")
    life = Life(
        nodes=fleet({"A": gpus}),
        budgets=[budget(f"b-{name}", name, envelope("e", 8)) for name in owners],
        pools=[pool(lost_max_hours)],
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
    assert moved.cause == (
        "nodes are short by 8 of 8 GPUs; no conflict: pool default has a disruptionRate of 0"
    )


def test_a_start_by_conflict_says_that_a_quota_and_not_room_is_missing() -> None:
    life = life_of(100)
    side = Pool(name="side", selector=(("fabric.domain", "S"),))
    two = Owner(name="two", quota=Quota(nodes_max=1))
    money = budget("b-two", "two", envelope("e", 16))
    life.do(Apply((side, *fleet({"S": 8}), two, money)))
    life.do(Submit(of("old", 8, "one")))
    life.do(Submit(of("new", 8, "two")), MADE_MS)
    assert life.state.reservations["new@1"].planned_start_ms == START_MS
    # It takes nothing that the promise counts on but headroom, which nobody was promised.
    life.do(Submit(of("own", 8, "two", pool="side")), START_MS - MINUTE_MS)
    assert life.phase("own") is Phase.RUNNING
    decision = life.do(Tick(), START_MS)
    (moved,) = [event for event in decision.events if isinstance(event, ReservationMoved)]
    assert moved.cause == (
        "nodes are short by 8 of 8 GPUs; no conflict: its owner's hard quota is what it waits for"
    )


def test_nobody_fills_spares_that_a_conflict_is_to_cut_before_it_is_gone() -> None:
    life = life_of(2)
    life.do(Submit(of("keeper", 5, "one", group_gpus=5, spares_per_group=2)))
    life.do(Submit(of("small", 1, "one")))
    # Two spares, which cost nothing, and one GPU of a run: what the pool bears is not much more.
    life.do(Submit(of("new", 3, "two", group_gpus=3)), MADE_MS)
    assert life.state.reservations["new@1"].planned_start_ms == START_MS
    life.do(Submit(of("filler", 2, "three", 1)))
    assert life.phase("filler") is Phase.PENDING
    # One that goes in time may.
    life.do(Submit(run("brief", 2, "three", expected_duration_ms=15 * MINUTE_MS, checkpoint_ms=0)))
    assert life.phase("brief") is Phase.RUNNING
    assert life.state.runs["brief"].backfills == ((0, START_MS, "new@1"),)
    life.do(Complete("brief"), START_MS - MINUTE_MS)
    decision = life.do(Tick(), START_MS)
    assert not any(isinstance(event, ReservationMoved) for event in decision.events)
    (declared,) = [event for event in decision.events if isinstance(event, ConflictDeclared)]
    assert [token.run for token in declared.tokens] == ["small"]


def test_a_start_comes_no_sooner_by_a_conflict_in_front_of_which_another_could_not_start() -> None:
    life = life_of(0)
    for name, gpus, hours in (("x", 3, 9), ("y", 3, 9), ("short", 2, 1)):
        life.do(Submit(of(name, gpus, "one", hours)))
    life.do(Submit(of("wide", 3, "two")))
    life.do(Submit(of("next", 2, "three", 2)))
    natural_ms, next_ms = NOW_MS + 9 * HOUR_MS, NOW_MS + HOUR_MS
    planned = {name: known.planned_start_ms for name, known in life.state.reservations.items()}
    assert planned == {"wide@1": natural_ms, "next@1": next_ms}
    # The conflict would be a moment after that start, and makes room for itself only.
    life.do(Apply((pool(100),)), next_ms - 10 * MINUTE_MS)
    assert life.state.reservations["wide@1"].planned_start_ms == natural_ms
    life.do(Complete("short"), next_ms)
    assert life.phase("next") is Phase.RUNNING
    assert life.state.reservations["wide@1"].planned_start_ms == next_ms + 15 * MINUTE_MS


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
    # One hour, from when x is cut or (with an executor) from when it is gone.
    life.do(Submit(of("second", 2, "three", 1, checkpoint_ms=0)), MADE_MS)
    second = life.state.reservations["second@1"]
    assert second.by_conflict is (planned_ms is not None)
    assert second.planned_start_ms == (planned_ms or first_ms + 9 * HOUR_MS)


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
    gone_ms = life.state.reservations["second@1"].planned_start_ms
    # The first is late, and takes what is going, which is late too.
    moved: list[ReservationMoved] = []
    while life.now_ms < MADE_MS + 30 * MINUTE_MS:
        decision = life.do(Tick(), life.due_ms())
        moved += [
            event
            for event in decision.events
            if isinstance(event, ReservationMoved) and event.reservation == "second@1"
        ]
    assert [(event.at_ms, event.by_conflict) for event in moved] == [(gone_ms, False)]
    life.do(Confirm("x/0"))
    for name in ("first@1", "second@1"):
        life.do(Tick(), life.state.reservations[name].planned_start_ms)
    # The first has started; the second may ask again.
    assert life.phase("first") is Phase.RUNNING
    assert life.state.reservations["second@1"].by_conflict


def cleared_for_first(nodes: list[Node]) -> Life:
    """Return a ledger in which ``x`` or ``y`` was cut for ``first``, made before ``second``.

    With an executor, so that what was cut is going still. ``second`` is at its share, and may not
    ask for a conflict.
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


def test_nobody_comes_sooner_by_a_conflict_while_room_is_made_for_another() -> None:
    life = cleared_for_first(fleet({"A": 16}))
    # One after the other is asked, whether it could be sooner.
    for hours in (1_000, 1_001):
        may_ask = Owner(name="three", quota=Quota(gpu_ms_budget=hours * HOUR_MS))
        life.do(Apply((may_ask,)))
        assert not life.state.reservations["second@1"].by_conflict
    life.do(Confirm(life.stopping()[0]))
    assert life.phase("first") is Phase.RUNNING
    assert life.state.reservations["second@1"].by_conflict


def test_a_domain_that_is_gone_is_not_waited_for() -> None:
    life = cleared_for_first(fleet({"A": 16, "B": 8}))
    assert dict(life.state.reservations["first@1"].slice.domains) == {"r/c/A": 8, "r/c/B": 8}
    life.do(Apply((node("b0000", 8, "C"),)))
    moved_ms = life.state.reservations["first@1"].planned_start_ms
    assert moved_ms is not None
    life.do(Tick(), moved_ms)
    life.do(Confirm(life.stopping()[0]))
    # Elsewhere it goes only when it is late.
    life.do(Tick(), life.due_ms())
    assert (life.now_ms, life.phase("first")) == (moved_ms + 1, Phase.RUNNING)


def test_a_start_that_shares_one_of_its_payers_with_a_promise_before_is_moved_with_it() -> None:
    a, b = ((("fabric.domain", domain),) for domain in "AB")
    own = (envelope("both", 8), envelope("far", 8, selector=(("region", "r"), *b)))
    life = Life(
        nodes=fleet({"A": 8, "B": 16}),
        budgets=[budget("b-one", "one", *own), budget("b-two", "two", envelope("e", 24))],
        pools=[pool(0)],
    )
    life.do(Submit(of("x", 8, "two", 2, selector=a)))
    second_ms = NOW_MS + 4 * HOUR_MS + 15 * MINUTE_MS
    life.do(Submit(run("y", 16, "two", expected_duration_ms=second_ms - NOW_MS, selector=b)))
    life.do(Submit(of("first", 8, "one", 2, selector=a)))
    life.do(Submit(of("second", 16, "one", 2, selector=b)))
    planned = {name: known.planned_start_ms for name, known in life.state.reservations.items()}
    assert planned == {"first@1": NOW_MS + 2 * HOUR_MS, "second@1": second_ms}
    # The first has to wait for x, which takes longer than it said, and runs for two hours.
    late_ms = NOW_MS + 2 * HOUR_MS + 1
    moved = [e for e in life.do(Tick(), late_ms).events if isinstance(e, ReservationMoved)]
    assert [(event.reservation, event.planned_start_ms) for event in moved] == [
        ("first@1", late_ms + 30 * MINUTE_MS),
        ("second@1", late_ms + 30 * MINUTE_MS + 2 * HOUR_MS),
    ]
    assert moved[1].cause == "reservation first@1, made before it, has moved"


def test_a_start_comes_no_sooner_where_its_payer_would_keep_the_whole_domain() -> None:
    nodes = [node("a0", 8, "A", rack="r0"), node("a1", 8, "A", rack="r1"), node("b0", 8, "B")]
    others = [
        budget("b-two", "two", envelope("e", 8)),
        budget("b-three", "three", envelope("e", 16)),
    ]
    plain = envelope("e", 8)
    life = Life(nodes=nodes, budgets=[budget("b-one", "one", plain), *others])
    life.do(Submit(of("own", 8, "one", 6, selector=(("fabric.domain", "B"),))))
    life.do(Submit(of("x", 8, "three", 4, selector=((RACK, "r1"),))))
    life.do(Submit(of("y", 8, "three", 2, selector=((RACK, "r0"),))))
    life.do(Submit(of("first", 8, "one")))
    life.do(Submit(of("second", 8, "two", 5)))
    first, second = (life.state.reservations[name] for name in ("first@1", "second@1"))
    assert first.planned_start_ms == NOW_MS + 6 * HOUR_MS
    assert second.planned_start_ms == NOW_MS + 2 * HOUR_MS
    # That pays from when x ends, and in a rack: numbers do not tell what it leaves to others.
    racked = envelope("racked", 8, selector=((RACK, "r1"),))
    life.do(Apply((budget("b-one", "one", plain, racked),)), NOW_MS + HOUR_MS)
    assert life.state.reservations["first@1"].planned_start_ms == NOW_MS + 6 * HOUR_MS
    life.do(Complete("y"), NOW_MS + 2 * HOUR_MS)
    assert life.phase("second") is Phase.RUNNING


def made(name: str, *, by_conflict: bool) -> ReservationMade:
    """Return a promise for an hour from now."""
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


def later(cause: str) -> ReservationMoved:
    """Return the move of ``r`` by an hour."""
    late_ms = NOW_MS + 2 * HOUR_MS
    return ReservationMoved(
        at_ms=NOW_MS + MINUTE_MS,
        actor="test",
        reservation="r@1",
        status=ReservationStatus.DEFERRED,
        slice=PLACE,
        payers=(),
        planned_start_ms=late_ms,
        natural_start_ms=late_ms,
        by_conflict=False,
        cause=cause,
    )


@pytest.mark.parametrize("by_conflict", [True, False])
@pytest.mark.parametrize("outcome", [None, *ReservationOutcome])
def test_only_a_start_by_conflict_may_move_when_another_promise_is_gone(
    outcome: ReservationOutcome | None,
    by_conflict: bool,  # noqa: FBT001 - a parameter
) -> None:
    books = PromiseBooks(LOTTERY_SECRET, LOTTERY_LENGTH)
    state = world()
    closed: list[Event] = []
    if outcome is not None:
        closed = [
            ReservationClosed(at_ms=NOW_MS, actor="test", reservation="other@1", outcome=outcome)
        ]
    first = [made("r", by_conflict=by_conflict), made("other", by_conflict=False), *closed]
    assert list(books.enter(1, first, state)) == []
    faults = list(books.enter(2, [later("no conflict: it would cost too much")], state))
    assert bool(faults) is not (by_conflict and outcome is not None)


@pytest.mark.parametrize(("minutes", "is_excused"), [(55, False), (56, True)])
def test_a_stop_that_may_outlast_what_a_run_said_excuses_who_counts_on_its_end(
    minutes: int,
    is_excused: bool,  # noqa: FBT001 - a parameter
) -> None:
    life = life_of(0)
    life.has_executor = True
    life.do(Submit(of("x", 8, "one", 1, checkpoint_ms=5 * MINUTE_MS)))
    books = PromiseBooks(LOTTERY_SECRET, LOTTERY_LENGTH)
    assert list(books.enter(1, [made("r", by_conflict=False)], life.state)) == []
    decision = life.do(Cancel("x", ""), NOW_MS + minutes * MINUTE_MS)
    assert list(books.enter(2, decision.events, life.state)) == []
    faults = list(books.enter(3, [later("nodes are short by 8 of 8 GPUs")], life.state))
    assert bool(faults) is not is_excused


def test_a_promise_is_none_of_headroom_under_a_hard_quota() -> None:
    books = PromiseBooks(LOTTERY_SECRET, LOTTERY_LENGTH)
    assert list(books.enter(1, [made("r", by_conflict=True)], world())) == []
    why = "no conflict: its owner's hard quota is what it waits for"
    assert list(books.enter(2, [later(f"nodes are short by 1 of 1 GPU; {why}")], world())) == []
