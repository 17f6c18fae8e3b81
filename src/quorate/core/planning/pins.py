"""Pins: the recorded places of firm reservations, as entries of the plan."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from quorate.core.admit import cover_request
from quorate.core.cover import payer_phases
from quorate.core.holds import expected_ms
from quorate.core.planning.entry import Entry
from quorate.core.planning.profile import Profile
from quorate.model.amounts import MINUTE_MS
from quorate.model.events import Share, Slice
from quorate.model.island import IslandKey
from quorate.model.records import ReservationRecord
from quorate.model.selector import RACK, names_label
from quorate.model.specs import EnvelopeId, Run
from quorate.model.view import StateView


def in_order(view: StateView) -> list[tuple[str, ReservationRecord]]:
    """Return the reservations in the order in which they became firm."""
    if not view.reservations:
        return []
    return sorted(view.reservations.items(), key=lambda entry: entry[1].seq)


def replan_due_ms(view: StateView, after_ms: int) -> int | None:
    """Return when the queue is to be planned again though nothing happens; None while none waits.

    Time alone brings forecasts into the horizon within which they become firm: every quarter of it.
    """
    if len(view.pending) == len(view.reservations):
        return None
    horizons = [
        view.pools[pool].firm_horizon_ms
        for pool in _pools_waited_in(view)
        if view.pools[pool].reservation_depth
    ]
    if not horizons:
        return None
    every_ms = max(MINUTE_MS, min(horizons) // 4)
    return (after_ms // every_ms + 1) * every_ms


def _pools_waited_in(view: StateView) -> Iterable[str]:
    """Return the pools in whose queues runs wait; quickly where there is one pool."""
    if len(view.pools) == 1 and view.queued_counts:
        return view.pools
    return {pool for pool, _ in view.queued_counts}


def pin_of(view: StateView, record: ReservationRecord, now_ms: int) -> Entry | None:
    """Return the place of a reservation as an entry; None while it has no start.

    One that is due and has not started takes its place from now on.
    """
    if record.planned_start_ms is None:
        return None
    run = view.runs[record.made.run].spec
    start_ms = max(record.planned_start_ms, now_ms)
    place = place_of(view, run, start_ms, record.slice, record.payers, is_firm=True)
    if record.by_conflict:
        return replace(place, by_conflict=True)
    return replace(place, is_choosy=_is_choosy(view, run, place))


def _is_choosy(view: StateView, run: Run, place: Entry) -> bool:
    """Return whether counting GPUs is not enough for a place: racks, or whole nodes of sizes."""
    lines = (view.envelopes[share.payer].spec.selector for share in place.shares)
    if any(names_label(line, RACK) for line in (run.selector, *lines)):
        return True
    if not view.pools[run.pool].whole_nodes:
        return False
    sizes = set[int]()
    for domain, _ in place.slice.domains:
        key = IslandKey(run.pool, place.slice.flavor, domain)
        if domain in view.domains(key.pool, key.flavor).numbers:
            sizes.update(view.island(key).sizes)
    return len(sizes) > 1


def place_of(  # noqa: PLR0913 - the parts of an entry
    view: StateView,
    run: Run,
    start_ms: int,
    where: Slice,
    shares: tuple[Share, ...],
    *,
    is_firm: bool = False,
) -> Entry:
    """Return ``run`` in ``where``, paid by ``shares``, from ``start_ms`` on as an entry."""
    pool, left = view.pools[run.pool], 0
    if not pool.whole_nodes:
        bounds = view.holdings.bounds_of(run.owner)
        left = min((view.holdings.room.get(name, 0) for name in bounds), default=0)
    nodes = 0
    for domain, gpus in where.domains:
        key = IslandKey(run.pool, where.flavor, domain)
        if domain not in view.domains(key.pool, key.flavor).numbers:
            continue
        own = min(gpus, left)
        left -= own
        nodes += -(-(gpus - own) // max(view.island(key).sizes))
    end_ms = start_ms + expected_ms(run, pool)
    return Entry(
        run.name, run.owner, run.pool, start_ms, end_ms, where, shares, nodes, is_firm=is_firm
    )


def firm_profile(view: StateView, now_ms: int, *, exempt: str = "") -> Profile:
    """Return the profile with the place of every firm reservation but ``exempt`` put in."""
    profile = Profile(view, now_ms)
    # What starts by a conflict takes what the others leave.
    for name, record in sorted(view.reservations.items(), key=lambda entry: entry[1].by_conflict):
        pin = None if name == exempt else pin_of(view, record, now_ms)
        if pin is not None:
            profile.put(pin)
    return profile


def stands(profile: Profile, pin: Entry) -> bool:
    """Return whether a place that is not put in has all it needs for as long as it takes."""
    return not unpaid(profile.view, pin) and all(
        resource.least(pin.start_ms, pin.end_ms) >= amount
        for resource, amount in profile.needs(pin)
    )


def unpaid(view: StateView, pin: Entry) -> list[EnvelopeId]:
    """Return the payers of ``pin`` that do not pay for it any more, whatever they have left.

    They left its owner's family, lend to it no more, were retired, or are closed at its start.
    """
    run = view.runs[pin.run].spec
    payers = {
        key
        for key, _ in payer_phases(view, cover_request(view, run, pin.slice.flavor, pin.start_ms))[
            -1
        ]
    }
    found = []
    for share in pin.shares:
        account = view.envelopes[share.payer]
        spec = account.spec
        opens_ms = 0 if spec.allow_admission else spec.start_ms
        if (
            account.retired
            or share.payer not in payers
            or not opens_ms <= pin.start_ms < spec.end_ms
        ):
            found.append(share.payer)
    return found
