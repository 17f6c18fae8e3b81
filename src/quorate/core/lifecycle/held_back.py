"""Held back: a run that was cut by hand, or whose start was refused, does not start again at once.

Room that is freed for a reservation is kept for this reservation. Room that an operator frees by
hand is not kept for any run. Therefore the runs and steps that were cut by hand do not start again
for one notice period. During this time the operator can use the room.

If the executor cannot start a run, the run gives its GPUs back. For example, a quota of its
namespace is used up, a webhook refuses its pods, or its image is missing. The run keeps its place
in the queue, and Quorate tries to start it again after a pause. The pause doubles with each such
refusal in a row. During the pause no room is kept for the run, because the next start may be
refused as well.
"""

from __future__ import annotations

from typing import Final

from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import ConflictCause
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.state.records import RunRecord, Unstarted
from quorate.model.state.state_view import StateView

PAUSE_MS: Final = MINUTE_MS
"""How long a run is held back after its first refused start; each further refusal doubles it."""
PAUSE_MS_MAX: Final = HOUR_MS
_DOUBLINGS_MAX: Final = (PAUSE_MS_MAX // PAUSE_MS).bit_length()


def held_until_ms(view: StateView, record: RunRecord) -> int | None:
    """Return until when a waiting run is held back; None if it was not held back.

    The instant may already have passed.
    """
    cut_ms = _until_ms(view, record, record.cut_by)
    if record.unstarted is None:
        return cut_ms
    again_ms = again_from_ms(record.unstarted)
    return again_ms if cut_ms is None else max(cut_ms, again_ms)


def again_from_ms(unstarted: Unstarted) -> int:
    """Return the instant at which a run whose starts were refused may be tried again."""
    doublings = min(unstarted.times - 1, _DOUBLINGS_MAX)
    return unstarted.at_ms + min(PAUSE_MS << doublings, PAUSE_MS_MAX)


def growth_held_until_ms(view: StateView, record: RunRecord) -> int | None:
    """Return until when a run whose steps were cut by hand may not grow; None for other runs."""
    return _until_ms(view, record, record.steps_cut_by)


def _until_ms(view: StateView, record: RunRecord, conflict: str) -> int | None:
    """Return the instant one notice period after ``conflict`` was settled.

    Return None if ``conflict`` is empty, or was not declared by hand.
    """
    if not conflict:
        return None
    known = view.conflicts[conflict]
    if known.declared.cause is not ConflictCause.BY_HAND:
        return None
    assert known.resolved is not None, known
    return known.resolved.at_ms + view.pools[record.spec.pool].notice_ms


def held_back(view: StateView, record: RunRecord, now_ms: int) -> Refusal | None:
    """Return the refusal of a run that is held back at ``now_ms``; None if it is not held back."""
    unstarted = record.unstarted
    if unstarted is not None and now_ms < again_from_ms(unstarted):
        return Refusal(
            code=RefusalCode.START_REFUSED,
            subject=unstarted.why,
            wanted=record.spec.gpus,
            current=unstarted.times,
        )
    until_ms = _until_ms(view, record, record.cut_by)
    if until_ms is None or until_ms <= now_ms:
        return None
    return Refusal(code=RefusalCode.JUST_CUT, subject=record.cut_by, wanted=record.spec.gpus)


def release_due_ms(view: StateView, after_ms: int) -> int | None:
    """Return when, after ``after_ms``, the first held-back run may start or grow again."""
    held = view.held_runs
    if not held:
        return None
    found = []
    for name in held:
        record = view.runs[name]
        if name in view.queued:
            found.append(held_until_ms(view, record))
        if name in view.growable:
            found.append(growth_held_until_ms(view, record))
    return min((at_ms for at_ms in found if at_ms is not None and at_ms > after_ms), default=None)
