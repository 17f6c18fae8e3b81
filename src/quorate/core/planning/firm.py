"""Firm reservations, written: made, moved with a cause, closed."""

from __future__ import annotations

from quorate.core.planning.entry import Entry
from quorate.core.scribe import Scribe
from quorate.model.apply import apply
from quorate.model.events import (
    MoveCause,
    ReservationClosed,
    ReservationMade,
    ReservationMoved,
    ReservationOutcome,
    ReservationStatus,
)
from quorate.model.records import ReservationRecord
from quorate.model.state import State
from quorate.model.view import StateView


def make_firm(scribe: Scribe, entry: Entry, *, natural_ms: int, by_conflict: bool = False) -> None:
    """Write that the start of ``entry`` is firm from now on.

    ``natural_ms`` is when it could start by itself, which is later where it is ``by_conflict``.
    """
    number = scribe.view.runs[entry.run].reservations_ever + 1
    scribe.write(
        ReservationMade(
            at_ms=scribe.now_ms,
            actor=scribe.actor,
            reservation=f"{entry.run}@{number}",
            run=entry.run,
            slice=entry.slice,
            payers=entry.shares,
            planned_start_ms=entry.start_ms,
            natural_start_ms=natural_ms,
            by_conflict=by_conflict,
        )
    )


def move_firm(  # noqa: PLR0913 - what, where to, and why
    scribe: Scribe,
    record: ReservationRecord,
    entry: Entry | None,
    status: ReservationStatus,
    cause: MoveCause,
    *,
    natural_ms: int | None = None,
    by_conflict: bool = False,
) -> None:
    """Write that a reservation starts as ``entry`` says, or has no start, and why."""
    natural_ms = entry.start_ms if natural_ms is None and entry is not None else natural_ms
    scribe.write(
        ReservationMoved(
            at_ms=scribe.now_ms,
            actor=scribe.actor,
            reservation=record.made.reservation,
            status=status,
            slice=record.slice if entry is None else entry.slice,
            payers=() if entry is None else entry.shares,
            planned_start_ms=None if entry is None else entry.start_ms,
            natural_start_ms=natural_ms,
            by_conflict=by_conflict,
            cause=cause,
        )
    )


def close_firm(scribe: Scribe, name: str, outcome: ReservationOutcome) -> None:
    """Write that a reservation is over."""
    scribe.write(
        ReservationClosed(
            at_ms=scribe.now_ms, actor=scribe.actor, reservation=name, outcome=outcome
        )
    )


def without_hold(view: StateView, name: str) -> State:
    """Return an overlay of ``view`` in which what a reservation holds is free again."""
    trial = view.overlay()
    outcome = ReservationOutcome.CANCELLED
    apply(trial, ReservationClosed(at_ms=view.at_ms, actor="", reservation=name, outcome=outcome))
    return trial
