"""Reservations: made for the first runs that wait and for which a start can be found.

Each keeps its place: one made later never takes what one made earlier counts on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from quorate.core.follow import waits_for_upstream
from quorate.core.forecast import find_start
from quorate.core.held_back import held_back
from quorate.core.intent import Intent, with_conflict
from quorate.core.layout import pack_request
from quorate.core.queue import in_turn
from quorate.core.scribe import Scribe
from quorate.core.slices import least_deficit
from quorate.core.yard import Yards
from quorate.model.events import ReservationMade
from quorate.model.specs import Run
from quorate.model.view import StateView

FRUITLESS_MAX: Final = 8
"""For how many runs of one owner no start may be found before its others are left for later."""


def reserve_waiting(scribe: Scribe) -> None:
    """Make reservations for the first waiting runs for which a start can be found.

    As many as the pool's depth; beyond that, one for each owner that has none, so that nobody can
    keep others out. Those without a start do not count, and cannot keep an owner's others waiting
    behind them for longer than it takes to look at a few.
    """
    fruitless: dict[str, int] = {}
    places = Places.of(scribe.view)
    if not places.are_left(scribe.view):
        return
    for name in in_turn(scribe, scribe.view.queued, reserved=True):
        record = scribe.view.runs[name]
        run = record.spec
        if run.sensitive:
            continue  # A claim is granted now or not at all.
        if record.reservation is not None or not places.has_one(scribe.view, run.pool, run.owner):
            continue
        if fruitless.get(run.owner, 0) >= FRUITLESS_MAX:
            continue
        if waits_for_upstream(scribe.view, run) or held_back(scribe.view, name, scribe.now_ms):
            continue
        if is_too_big(scribe.view, run):
            continue
        found = find_start(scribe.view, run, scribe.now_ms, has_executor=scribe.has_executor)
        if found is None:
            fruitless[run.owner] = fruitless.get(run.owner, 0) + 1
        else:
            _make(scribe, run, with_conflict(scribe, run.name, found))
            places.take(run)
            if not places.are_left(scribe.view):
                return


def is_too_big(view: StateView, run: Run) -> bool:
    """Return whether the empty fleet could not hold ``run`` at its least width."""
    pool, least = view.pools[run.pool], run.widths()[-1]
    requests = (pack_request(run, pool, flavor, least) for flavor in run.flavors)
    return all(
        least_deficit(request, list(Yards(view, request).most_free())) is None
        for request in requests
    )


@dataclass(slots=True)
class Places:
    """How many reservations with a start there are, by pool, and by owner in it."""

    of_pool: dict[str, int] = field(default_factory=dict)
    of_owner: dict[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    def of(cls, view: StateView) -> Places:
        """Return the places that are taken."""
        places = cls()
        for record in view.reservations.values():
            if record.planned_start_ms is not None:
                places.take(view.runs[record.made.run].spec)
        return places

    def take(self, run: Run) -> None:
        """Count one more for ``run``."""
        key = (run.pool, run.owner)
        self.of_pool[run.pool] = self.of_pool.get(run.pool, 0) + 1
        self.of_owner[key] = self.of_owner.get(key, 0) + 1

    def has_one(self, view: StateView, pool: str, owner: str) -> bool:
        """Return whether a run of ``owner`` in ``pool`` may be promised a start."""
        depth = view.pools[pool].reservation_depth
        if self.of_pool.get(pool, 0) < depth:
            return True
        return depth > 0 and not self.of_owner.get((pool, owner))

    def are_left(self, view: StateView) -> bool:
        """Return whether any run that waits may be promised a start; looks at none of them."""
        return any(self.has_one(view, pool, owner) for pool, owner in view.queued_counts)


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
