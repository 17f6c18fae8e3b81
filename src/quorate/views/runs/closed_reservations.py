"""Closed reservations, read back from the ledger. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from quorate.model.events import (
    ReservationClosed,
    ReservationMade,
    ReservationMoved,
    ReservationOutcome,
    ReservationStatus,
)
from quorate.model.state.records import ReservationRecord
from quorate.views.runs.event_text import Entry


@dataclass(frozen=True, slots=True)
class ClosedReservation:
    """A reservation as it was when it closed, how it closed, and when."""

    record: ReservationRecord
    outcome: ReservationOutcome
    at_ms: int


def closed_reservations(
    history: Iterable[Entry], names: Collection[str]
) -> dict[str, ClosedReservation]:
    """Return the closed reservations among ``names``, by name; ``history`` is the ledger."""
    made: dict[str, ReservationRecord] = {}
    found: dict[str, ClosedReservation] = {}
    for entry in history:
        match entry.event:
            case ReservationMade() as event if event.reservation in names:
                made[event.reservation] = ReservationRecord(
                    event,
                    entry.seq,
                    ReservationStatus.PLANNED,
                    event.slice,
                    event.payers,
                    event.planned_start_ms,
                    event.natural_start_ms,
                    event.by_conflict,
                )
            case ReservationMoved() as event if event.reservation in names:
                record = made[event.reservation]
                record.status, record.slice = event.status, event.slice
                record.payers, record.cause = event.payers, event.cause
                record.planned_start_ms = event.planned_start_ms
                record.natural_start_ms = event.natural_start_ms
                record.by_conflict = event.by_conflict
            case ReservationClosed() as event if event.reservation in names:
                found[event.reservation] = ClosedReservation(
                    made[event.reservation], event.outcome, event.at_ms
                )
            case _:
                pass
    return found
