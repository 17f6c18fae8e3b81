"""Backfill: what started in front of a reservation and must be gone when the room is needed.

One grace before the reservation starts, what is still there and in its way is told to stop
(``Overstayed``), newest first, and only as much as stands in its way. That is counted. When the
reservation is late all the same, what should have gone for it is taken away for a trial: counting
knows neither racks nor who pays where.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quorate.core.activate import is_due, without_hold
from quorate.core.admit import Admitted
from quorate.core.beside import admit_beside
from quorate.core.expected import said_end_ms
from quorate.core.holds import grace_ms
from quorate.core.outlook import Outlook
from quorate.core.promises import plan_levels
from quorate.core.scribe import Scribe
from quorate.core.spares import holder
from quorate.core.stops import stop_bundle
from quorate.model.apply import apply
from quorate.model.events import EndReason, LeaseEnded, ReservationStatus
from quorate.model.records import Phase, RunRecord
from quorate.model.state import State
from quorate.model.view import StateView

_Noted = tuple[RunRecord, int, int]
"""(run, bundle, instant by which it has to be gone)."""


def settle_backfills(scribe: Scribe) -> None:
    """Tell the bundles that overstay to stop, for every reservation that starts soon."""
    for reservation, bundles in _due(scribe).items():
        while bundles and not _fits(scribe, reservation):
            _stop(scribe, bundles.pop(0))


def stop_delaying(scribe: Scribe) -> None:
    """Tell the bundles to stop without which a reservation that is late would start now.

    What was to start by now and could has started before.
    """
    for reservation, bundles in _due(scribe).items():
        record = scribe.view.reservations[reservation]
        if record.status is ReservationStatus.DEFERRED or is_due(record, scribe.now_ms):
            late = [noted for noted in bundles if noted[2] <= scribe.now_ms]
            for noted in _delaying(scribe, reservation, late):
                _stop(scribe, noted)


def _due(scribe: Scribe) -> dict[str, list[_Noted]]:
    """Return the bundles that must make room by now, by reservation, the newest first."""
    found: dict[str, list[_Noted]] = {}
    for record, bundle, vacate_ms, lead_ms, reservation in _noted(
        scribe.view, has_executor=scribe.has_executor
    ):
        if vacate_ms - lead_ms <= scribe.now_ms and reservation in scribe.view.reservations:
            found.setdefault(reservation, []).append((record, bundle, vacate_ms))
    for bundles in found.values():
        # Newest first, then by submission: never by name.
        bundles.sort(key=lambda noted: (-(noted[0].since_ms or 0), -noted[0].seq, -noted[1]))
    return found


def _stop(scribe: Scribe, noted: _Noted) -> None:
    record, bundle, _ = noted
    stop_bundle(scribe, record.spec.name, bundle, EndReason.OVERSTAYED)


def backfill_stops_ms(view: StateView, *, has_executor: bool) -> Iterator[int]:
    """Yield the instants at which bundles have to make room."""
    for _, _, vacate_ms, lead_ms, reservation in _noted(view, has_executor=has_executor):
        if reservation in view.reservations:
            yield vacate_ms - lead_ms


def _noted(
    view: StateView, *, has_executor: bool
) -> Iterator[tuple[RunRecord, int, int, int, str]]:
    """Yield (run, bundle, instant to be gone by, lead, reservation) of what must make room."""
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
                yield record, bundle, vacate_ms, lead_ms, reservation


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


def _delaying(scribe: Scribe, reservation: str, late: Sequence[_Noted]) -> list[_Noted]:
    """Return those of ``late`` without which a late reservation would start now, newest first.

    None of them where it would start without that, or not even then: something else delays it.
    """
    if not late:
        return []
    going = _going(scribe.view, scribe.now_ms)
    if _starts_without(scribe, reservation, going, ()):
        return []
    needed = list(late)
    if not _starts_without(scribe, reservation, going, needed):
        return []
    for noted in reversed(late):
        rest = [other for other in needed if other is not noted]
        if _starts_without(scribe, reservation, going, rest):
            needed = rest
    return needed


def _going(view: StateView, now_ms: int) -> list[str]:
    """Return the leases that were told to stop, or are expected to end at this very instant."""
    return [
        name
        for name, lease in view.leases.items()
        if lease.ending is not None or said_end_ms(view, lease) == now_ms
    ]


def _starts_without(
    scribe: Scribe, reservation: str, going: Sequence[str], bundles: Sequence[_Noted]
) -> bool:
    """Return whether a late reservation would start now if ``going`` and ``bundles`` were gone."""
    record = scribe.view.reservations[reservation]
    state = without_hold(scribe, reservation)
    for name in going:
        _end(state, name, scribe.now_ms)
    for run, bundle, _ in bundles:
        for name in tuple(state.runs[run.spec.name].leases):
            fact = state.leases[name].fact
            # Without its first bundle all of a run goes.
            if bundle in (0, fact.bundle):
                _end(state, name, scribe.now_ms)
                # Nobody is stopped for the sake of a hard quota: what it counts stays counted.
                state.hold_slots(fact.run, fact.slots)
    for name, pledge in list(state.pledges.items()):
        if holder(state, pledge) is None:
            # Its filler has gone, so the spare has the slots again.
            state.occupy(pledge.slots)
            del state.pledges[name]
    answer = admit_beside(
        state,
        state.runs[record.made.run].spec,
        scribe.now_ms,
        exempt=reservation,
        before_seq=record.seq,
        has_executor=scribe.has_executor,
    )
    return isinstance(answer, Admitted)


def _end(state: State, lease: str, now_ms: int) -> None:
    reason = EndReason.OVERSTAYED
    apply(state, LeaseEnded(at_ms=now_ms, actor="", lease=lease, reason=reason, end_ms=now_ms))
