"""Backfill: what started in front of a reservation and must be gone when the room is needed.

One grace before the reservation starts, what is still there and in its way is told to stop
(``Overstayed``), newest first, and only as much as stands in its way.
"""

from __future__ import annotations

from collections.abc import Iterator

from quorate.core.holds import grace_ms
from quorate.core.outlook import Outlook
from quorate.core.promises import plan_levels
from quorate.core.scribe import Scribe
from quorate.core.stops import stop_bundle
from quorate.model.events import EndReason
from quorate.model.records import Phase, RunRecord
from quorate.model.view import StateView


def settle_backfills(scribe: Scribe) -> None:
    """Tell the bundles that overstay to stop, for every reservation that starts soon."""
    due: dict[str, list[tuple[RunRecord, int]]] = {}
    for record, bundle, stop_ms, reservation in _noted(
        scribe.view, has_executor=scribe.has_executor
    ):
        if stop_ms <= scribe.now_ms and reservation in scribe.view.reservations:
            due.setdefault(reservation, []).append((record, bundle))
    for reservation, bundles in due.items():
        # Newest first, then by submission: never by name.
        bundles.sort(key=lambda found: (-(found[0].since_ms or 0), -found[0].seq, -found[1]))
        for record, bundle in bundles:
            if _fits(scribe, reservation):
                break
            stop_bundle(scribe, record.spec.name, bundle, EndReason.OVERSTAYED)


def backfill_stops_ms(view: StateView, *, has_executor: bool) -> Iterator[int]:
    """Yield the instants at which bundles have to make room."""
    for _, _, stop_ms, reservation in _noted(view, has_executor=has_executor):
        if reservation in view.reservations:
            yield stop_ms


def _noted(view: StateView, *, has_executor: bool) -> Iterator[tuple[RunRecord, int, int, str]]:
    """Yield (run, bundle, instant to stop at, reservation) of the bundles that must make room."""
    for name in view.backfilled:
        record = view.runs[name]
        if record.phase is not Phase.RUNNING or record.stopping is not None:
            continue
        working = {
            view.leases[lease].fact.bundle
            for lease in record.leases
            if view.leases[lease].ending is None
        }
        pool = view.pools[record.spec.pool]
        lead_ms = grace_ms(record.spec, pool) if has_executor else 0
        for bundle, vacate_ms, reservation in record.backfills:
            if bundle in working:
                yield record, bundle, vacate_ms - lead_ms, reservation


def _fits(scribe: Scribe, reservation: str) -> bool:
    """Return whether a reservation has its room and its payers' width for as long as it takes."""
    view = scribe.view
    record = view.reservations[reservation]
    outlook = Outlook.of(view, scribe.now_ms)
    plan = next((p for p in outlook.plans if p.reservation == reservation), None)
    if plan is None:
        return True
    outlook = Outlook.of(view, scribe.now_ms, exempt=reservation, before_seq=record.seq)
    return all(
        level.least(plan.start_ms, plan.end_ms) >= gpus
        for level, gpus in plan_levels(outlook, plan)
    )
