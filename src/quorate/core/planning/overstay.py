"""Overstaying: what started out of order and outlived its word in front of a firm start.

A bundle may be stopped for a firm start if it is marked ``backfill``, started after that run began
to wait, and is past its own declared end at the start less its grace. It is told one grace before
the start, newest first, and only as much as is short. Sequences decide, not pairings: cancelling,
moving or hastening a reservation changes nothing for the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quorate.core.expected import declared_end_ms
from quorate.core.planning.entry import Entry
from quorate.core.planning.pins import firm_profile, in_order, pin_of
from quorate.core.planning.profile import Profile
from quorate.core.planning.resource import Resource
from quorate.core.scribe import Scribe
from quorate.core.stops import stop_bundle
from quorate.model.events import EndReason, Tier
from quorate.model.records import Phase, ReservationRecord
from quorate.model.specs import CapId
from quorate.model.view import StateView


@dataclass(frozen=True, slots=True)
class Overstayer:
    """A bundle that is past its word: its leases, how long it gets to stop, and its place in time.

    ``started_seq`` is the event by which it started.
    """

    run: str
    bundle: int
    leases: tuple[str, ...]
    grace_ms: int
    declared_end_ms: int
    started_seq: int
    since_ms: int
    run_seq: int


def overstayers(view: StateView, now_ms: int) -> list[Overstayer]:
    """Return the marked bundles that are past their declared ends, the newest first."""
    found = []
    for name in view.backfilled:
        record = view.runs[name]
        if record.phase is not Phase.RUNNING or record.stopping is not None:
            continue
        end_ms = declared_end_ms(view, record)
        if end_ms > now_ms:
            continue
        for bundle, seq in record.backfills:
            # Without its first bundle all of a run goes.
            leases = tuple(
                lease
                for lease in record.leases
                if bundle in (0, view.leases[lease].fact.bundle)
                and view.leases[lease].ending is None
            )
            if leases:
                since_ms = record.since_ms or 0
                grace_ms = view.leases[leases[0]].grace_ms
                found.append(
                    Overstayer(name, bundle, leases, grace_ms, end_ms, seq, since_ms, record.seq)
                )
    found.sort(key=lambda each: (-each.since_ms, -each.run_seq, -each.bundle))
    return found


def stop_overstayed(scribe: Scribe) -> bool:
    """Tell the bundles to stop that overstay in front of a firm start; return whether any was."""
    view, now_ms = scribe.view, scribe.now_ms
    if not view.backfilled or not view.reservations:
        return False
    late = overstayers(view, now_ms)
    if not late:
        return False
    lead_ms = max(each.grace_ms for each in late) if scribe.has_executor else 0
    due = [
        record
        for _, record in in_order(view)
        if record.planned_start_ms is not None
        and not record.by_conflict
        and record.planned_start_ms - lead_ms <= now_ms
    ]
    if not due:
        return False
    profile, stopped = firm_profile(view, now_ms), dict[tuple[str, int], None]()
    for record in sorted(due, key=lambda each: (each.planned_start_ms, each.seq)):
        pin = pin_of(view, record, now_ms)
        assert pin is not None, record
        for each in relief(profile, record, pin, late) or ():
            told_ms = pin.start_ms - (each.grace_ms if scribe.has_executor else 0)
            if told_ms <= now_ms and (each.run, each.bundle) not in stopped:
                stopped[each.run, each.bundle] = None
                _give_back(profile, each, now_ms + (each.grace_ms if scribe.has_executor else 0))
    for run, bundle in stopped:
        if scribe.view.runs[run].phase is Phase.RUNNING:
            stop_bundle(scribe, run, bundle, EndReason.OVERSTAYED)
    return bool(stopped)


def relief(
    profile: Profile, record: ReservationRecord, pin: Entry, late: Sequence[Overstayer]
) -> list[Overstayer] | None:
    """Return the bundles of ``late`` without which ``pin`` stands, newest first.

    ``profile`` has every pin put in, this one too. Nothing where it stands as it is; None where
    stopping all that may be stopped for it is not enough.
    """
    short = _short(profile, pin)
    if not short:
        return []
    waiting_seq = profile.view.runs[record.made.run].waiting_seq
    needed: list[Overstayer] = []
    for each in late:
        if each.started_seq < waiting_seq or each.declared_end_ms > pin.start_ms - each.grace_ms:
            continue
        freed = [(at, gpus) for at, gpus in _held(profile, pin, each, short) if gpus]
        if not freed:
            continue
        needed.append(each)
        for at, gpus in freed:
            short[at] = (*short[at][:2], short[at][2] - gpus)
        short = [what for what in short if what[2] > 0]
        if not short:
            return needed
    return None


_Shortage = tuple[str, str, int]
"""(kind, name, how much is missing)."""


def _short(profile: Profile, pin: Entry) -> list[_Shortage]:
    return [
        (kind, name, -least)
        for kind, name, resource, _ in profile.named_needs(pin)
        if (least := resource.least(pin.start_ms, pin.end_ms)) < 0
    ]


def _held(
    profile: Profile, pin: Entry, each: Overstayer, short: Sequence[_Shortage]
) -> Iterator[tuple[int, int]]:
    """Yield (number of the shortage, how much of it the bundle holds)."""
    for at, (kind, name, _) in enumerate(short):
        yield at, sum(_holds(profile.view, pin, lease, kind, name) for lease in each.leases)


def _holds(view: StateView, pin: Entry, lease: str, kind: str, name: str) -> int:
    """Return how much of a shortage one lease holds. Nothing is stopped for the sake of a quota."""
    known = view.leases[lease]
    fact = known.fact
    match kind:
        case "domain":
            return sum(
                mask.bit_count()
                for node, mask in fact.slots
                if (place := view.nodes[node].island).domain == name
                and (place.pool, place.flavor) == (pin.pool, pin.slice.flavor)
                and node not in view.node_status
            )
        case "envelope":
            return known.gpus if fact.payer == name else 0
        case "lending":
            return known.gpus if fact.payer == name and fact.tier is Tier.BORROWED else 0
        case "cap":
            return known.gpus if CapId(name) in view.envelopes[fact.payer].caps else 0
        case _:
            return 0


def _give_back(profile: Profile, each: Overstayer, gone_ms: int) -> None:
    """Count what a bundle holds as free from ``gone_ms`` on, instead of from its expected end."""
    view = profile.view
    for name in each.leases:
        lease = view.leases[name]
        end_ms = profile.lease_end_ms(name)

        def give(resource: Resource, gpus: int, end_ms: int = end_ms) -> None:
            resource.take(gone_ms, end_ms, -gpus)

        for node, mask in lease.fact.slots:
            if node not in view.node_status:
                give(profile.room(view.nodes[node].island), mask.bit_count())
        payer = lease.fact.payer
        give(profile.payer(payer), lease.gpus)
        if lease.fact.tier is Tier.BORROWED:
            give(profile.lent(payer), lease.gpus)
        for cap in view.envelopes[payer].caps:
            give(profile.cap(cap), lease.gpus)


def stop_instants_ms(view: StateView, *, has_executor: bool) -> Iterator[int]:
    """Yield the instants at which bundles may have to be told to stop for a firm start.

    One grace before each firm start, for every grace there is among marked bundles.
    """
    if not view.backfilled or not view.reservations:
        return
    graces = {0}
    if has_executor:
        graces = {
            view.leases[lease].grace_ms
            for name in view.backfilled
            for lease in view.runs[name].leases
        }
    for record in view.reservations.values():
        if record.planned_start_ms is not None and not record.by_conflict:
            for grace_ms in graces:
                yield record.planned_start_ms - grace_ms
