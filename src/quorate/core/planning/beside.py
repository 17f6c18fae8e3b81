"""Starting beside the plan: in what firm places, and entries before it, leave."""

from __future__ import annotations

from quorate.core.admit import Admitted, admit
from quorate.core.planning.resource import FOREVER_MS
from quorate.core.planning.room import room_left
from quorate.core.quota import HARD
from quorate.model.refusal import SHORTAGES_MAX, Refusal, RefusalCode
from quorate.model.specs import Run
from quorate.model.view import StateView


def admit_beside(
    view: StateView, run: Run, now_ms: int, *, exempt: str = "", has_executor: bool = False
) -> Admitted | Refusal:
    """Return how ``run`` starts now beside every firm place, or why it cannot.

    ``exempt`` is its own reservation.
    """
    answer = admit(view, run, now_ms, has_executor=has_executor)
    if isinstance(answer, Refusal) or not view.reservations:
        return answer
    # When a claim's nodes will have been wiped is not known: it takes what no firm start needs.
    until_ms = FOREVER_MS if run.sensitive else None
    room = room_left(view, run, now_ms, exempt=exempt, until_ms=until_ms)
    if room is view:
        return answer
    beside = admit(room, run, now_ms, has_executor=has_executor)
    if isinstance(beside, Admitted) or beside.code in HARD:
        return beside
    return reserved(view, run, beside, exempt)


def reserved(view: StateView, run: Run, short: Refusal, exempt: str = "") -> Refusal:
    """Return ``short``, which is what is missing beside the plan, as room that others will have."""
    subject = ", ".join(_promised(view, run, exempt)[:SHORTAGES_MAX])
    return Refusal(
        code=RefusalCode.RESERVED,
        subject=subject,
        wanted=short.wanted,
        short=short.short,
        shortages=short.shortages,
    )


def _promised(view: StateView, run: Run, exempt: str) -> list[str]:
    """Return the reservations that keep room or money ``run`` could use, in their order."""
    return [
        name
        for name, record in view.reservations.items()
        if name != exempt
        and record.planned_start_ms is not None
        and view.runs[record.made.run].spec.pool == run.pool
        and record.slice.flavor in run.flavors
    ]
