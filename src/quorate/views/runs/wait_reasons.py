"""Why runs wait: the present refusal for a few runs, and the recorded refusal for others. Pure.

The ledger records a refusal when its code changes, so the recorded numbers are as of that time. For
the first runs of a list, admission is tried again; further runs are shown with their recorded
refusal and its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from quorate.core.lifecycle.stops import leases_under
from quorate.core.planning.why_waiting import is_news
from quorate.core.rounds.round_outlook import between_rounds
from quorate.documents.times import time_text
from quorate.model.refusal import Refusal, sentence
from quorate.model.state.records import Phase, RunRecord
from quorate.views.runs.instant import Moment

LIVE_MAX: Final = 20
"""Admission is tried again for the first waiting runs of a list, up to this number.

Further runs are shown with their recorded refusal. This number is the default planning depth of a
pool. So the present reasons fill a screen, and a long list does not need an admission for each row.
"""

STARTABLE: Final = "could start now; to start it: quorate tick"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a run waits; ``refusal`` is None if the run could start now.

    ``since_ms`` is when this reason began, None if the ledger has not recorded it yet. ``as_of_ms``
    is set if the reason is the recorded refusal, and is the time of that record.
    """

    refusal: Refusal | None
    since_ms: int | None = None
    as_of_ms: int | None = None

    def text(self) -> str:
        """Return the reason in a few words."""
        if self.refusal is None:
            return STARTABLE
        mark = "" if self.as_of_ms is None else f" (as of {time_text(self.as_of_ms)})"
        return sentence(self.refusal) + mark


def reason_now(moment: Moment, record: RunRecord) -> Reason:
    """Return why a waiting run waits at ``moment``."""
    view, now_ms, known = moment.view, moment.now_ms, record.refusal
    if record.spec.name in view.in_rounds:
        answer = between_rounds(view, record, now_ms)
    else:
        answer = moment.plan.refusal_of(record)
    if answer is None:
        return Reason(refusal=None)
    since_ms = None if is_news(known, answer) else record.refused_since_ms
    return Reason(refusal=moment.redaction.refusal(answer), since_ms=since_ms)


def reasons_now(moment: Moment, names: Sequence[str]) -> dict[str, Reason]:
    """Return why the waiting runs of ``names`` wait.

    The reasons of the first ``LIVE_MAX`` are the present ones, and further reasons are as recorded.
    """
    records = [moment.view.runs[name] for name in names]
    waiting = [
        record
        for record in records
        if record.phase is Phase.PENDING
        or (record.spec.name in moment.view.in_rounds and not leases_under(moment.view, record))
    ]
    found = {record.spec.name: reason_now(moment, record) for record in waiting[:LIVE_MAX]}
    for record in waiting[LIVE_MAX:]:
        found[record.spec.name] = _as_recorded(moment, record)
    return found


def _as_recorded(moment: Moment, record: RunRecord) -> Reason:
    """Return the recorded reason of a waiting run; no refusal if the plan starts the run now."""
    if record.refusal is None:
        return reason_now(moment, record)
    if moment.plan.walk.plan.has_started(record.spec.name):
        return Reason(refusal=None)
    at_ms = record.refused_since_ms
    return Reason(refusal=moment.redaction.refusal(record.refusal), since_ms=at_ms, as_of_ms=at_ms)
