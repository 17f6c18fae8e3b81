"""The books of promises detect the events of a faulty planner."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from quorate.core.commands import Apply, Cancel, Command, Complete, Confirm, MarkNode, Submit, Tick
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    EndReason,
    Event,
    LeaseEnded,
    LeaseEnding,
    LoanRecalled,
    MoveCause,
    MoveCode,
    NodeStatus,
    ReservationClosed,
    ReservationMoved,
    ReservationOutcome,
    ReservationStatus,
    Share,
    Slice,
    StartReason,
    Tier,
)
from quorate.model.specs import Budget, Cap, EnvelopeId, OnQuota, Owner, Quota
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, borrowing, budget, envelope, fleet, lending
from quorate.testing.firm_oracle import (
    Place,
    PutBack,
    lacking,
    places_of,
    stoppable,
    stopped_by,
)
from quorate.testing.promise_books import PromiseBooks
from tests.oracles.lives import Life
from tests.oracles.plans import alone, of, planned_life

SECRET, LENGTH = b"x" * 32, 10


class Book:
    """A ledger whose blocks are entered into books of promises."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.books = PromiseBooks(SECRET, LENGTH)
        self._height = 0
        assert self.enter(life.events) == []

    def enter(self, events: Sequence[Event]) -> list[str]:
        """Return the violations of a block that is in the state already."""
        self._height += 1
        return list(self.books.enter(self._height, events, self.life.state))

    def do(self, command: Command, at_ms: int | None = None) -> list[str]:
        """Return the violations of a decision."""
        self.books.looked(self.life.now_ms if at_ms is None else at_ms)
        return self.enter(self.life.do(command, at_ms).events)

    def write(self, *events: Event) -> list[str]:
        """Return the violations of events that no planner decided."""
        apply_all(self.life.state, events)
        return self.enter(events)

    def moved(
        self,
        name: str,
        to_ms: int,
        cause: MoveCause,
        *after: Event,
        before: Sequence[Event] = (),
    ) -> list[str]:
        """Return the violations of moving the firm start of a run, and of other events."""
        record = self.life.state.reservations[f"{name}@1"]
        return self.write(
            *before,
            ReservationMoved(
                at_ms=self.life.now_ms,
                actor="test",
                reservation=f"{name}@1",
                status=ReservationStatus.DEFERRED,
                slice=record.slice,
                payers=record.payers,
                planned_start_ms=to_ms,
                natural_start_ms=to_ms,
                by_conflict=False,
                cause=cause,
            ),
            *after,
        )


def waiting(
    budgets: Sequence[Budget] = (), owners: Sequence[Owner] = (), *, has_executor: bool = False
) -> Book:
    """Return books with ``first`` firm in the place of ``runs``, which end in an hour."""
    found = Book(planned_life(16, budgets=budgets, owners=owners, has_executor=has_executor))
    assert found.do(Submit(of("runs", 16, "one", 60))) == []
    assert found.do(Submit(of("first", 8, "two", 60))) == []
    return found


def beside(found: Book) -> list[str]:
    """Return the violations of a firm start of ``second`` beside ``first``."""
    assert found.do(Submit(of("second", 8, "two", 60, on_quota=OnQuota.WAIT))) == []
    start_ms = found.life.state.reservations["first@1"].made.planned_start_ms
    return found.moved("second", start_ms, MoveCause(MoveCode.LOANS_RECALLED))


LINE = alone(envelope("e", 8))
CAPPED = Budget(
    name="b-two",
    owner="two",
    envelopes=(alone(envelope("e", 64)),),
    caps=(Cap(name="all", flavor="H100", envelopes=("e",), concurrency_max=8),),
)


@pytest.mark.parametrize(
    ("budgets", "owners", "lacks"),
    [
        ([budget("b-two", "two", LINE)], [], "envelope b-two/e has 8 GPUs too few"),
        ([CAPPED], [], "cap b-two/all has 8 GPUs too few"),
        (
            [],
            [Owner(name="two", quota=Quota(concurrent_runs_max=1))],
            "quota of two has 0 of 1 run",
        ),
        ([], [Owner(name="two", quota=Quota(nodes_max=1))], "quota of two has 1 nodes too few"),
    ],
    ids=["envelope", "cap", "runs", "nodes"],
)
def test_two_places_that_cannot_both_be_kept_are_found(
    budgets: list[Budget], owners: list[Owner], lacks: str
) -> None:
    found = waiting(budgets=budgets, owners=owners)
    assert any(lacks in text for text in beside(found))


def test_two_places_in_the_same_room_are_found() -> None:
    found = waiting()
    assert found.do(Submit(of("wide", 16, "three", 60))) == []
    start_ms = found.life.state.reservations["first@1"].made.planned_start_ms
    texts = found.moved("wide", start_ms, MoveCause(MoveCode.LOANS_RECALLED))
    assert any(
        "first@1 cannot be kept: ['domain r/c/A has 0 free GPUs of 8" in text for text in texts
    )


@pytest.mark.parametrize(
    "cause",
    [
        MoveCause(MoveCode.BUDGET_CHANGED, (("envelope", "b-two/e"),)),
        MoveCause(MoveCode.QUOTA_CHANGED, (("owner", "two"),)),
        MoveCause(MoveCode.OWNER_MOVED, (("owner", "two"),)),
        MoveCause(MoveCode.NODES_CHANGED, (("domain", "r/c/A"),)),
        MoveCause(MoveCode.NODE_LOST, (("node", "a0"),)),
        MoveCause(MoveCode.LEASE_OVERRAN, (("lease", "runs/0"),)),
    ],
    ids=lambda cause: cause.code.value,
)
def test_cause_that_is_not_so_is_found(cause: MoveCause) -> None:
    found = waiting()
    texts = found.moved("first", NOW_MS + 2 * HOUR_MS, cause)
    assert any(text.endswith("although its place is still free") for text in texts)
    assert any(text.endswith("but nothing of that kind has changed") for text in texts)


def test_budget_that_is_applied_as_it_was_is_no_cause() -> None:
    found = waiting()
    line = found.life.state.budgets["b-two"]
    cause = MoveCause(MoveCode.BUDGET_CHANGED, (("envelope", "b-two/e"),))
    assert found.do(Apply((line,)), NOW_MS + MINUTE_MS) == []
    texts = found.moved("first", NOW_MS + 2 * HOUR_MS, cause)
    assert any(text.endswith("but nothing of that kind has changed") for text in texts)


def test_budget_that_has_changed_is_a_cause() -> None:
    found = waiting()
    line = replace(found.life.state.budgets["b-two"].envelopes[0], concurrency=4)
    changed = replace(found.life.state.budgets["b-two"], envelopes=(line,))
    assert found.do(Apply((changed,)), NOW_MS + MINUTE_MS) == []
    assert found.books.moved_later == 1


def family_book() -> Book:
    """Return books of a firm start of ``one`` for which its sibling ``two`` is to pay."""
    owners = [Owner(name="above"), *(Owner(name=n, parents=("above",)) for n in ("one", "two"))]
    paying = [budget("b-one", "one", envelope("e", 1)), budget("b-two", "two", envelope("e", 8))]
    found = Book(planned_life(8, owners=owners, budgets=paying))
    assert found.do(Submit(of("busy", 8, "three", 60))) == []
    assert found.do(Submit(of("first", 8, "one", 60))) == []
    return found


def test_payer_that_leaves_the_family_is_a_cause_only_by_its_owner() -> None:
    found = family_book()
    assert found.do(Apply((Owner(name="two"),)), NOW_MS + MINUTE_MS) == []
    assert found.books.moved_later == 1
    again = family_book()
    apply_all(again.life.state, moved := again.life.ask(Apply((Owner(name="two"),))).events)
    named = MoveCause(MoveCode.OWNER_MOVED, (("owner", "three"),))
    texts = again.enter(
        [replace(e, cause=named) if isinstance(e, ReservationMoved) else e for e in moved]
    )
    assert any("but even without that it lacks ['envelope b-two/e" in text for text in texts)


def test_being_down_excuses_only_what_was_due_meanwhile() -> None:
    found = waiting()
    start_ms = found.life.state.reservations["first@1"].made.planned_start_ms
    found.books.shaken(NOW_MS + 10 * MINUTE_MS)
    cause = MoveCause(MoveCode.LEASE_OVERRAN, (("lease", "runs/0"),))
    assert any("though its place" in text for text in found.moved("first", start_ms + 1, cause))


def test_a_start_that_was_missed_is_due_at_the_next_decision() -> None:
    """The first decision after the program was down orders a lease to stop, which stops quickly."""
    found = waiting(has_executor=True)
    due_ms = found.life.state.reservations["first@1"].made.planned_start_ms
    after_ms = due_ms + 10 * MINUTE_MS
    found.books.shaken(after_ms)
    assert found.do(Cancel("runs"), after_ms) == []
    assert found.do(Confirm("runs/0"), after_ms) == []
    assert found.life.phase("first") is Phase.RUNNING


def test_a_start_that_was_missed_is_not_excused_after_the_next_decision() -> None:
    found = waiting(has_executor=True)
    due_ms = found.life.state.reservations["first@1"].made.planned_start_ms
    after_ms = due_ms + 10 * MINUTE_MS
    found.books.shaken(after_ms)
    closed = ReservationClosed(
        at_ms=after_ms + 2,
        actor="test",
        reservation="first@1",
        outcome=ReservationOutcome.ACTIVATED,
    )
    found.life.now_ms = after_ms + 2
    found.books.looked(after_ms + 2)
    assert any("firm for" in text for text in found.write(closed))


@pytest.mark.parametrize(("was_down", "is_wrong"), [(True, False), (False, True)])
def test_recalled_work_is_told_in_time_unless_nothing_was_decided_then(
    was_down: bool,  # noqa: FBT001 - a parameter
    is_wrong: bool,  # noqa: FBT001 - a parameter
) -> None:
    notice_ms, grace_ms = 20 * MINUTE_MS, 5 * MINUTE_MS
    line = alone(envelope("e", 8, lending=lending(recall_notice_ms=notice_ms)))
    budgets = [budget("b-one", "one", line), budget("b-two", "two", alone(envelope("e", 1)))]
    found = Book(planned_life(16, budgets=budgets, has_executor=True))
    loan = of("loan", 8, "two", funding=borrowing(), checkpoint_ms=grace_ms)
    assert found.do(Submit(loan)) == []
    assert found.do(Submit(of("mine", 8))) == []
    last_ms = NOW_MS + notice_ms - grace_ms
    if was_down:
        found.books.shaken(last_ms + MINUTE_MS)
    else:
        found.books.looked(last_ms)
    texts = found.do(Tick(), last_ms + MINUTE_MS)
    assert any("must end by" in text for text in texts) is is_wrong


@pytest.mark.parametrize(("waiting_run", "is_wrong"), [("other", False), ("first", True)])
def test_what_is_recalled_later_in_a_block_for_another_run_keeps_no_start(
    waiting_run: str,
    is_wrong: bool,  # noqa: FBT001 - a parameter
) -> None:
    lent = budget("b-one", "one", alone(envelope("e", 8, lending=lending())))
    found = Book(planned_life(16, budgets=[lent, budget("b-two", "two", envelope("e", 1))]))
    assert found.do(Submit(of("loan", 8, "two", 60, funding=borrowing()))) == []
    assert found.do(Submit(of("first", 8))) == []
    late_ms = NOW_MS + HOUR_MS + MINUTE_MS
    found.life.now_ms = late_ms
    overran = MoveCause(MoveCode.LEASE_OVERRAN, (("lease", "loan/0"),))
    recall = LoanRecalled(
        at_ms=late_ms,
        actor="test",
        run="loan",
        bundle=0,
        payer=EnvelopeId("b-one/e"),
        waiting_run=waiting_run,
        due_ms=late_ms,
    )
    texts = found.moved("first", late_ms + HOUR_MS, overran, recall)
    assert any("although its place is still free" in text for text in texts) is is_wrong


@pytest.mark.parametrize("early_ms", [0, 1])
def test_backfill_that_is_stopped_before_its_time_is_found(early_ms: int) -> None:
    found = Book(planned_life(16, has_executor=True))
    grace_ms = 5 * MINUTE_MS
    assert found.do(Submit(of("runs", 8, "one", 60))) == []
    assert found.do(Submit(of("first", 16, "two", 60))) == []
    assert found.do(Submit(of("fills", 8, "three", 30, checkpoint_ms=grace_ms))) == []
    start_ms = found.life.state.reservations["first@1"].made.planned_start_ms
    at_ms = start_ms - grace_ms - early_ms
    told = LeaseEnding(
        at_ms=at_ms,
        actor="test",
        lease="fills/0",
        reason=EndReason.OVERSTAYED,
        deadline_ms=at_ms + grace_ms,
    )
    assert any("is stopped for a start" in text for text in found.write(told)) is bool(early_ms)


@pytest.mark.parametrize("gpus", [4, 2])
def test_a_spare_that_is_filled_after_a_move_was_in_the_way(gpus: int) -> None:
    """The filler did not exist when the start moved, but the spare and its hold did."""
    found = Book(planned_life(16, budgets=[budget("b-two", "two", alone(envelope("e", gpus)))]))
    assert found.do(Submit(of("wide", 8 - gpus, "one", 60))) == []
    assert found.do(Submit(of("fills", gpus, "two", 60))) == []
    (lost,) = found.life.on("fills")
    assert found.do(Submit(of("parks", 4, "three", 120, group_gpus=4, spares_per_group=4))) == []
    assert found.do(Submit(of("first", gpus, "two", 60))) == []
    assert found.do(MarkNode(lost, NodeStatus.FAILED), NOW_MS + MINUTE_MS) == []
    assert found.life.filled("parks") == gpus
    assert found.books.moved_later == 1


def test_a_lease_that_is_handed_over_after_a_move_is_no_excuse_for_its_cause() -> None:
    found = waiting()
    line = replace(found.life.state.budgets["b-two"].envelopes[0], concurrency=60)
    changed = replace(found.life.state.budgets["b-two"], envelopes=(line,))
    late_ms = NOW_MS + HOUR_MS + MINUTE_MS
    assert found.do(Apply((changed,)), NOW_MS + MINUTE_MS) == []
    held = found.life.state.leases["runs/0"].fact
    found.life.now_ms = late_ms
    gone = LeaseEnded(
        at_ms=late_ms, actor="test", lease="runs/0", reason=EndReason.HANDOVER, end_ms=late_ms
    )
    goes_on = replace(
        held, at_ms=late_ms, lease="runs/1", start_ms=late_ms, reason=StartReason.HANDOVER
    )
    cause = MoveCause(MoveCode.BUDGET_CHANGED, (("envelope", "b-two/e"),))
    texts = found.moved("first", late_ms + HOUR_MS, cause, gone, goes_on)
    assert any(
        "but even without that it lacks ['domain r/c/A has 0 free GPUs of 8" in text
        for text in texts
    )


@pytest.mark.parametrize("is_before", [False, True])
def test_a_lease_that_is_handed_over_after_a_move_took_no_money_from_the_start(
    is_before: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Before the move, the payer of the start had nothing else to pay for."""
    line = alone(envelope("e", 8))
    life = planned_life(nodes=fleet({"A": 16, "B": 4}), budgets=[budget("b-two", "two", line)])
    found = Book(life)
    in_a, in_b = ({"selector": (("fabric.domain", each),)} for each in "AB")
    assert found.do(Submit(of("runs", 16, "one", 60, **in_a))) == []
    assert found.do(Submit(of("other", 4, "three", 300, **in_b))) == []
    assert found.do(Submit(of("first", 8, "two", 60, **in_a))) == []
    held, late_ms = life.state.leases["other/0"].fact, NOW_MS + HOUR_MS + MINUTE_MS
    life.now_ms = late_ms
    gone = LeaseEnded(
        at_ms=late_ms, actor="test", lease="other/0", reason=EndReason.HANDOVER, end_ms=late_ms
    )
    goes_on = replace(
        held,
        at_ms=late_ms,
        lease="other/1",
        payer=EnvelopeId("b-two/e"),
        start_ms=late_ms,
        reason=StartReason.HANDOVER,
    )
    cause = MoveCause(MoveCode.LEASE_OVERRAN, (("lease", "runs/0"),))
    events, to_ms = (gone, goes_on), NOW_MS + 6 * HOUR_MS
    if is_before:
        (text,) = found.moved("first", to_ms, cause, before=events)
        assert "but even without that it lacks ['envelope b-two/e has 4 GPUs too few" in text
    else:
        assert found.moved("first", to_ms, cause, *events) == []


def sharing(*, younger: bool = True, overrunning: Sequence[str] = ("old-0",)) -> Book:
    """Return books in which ``first`` waits for two of three runs, with room for a third to spare.

    ``younger`` takes that room after the start of ``first`` is firm. An hour later, the older
    leases that are not ``overrunning`` end as declared.
    """
    found = Book(planned_life(24))
    for name in ("old-0", "old-1"):
        assert found.do(Submit(of(name, 8, "one", 60))) == []
    assert found.do(Submit(of("first", 16, "two", 60))) == []
    if younger:
        assert found.do(Submit(of("young", 8, "three", 180)), NOW_MS + MINUTE_MS) == []
        assert found.life.phase("young") is Phase.RUNNING
    due_ms = found.life.state.reservations["first@1"].planned_start_ms
    assert due_ms == NOW_MS + HOUR_MS
    for name in {"old-0", "old-1"}.difference(overrunning):
        assert found.do(Complete(name), due_ms) == []
    assert found.do(Tick(), due_ms + 1) == []
    return found


def test_a_younger_lease_in_the_slack_that_an_older_one_overran_into_is_counted() -> None:
    found = sharing()
    assert found.life.phase("first") is Phase.PENDING
    assert (found.books.moved_later, found.books.shared_slack) == (1, 1)


@pytest.mark.parametrize(
    ("younger", "overrunning", "moved"),
    [(True, (), 0), (False, ("old-0",), 0), (False, ("old-0", "old-1"), 1)],
    ids=["all end as declared", "slack for the one that overran", "no younger lease"],
)
def test_slack_that_no_younger_lease_shares_is_not_counted(
    younger: bool,  # noqa: FBT001 - a parameter
    overrunning: tuple[str, ...],
    moved: int,
) -> None:
    found = sharing(younger=younger, overrunning=overrunning)
    assert (found.books.moved_later, found.books.shared_slack) == (moved, 0)


def test_slack_is_not_shared_where_the_start_moves_without_the_younger_lease_too() -> None:
    found = sharing(overrunning=("old-0", "old-1"))
    assert (found.books.moved_later, found.books.shared_slack) == (1, 0)


@pytest.mark.parametrize(("gpus", "lacks"), [(8, False), (16, True)])
def test_a_lease_that_is_stopped_for_a_place_keeps_no_room_from_another_from_then_on(
    gpus: int,
    lacks: bool,  # noqa: FBT001 - a parameter
) -> None:
    """A place of 8 GPUs begins before ``wide``, for which an overstaying lease has to stop."""
    life = planned_life(32, has_executor=True)
    life.do(Submit(of("runs", 16, "one", 60)))
    life.do(Submit(of("wide", 24, "two", 60)))
    life.do(Submit(of("fills", 8, "three", 50, checkpoint_ms=MINUTE_MS)))
    life.do(Submit(of("late", 32, "three", 60)), NOW_MS + 51 * MINUTE_MS)
    places = places_of(life.state)
    (wide,) = (place for place in places if place.run == "wide")
    assert stoppable(life.state, wide) == {"fills/0"}
    start_ms = wide.start_ms - 5 * MINUTE_MS
    here = Slice(flavor="H100", gpus=gpus, domains=(("r/c/A", gpus),))
    place = Place("late", start_ms, wide.end_ms, here, ())
    assert stoppable(life.state, place) == frozenset()
    assert lacking(life.state, place, [wide], PutBack())
    left = lacking(life.state, place, [wide], stopped_by(life.state, place, [wide]))
    assert bool(left) is lacks


@pytest.mark.parametrize(("gpus", "lacks"), [(8, False), (16, True)])
def test_a_lease_that_is_stopped_for_a_place_keeps_no_money_from_another_from_then_on(
    gpus: int,
    lacks: bool,  # noqa: FBT001 - a parameter
) -> None:
    """The places are in different domains, and their payer pays for the lease that has to stop."""
    life = planned_life(
        nodes=fleet({"A": 32, "B": 16}),
        budgets=[budget("b-two", "two", alone(envelope("e", 32)))],
        has_executor=True,
    )
    in_a, in_b = ({"selector": (("fabric.domain", each),)} for each in "AB")
    life.do(Submit(of("runs", 16, "one", 60, **in_a)))
    life.do(Submit(of("wide", 24, "two", 60, **in_a)))
    life.do(Submit(of("fills", 8, "two", 50, checkpoint_ms=MINUTE_MS, **in_a)))
    life.do(Submit(of("late", 32, "two", 60, **in_b)), NOW_MS + 51 * MINUTE_MS)
    (wide,) = (place for place in places_of(life.state) if place.run == "wide")
    assert stoppable(life.state, wide) == {"fills/0"}
    where = Slice(flavor="H100", gpus=gpus, domains=(("r/c/B", gpus),))
    paid = (Share(EnvelopeId("b-two/e"), Tier.OWNED, gpus, HOUR_MS),)
    begins_ms = wide.start_ms - 5 * MINUTE_MS
    place = Place("late", begins_ms, wide.end_ms, where, paid)
    assert lacking(life.state, place, [wide], PutBack())
    left = lacking(life.state, place, [wide], stopped_by(life.state, place, [wide]))
    assert bool(left) is lacks


@pytest.mark.parametrize(("minute", "is_needless"), [(51, True), (59, True), (60, False)])
def test_a_start_that_moves_although_work_may_be_stopped_for_it_is_found(
    minute: int,
    is_needless: bool,  # noqa: FBT001 - a parameter
) -> None:
    found = Book(planned_life(32, has_executor=True))
    found.do(Submit(of("runs", 16, "one", 60)))
    found.do(Submit(of("wide", 24, "two", 60)))
    found.do(Submit(of("fills", 8, "three", 50, checkpoint_ms=MINUTE_MS)))
    found.life.now_ms = NOW_MS + minute * MINUTE_MS
    overran = MoveCause(MoveCode.LEASE_OVERRAN, (("lease", "fills/0"),))
    faults = found.moved("wide", found.life.now_ms + HOUR_MS, overran)
    assert any("fills/0 may be stopped for it" in each for each in faults) is is_needless
