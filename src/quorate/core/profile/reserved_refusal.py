"""Admits a run without delaying firm starts; makes the refusal of a run whose room is reserved."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.core.admission.admit import Admitted, admit
from quorate.core.admission.hard_quota import HARD
from quorate.core.profile.resource import FOREVER_MS
from quorate.core.profile.room_left import room_left
from quorate.model.refusal import SHORTAGES_MAX, Refusal, RefusalCode
from quorate.model.specs import Run
from quorate.model.state.state_view import StateView


def admit_beside(
    view: StateView, run: Run, now_ms: int, *, exempt: str = "", has_executor: bool = False
) -> Admitted | Refusal:
    """Return how ``run`` starts now without delaying any firm start, or its refusal.

    ``exempt`` is the run's own reservation.
    """
    answer = admit(view, run, now_ms, has_executor=has_executor)
    if isinstance(answer, Refusal) or not view.reservations:
        return answer
    # The end of a wipe is not known, so a claim may only take GPUs that no firm start ever needs.
    until_ms = FOREVER_MS if run.sensitive else None
    room = room_left(view, run, now_ms, exempt=exempt, until_ms=until_ms)
    if room is view:
        return answer
    beside = admit(room, run, now_ms, has_executor=has_executor)
    if isinstance(beside, Admitted) or beside.code in HARD:
        return beside
    return reserved(run, beside, _promised(view, run, exempt))


def reserved(run: Run, short: Refusal, planned: Sequence[str]) -> Refusal:
    """Return the refusal of ``run`` because planned starts reserve its room.

    ``short`` is the run's refusal in the room that the plan leaves. ``planned`` has the names of
    the reservations, and of the runs with tentative starts, that reserve the room.
    """
    return Refusal(
        code=RefusalCode.RESERVED,
        subject=", ".join(planned[:SHORTAGES_MAX]),
        wanted=short.wanted or run.widths()[-1],
        short=short.short,
        shortages=short.shortages,
    )


def _promised(view: StateView, run: Run, exempt: str) -> list[str]:
    """Return the reservations that keep room or money that ``run`` could use, in their order."""
    return [
        name
        for name, record in view.reservations.items()
        if name != exempt
        and record.planned_start_ms is not None
        and view.runs[record.made.run].spec.pool == run.pool
        and record.slice.flavor in run.flavors
    ]
