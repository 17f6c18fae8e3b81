"""What stands in front of a promise: backfill that had to be gone, goes on, and delays it.

Asked of admission alone, with everything in question gone at once: whether it is needed, and in
what order it would be stopped, is no matter here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from quorate.core.admit import Admitted
from quorate.core.beside import admit_beside
from quorate.core.holds import expected_ms
from quorate.model.apply import apply
from quorate.model.events import (
    EndReason,
    LeaseEnded,
    ReservationClosed,
    ReservationMoved,
    ReservationOutcome,
    Slice,
)
from quorate.model.island import IslandKey
from quorate.model.records import Lease
from quorate.model.state import State
from quorate.model.view import StateView


def stand_in_front(
    event: ReservationMoved, view: StateView, due_in: Slice | None = None
) -> Iterator[str]:
    """Yield backfilled bundles that a reservation, which moves, waits for in its place.

    Only what keeps it from starting now: not where it will start when what is going has gone, and
    not where it would not start either if they went. Except where it was to start by now in the
    slice ``due_in`` and that is too small with them: then they had to go whatever else is late.
    """
    if event.reservation not in view.reservations:
        return
    found = dict(_late(event, view))
    going = [
        name
        for name, lease in view.leases.items()
        if name not in found and (lease.ending is not None or _ends_ms(lease, view) == view.at_ms)
    ]
    if not found or _starts(event.reservation, view, going, ()):
        return
    is_crowded = due_in is not None and _is_crowded(event.reservation, due_in, view, going)
    if is_crowded or _starts(event.reservation, view, going, found):
        yield from dict.fromkeys(found.values())


def _is_crowded(reservation: str, place: Slice, view: StateView, going: Collection[str]) -> bool:
    """Return whether some domain of ``place`` has not the room, when what is going has gone."""
    pool = view.runs[view.reservations[reservation].made.run].spec.pool
    for domain, gpus in place.domains:
        if domain not in view.domains(pool, place.flavor).numbers:
            continue
        key = IslandKey(pool, place.flavor, domain)
        freed = sum(
            mask.bit_count()
            for name in going
            for node, mask in view.leases[name].fact.slots
            if view.nodes[node].island == key
        )
        if view.island(key).gpus_free + freed < gpus:
            return True
    return False


def _late(event: ReservationMoved, view: StateView) -> Iterator[tuple[str, str]]:
    """Yield the leases of bundles that had to be gone and go on in a reservation's place."""
    domains = {domain for domain, _ in event.slice.domains}
    for name in view.backfilled:
        record = view.runs[name]
        for bundle, vacate_ms, reservation in record.backfills:
            # What is expected to end at this very instant is not in the way yet.
            if reservation != event.reservation or vacate_ms >= event.at_ms:
                continue
            # Without its first bundle all of a run goes.
            leases = {
                key: view.leases[key]
                for key in record.leases
                if bundle in (0, view.leases[key].fact.bundle)
            }
            works = [lease for lease in leases.values() if lease.ending is None]
            nodes = {node for lease in works for node, _ in lease.fact.slots}
            if any(view.nodes[node].spec.domain_key in domains for node in nodes):
                fault = f"{name} stands in front of {reservation} since {vacate_ms}"
                yield from ((key, fault) for key in leases)


def _ends_ms(lease: Lease, view: StateView) -> int:
    """Return when a lease ends if its run takes as long as it said."""
    record = view.runs[lease.fact.run]
    assert record.since_ms is not None, record
    return record.since_ms + expected_ms(record.spec, view.pools[record.spec.pool])


def _starts(
    reservation: str, view: StateView, going: Collection[str], late: Collection[str]
) -> bool:
    """Return whether a reservation would start now if ``going`` and ``late`` had ended.

    What is late gives back no headroom under a hard quota, and what was a spare's is that again.
    """
    record, at_ms, state = view.reservations[reservation], view.at_ms, view.overlay()
    cancelled = ReservationOutcome.CANCELLED
    apply(
        state,
        ReservationClosed(at_ms=at_ms, actor="", reservation=reservation, outcome=cancelled),
    )
    for name in (*going, *late):
        fact = view.leases[name].fact
        ended = EndReason.OVERSTAYED
        apply(
            state,
            LeaseEnded(at_ms=at_ms, actor="", lease=name, reason=ended, end_ms=at_ms),
        )
        if name in late:
            state.hold_slots(fact.run, fact.slots)
    _keep_pledges(state)
    run = view.runs[record.made.run].spec
    answer = admit_beside(
        state, run, at_ms, exempt=reservation, before_seq=record.seq, has_executor=True
    )
    return isinstance(answer, Admitted)


def _keep_pledges(state: State) -> None:
    """Give the slots of filled spares that nobody is on any more back to them."""
    taken: dict[str, int] = {}
    for lease in state.leases.values():
        for node, mask in lease.fact.slots:
            taken[node] = taken.get(node, 0) | mask
    for name, pledge in list(state.pledges.items()):
        if not any(taken.get(node, 0) & mask for node, mask in pledge.slots):
            state.occupy(pledge.slots)
            del state.pledges[name]
