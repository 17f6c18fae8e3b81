"""Held back: a run that was cut by hand does not take the room back at once.

Room that is cut for a reservation is kept for it. Room that an operator frees by hand is kept for
no run. So runs and steps that were cut for it do not start again for one notice period, which gives
the operator time to use the room.
"""

from __future__ import annotations

from quorate.model.events import ConflictCause
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.state.records import RunRecord
from quorate.model.state.state_view import StateView


def held_until_ms(view: StateView, record: RunRecord) -> int | None:
    """Return until when a waiting run that was cut by hand is held back; None if it was not."""
    return _until_ms(view, record, record.cut_by)


def growth_held_until_ms(view: StateView, record: RunRecord) -> int | None:
    """Return until when a run that was cut by hand may not grow again; None if it was not."""
    return _until_ms(view, record, record.steps_cut_by)


def _until_ms(view: StateView, record: RunRecord, conflict: str) -> int | None:
    """Return one notice after ``conflict`` was settled; None unless it was called by hand."""
    if not conflict:
        return None
    known = view.conflicts[conflict]
    if known.declared.cause is not ConflictCause.BY_HAND:
        return None
    assert known.resolved is not None, known
    return known.resolved.at_ms + view.pools[record.spec.pool].notice_ms


def held_back(view: StateView, record: RunRecord, now_ms: int) -> Refusal | None:
    """Return the refusal that holds a run back at ``now_ms``, if one does."""
    until_ms = held_until_ms(view, record)
    if until_ms is None or until_ms <= now_ms:
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
