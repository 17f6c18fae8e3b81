"""Reservations: made for the first runs that wait and for which a start can be found.

Each keeps its place: one made later never takes what one made earlier counts on.
"""

from __future__ import annotations

from typing import Final

from quorate.core.follow import waits_for_upstream
from quorate.core.forecast import find_start
from quorate.core.held_back import held_back
from quorate.core.intent import Intent, with_conflict
from quorate.core.scribe import Scribe
from quorate.model.events import ReservationMade
from quorate.model.specs import Run

FRUITLESS_MAX: Final = 8
"""How many runs for which no start is found are looked at in one decision."""


def reserve_waiting(scribe: Scribe) -> None:
    """Make reservations for the first waiting runs for which a start can be found."""
    view, fruitless = scribe.view, 0
    taken: dict[str, int] = {}
    for record in view.reservations.values():
        pool = view.runs[record.made.run].spec.pool
        taken[pool] = taken.get(pool, 0) + 1
    for name, _ in sorted(view.pending.items(), key=lambda entry: entry[1]):
        run = scribe.view.runs[name].spec
        depth = view.pools[run.pool].reservation_depth
        if scribe.view.runs[name].reservation is not None or taken.get(run.pool, 0) >= depth:
            continue
        if waits_for_upstream(view, run) or held_back(view, name, scribe.now_ms):
            continue
        found = find_start(scribe.view, run, scribe.now_ms, has_executor=scribe.has_executor)
        if found is not None:
            _make(scribe, run, with_conflict(scribe, run.name, found))
            taken[run.pool] = taken.get(run.pool, 0) + 1
            continue
        fruitless += 1
        if fruitless == FRUITLESS_MAX:
            return


def _make(scribe: Scribe, run: Run, intent: Intent) -> None:
    number = scribe.view.runs[run.name].reservations_ever + 1
    scribe.write(
        ReservationMade(
            at_ms=scribe.now_ms,
            actor=scribe.actor,
            reservation=f"{run.name}@{number}",
            run=run.name,
            slice=intent.place,
            payers=intent.natural.shares,
            planned_start_ms=intent.start_ms,
            natural_start_ms=intent.natural.start_ms,
            by_conflict=intent.by_conflict,
        )
    )
