"""Held back: who was cut by hand does not take the room back at once.

Room that a reservation is promised is kept for it. Room that somebody had made by hand is kept for
nobody, so those who were cut for it stay away for one notice: long enough to do with the room what
it was made for.
"""

from __future__ import annotations

from quorate.model.events import ConflictCause
from quorate.model.records import RunRecord
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.view import StateView


def held_until_ms(view: StateView, record: RunRecord) -> int | None:
    """Return until when a waiting run is held back; None where it never was."""
    if not record.cut_by or record.cut_ms is None:
        return None
    if view.conflicts[record.cut_by].declared.cause is not ConflictCause.BY_HAND:
        return None
    return record.cut_ms + view.pools[record.spec.pool].notice_ms


def held_back(view: StateView, run: str, now_ms: int) -> Refusal | None:
    """Return that ``run`` is held back at ``now_ms``, if it is."""
    record = view.runs.get(run)
    until_ms = None if record is None else held_until_ms(view, record)
    if record is None or until_ms is None or until_ms <= now_ms:
        return None
    return Refusal(code=RefusalCode.JUST_CUT, subject=record.cut_by, wanted=record.spec.gpus)


def release_due_ms(view: StateView, after_ms: int) -> int | None:
    """Return when the next run that is held back may start, after ``after_ms``."""
    found = (held_until_ms(view, view.runs[name]) for name in view.pending)
    return min((at_ms for at_ms in found if at_ms is not None and at_ms > after_ms), default=None)
