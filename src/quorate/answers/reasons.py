"""Why runs wait, asked anew at the moment of reading. Pure.

The ledger keeps a refusal when its code changes, so its numbers are those of that time. What is
shown is what admission answers now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from quorate.answers.moment import Moment
from quorate.core.planning.walk import is_news
from quorate.core.round_story import between_rounds
from quorate.core.stops import leases_under
from quorate.documents.times import time_text
from quorate.model.records import Phase, RunRecord
from quorate.model.refusal import Refusal, sentence

LIVE_MAX: Final = 500
"""How many waiting runs of one list are tried anew; the rest show what was recorded, and when."""

STARTABLE: Final = "could start now; try it: quorate tick"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a run waits. ``refusal`` None means that nothing holds it any more.

    ``since_ms`` is since when it is this reason, None when the ledger does not have it yet.
    ``as_of_ms`` is set when the recorded refusal is shown as it is: then it is of that time.
    """

    refusal: Refusal | None
    since_ms: int | None = None
    as_of_ms: int | None = None

    def text(self) -> str:
        """Return it in a few words."""
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
    return Reason(refusal=moment.veil.refusal(answer), since_ms=since_ms)


def reasons_now(moment: Moment, names: Sequence[str]) -> dict[str, Reason]:
    """Return why each waiting run of ``names`` waits; those after ``LIVE_MAX`` as recorded."""
    records = [moment.view.runs[name] for name in names]
    waiting = [
        record
        for record in records
        if record.phase is Phase.PENDING
        or (record.spec.name in moment.view.in_rounds and not leases_under(moment.view, record))
    ]
    found = {record.spec.name: reason_now(moment, record) for record in waiting[:LIVE_MAX]}
    for record in waiting[LIVE_MAX:]:
        at_ms = record.refused_since_ms
        found[record.spec.name] = (
            reason_now(moment, record)
            if record.refusal is None
            else Reason(refusal=moment.veil.refusal(record.refusal), since_ms=at_ms, as_of_ms=at_ms)
        )
    return found
