"""Held back: a run that was cut by hand does not take the room back at once.

Room for a reservation is kept for it. Room that an operator freed by hand is kept for no run, so
the runs that were cut for it stay away for one notice period, whole runs and steps alike: long
enough for the operator to use the room.
"""

from __future__ import annotations

from quorate.model.events import ConflictCause
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.state.records import RunRecord
from quorate.model.state.state_view import StateView


def held_until_ms(view: StateView, record: RunRecord) -> int | None:
    """Return until when a waiting run is held back; None where it never was."""
    return _until_ms(view, record, record.cut_by)


def growth_held_until_ms(view: StateView, record: RunRecord) -> int | None:
    """Return until when a run that lost steps does not grow again; None where it never did."""
    return _until_ms(view, record, record.steps_cut_by)


def _until_ms(view: StateView, record: RunRecord, conflict: str) -> int | None:
    """Return one notice past the cut that ``conflict`` made by hand; None for any other."""
    if not conflict:
        return None
    known = view.conflicts[conflict]
    if known.declared.cause is not ConflictCause.BY_HAND:
        return None
    assert known.resolved is not None, known
    return known.resolved.at_ms + view.pools[record.spec.pool].notice_ms


def held_back(view: StateView, run: str, now_ms: int) -> Refusal | None:
    """Return the refusal that holds ``run`` back at ``now_ms``, if one does."""
    record = view.runs.get(run)
    until_ms = None if record is None else held_until_ms(view, record)
    if record is None or until_ms is None or until_ms <= now_ms:
        return None
    return Refusal(code=RefusalCode.JUST_CUT, subject=record.cut_by, wanted=record.spec.gpus)


def release_due_ms(view: StateView, after_ms: int) -> int | None:
    """Return when the next run that is held back may start or grow, after ``after_ms``."""
    found = []
    for name in view.cut_runs:
        record = view.runs[name]
        if name in view.queued:
            found.append(held_until_ms(view, record))
        if name in view.growable:
            found.append(growth_held_until_ms(view, record))
    return min((at_ms for at_ms in found if at_ms is not None and at_ms > after_ms), default=None)
