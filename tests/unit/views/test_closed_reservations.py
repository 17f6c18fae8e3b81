"""Closed reservations, read from the ledger: as they were when they ended."""

from __future__ import annotations

from quorate.ledger.chain import GENESIS
from quorate.model.amounts import HOUR_MS
from quorate.model.events import (
    Event,
    MoveCause,
    MoveCode,
    ReservationClosed,
    ReservationMade,
    ReservationMoved,
    ReservationOutcome,
    ReservationStatus,
    Share,
    Slice,
    Tier,
)
from quorate.model.specs import EnvelopeId
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS
from quorate.views.runs.closed_reservations import closed_reservations
from quorate.views.runs.event_text import Entry
from quorate.views.runs.instant import Moment

PLACE = Slice("H100", 8, (("A", 8),))
ELSEWHERE = Slice("H100", 8, (("B", 8),))
SHARES = (Share(EnvelopeId("b/e"), Tier.OWNED, 8, HOUR_MS),)
LATE = MoveCause(MoveCode.NODE_LOST, (("node", "a1"),))


def made(name: str) -> ReservationMade:
    return ReservationMade(
        at_ms=NOW_MS,
        actor="test",
        reservation=name,
        run=name.partition("@")[0],
        slice=PLACE,
        payers=SHARES,
        planned_start_ms=NOW_MS + HOUR_MS,
        natural_start_ms=NOW_MS + HOUR_MS,
        by_conflict=False,
    )


def moved(name: str) -> ReservationMoved:
    return ReservationMoved(
        at_ms=NOW_MS + 1,
        actor="test",
        reservation=name,
        status=ReservationStatus.DEFERRED,
        slice=ELSEWHERE,
        payers=(),
        planned_start_ms=NOW_MS + 2 * HOUR_MS,
        natural_start_ms=NOW_MS + 3 * HOUR_MS,
        by_conflict=True,
        cause=LATE,
    )


def closed(name: str, outcome: ReservationOutcome) -> ReservationClosed:
    return ReservationClosed(at_ms=NOW_MS + 2, actor="test", reservation=name, outcome=outcome)


def history(*events: Event) -> list[Entry]:
    return [Entry(number, GENESIS, event) for number, event in enumerate(events, start=1)]


def test_a_reservation_that_moved_is_as_it_was_when_it_ended() -> None:
    events = (made("a@1"), moved("a@1"), closed("a@1", ReservationOutcome.ACTIVATED))
    found = closed_reservations(history(*events), {"a@1"})["a@1"]
    assert (found.outcome, found.at_ms) == (ReservationOutcome.ACTIVATED, NOW_MS + 2)
    record = found.record
    assert (record.made, record.seq, record.status) == (made("a@1"), 1, ReservationStatus.DEFERRED)
    assert (record.slice, record.payers, record.cause) == (ELSEWHERE, (), LATE)
    assert (record.planned_start_ms, record.natural_start_ms) == (
        NOW_MS + 2 * HOUR_MS,
        NOW_MS + 3 * HOUR_MS,
    )
    assert record.by_conflict is True


def test_only_named_reservations_that_are_over_are_found() -> None:
    events = history(
        made("a@1"),
        made("b@1"),
        made("c@1"),
        closed("a@1", ReservationOutcome.CANCELLED),
        closed("b@1", ReservationOutcome.CANCELLED),
    )
    assert list(closed_reservations(events, {"a@1", "c@1"})) == ["a@1"]


def test_a_moment_derives_its_plan_once() -> None:
    moment = Moment(State(), NOW_MS, 0)
    assert moment.plan is moment.plan
