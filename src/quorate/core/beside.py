"""Starting beside reservations: nothing that starts delays a start that was promised.

Most runs meet no reservation and pay for one look; the rest are tried again in what is left when
every promise is kept.
"""

from __future__ import annotations

from quorate.core.admit import Admitted, admit
from quorate.core.outlook import FOREVER_MS
from quorate.core.promises import backfills, only_slice, room_left
from quorate.core.quota import HARD
from quorate.core.scribe import Scribe
from quorate.core.starts import write_start
from quorate.model.events import BackfillNoted, Slice
from quorate.model.refusal import SHORTAGES_MAX, Refusal, RefusalCode
from quorate.model.specs import Run
from quorate.model.view import StateView


def admit_beside(  # noqa: PLR0913 - whose start, and beside which promises
    view: StateView,
    run: Run,
    now_ms: int,
    *,
    exempt: str = "",
    before_seq: int | None = None,
    place: Slice | None = None,
    has_executor: bool = False,
) -> Admitted | Refusal:
    """Return how ``run`` starts now without delaying a reservation, or why it cannot.

    ``exempt`` is its own reservation; those from ``before_seq`` on were made later and give way.
    With ``place`` it starts just there.
    """
    answer = admit(view, run, now_ms, has_executor=has_executor)
    if isinstance(answer, Refusal) or not view.reservations:
        return answer
    # Nobody can say when a claim's nodes will have been wiped: it takes what nobody will need.
    until_ms = FOREVER_MS if run.sensitive else None
    room = room_left(view, run, now_ms, exempt=exempt, before_seq=before_seq, until_ms=until_ms)
    if place is not None:
        room = only_slice(room, run.pool, place)
    if room is view:
        return answer
    beside = admit(room, run, now_ms, has_executor=has_executor)
    if isinstance(beside, Admitted) or beside.code in HARD:
        return beside
    return Refusal(
        code=RefusalCode.RESERVED,
        subject=", ".join(_promised(view, run, exempt)[:SHORTAGES_MAX]),
        wanted=beside.wanted,
        short=beside.short,
        shortages=beside.shortages,
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


def write_beside(
    scribe: Scribe,
    run: Run,
    admitted: Admitted,
    *,
    leases_ever: int,
    before_seq: int | None = None,
) -> None:
    """Write a start, and which of its bundles must be gone when a reservation needs the room."""
    view = scribe.view
    notes: tuple[BackfillNoted, ...] = ()
    if view.reservations:
        found = backfills(view, run, admitted, scribe.now_ms, scribe.actor, before_seq=before_seq)
        notes = tuple(found)
    write_start(scribe, run, admitted, leases_ever=leases_ever)
    for note in notes:
        scribe.write(note)
