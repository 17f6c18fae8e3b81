"""Writes the events of firm starts: made, moved with a cause, closed."""

from __future__ import annotations

from quorate.core.decision_log import DecisionLog
from quorate.core.profile.plan_entry import Entry
from quorate.model.events import (
    MoveCause,
    ReservationClosed,
    ReservationMade,
    ReservationMoved,
    ReservationOutcome,
    ReservationStatus,
)
from quorate.model.state.apply_event import apply
from quorate.model.state.records import ReservationRecord
from quorate.model.state.state import State
from quorate.model.state.state_view import StateView


def make_firm(
    log: DecisionLog, entry: Entry, *, natural_ms: int | None, by_conflict: bool = False
) -> None:
    """Write that the start of ``entry`` is firm from now on.

    ``natural_ms`` is when the run could start without a conflict. For a start ``by_conflict``,
    ``natural_ms`` is later than ``entry.start_ms``, or None if the run cannot start without a
    conflict.
    """
    number = log.view.runs[entry.run].reservations_ever + 1
    log.write(
        ReservationMade(
            at_ms=log.now_ms,
            actor=log.actor,
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
    log: DecisionLog,
    record: ReservationRecord,
    entry: Entry | None,
    status: ReservationStatus,
    cause: MoveCause,
    *,
    natural_ms: int | None = None,
    by_conflict: bool = False,
) -> None:
    """Write that a reservation moves to the start of ``entry``, with the cause.

    If ``entry`` is None, the reservation has no start from now on.
    """
    natural_ms = entry.start_ms if natural_ms is None and entry is not None else natural_ms
    log.write(
        ReservationMoved(
            at_ms=log.now_ms,
            actor=log.actor,
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


def close_firm(log: DecisionLog, name: str, outcome: ReservationOutcome) -> None:
    """Write that a reservation is closed, with its outcome."""
    log.write(
        ReservationClosed(at_ms=log.now_ms, actor=log.actor, reservation=name, outcome=outcome)
    )


def is_cleared(view: StateView, record: ReservationRecord) -> bool:
    """Return whether a settled conflict has made room for the planned start of ``record``.

    A conflict is called before the start by at most the longest grace of the pool. If a conflict
    was settled earlier, it made room for a former start of the reservation.
    """
    if not record.by_conflict or not record.conflict or record.planned_start_ms is None:
        return False
    if record.status is ReservationStatus.CLEARING:
        return True
    resolved = view.conflicts[record.conflict].resolved
    assert resolved is not None, record
    lead_ms = view.pools[view.runs[record.made.run].spec.pool].grace_max_ms
    return resolved.at_ms >= record.planned_start_ms - lead_ms


def without_hold(view: StateView, name: str) -> State:
    """Return an overlay of ``view`` in which a reservation is closed and holds nothing."""
    trial = view.overlay()
    outcome = ReservationOutcome.CANCELLED
    apply(trial, ReservationClosed(at_ms=view.at_ms, actor="", reservation=name, outcome=outcome))
    return trial
