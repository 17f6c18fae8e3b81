"""Finds backfilled bundles that run past their declared ends, and what they hold."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from quorate.core.profile.lease_ends import declared_end_ms, run_end_ms
from quorate.core.profile.plan_entry import Entry
from quorate.core.profile.profile import Profile
from quorate.model.events import Tier
from quorate.model.specs import CapId
from quorate.model.state.free_slots import IslandKey
from quorate.model.state.records import Phase, PledgeRecord
from quorate.model.state.state_view import StateView


@dataclass(frozen=True, slots=True)
class Overstayer:
    """A backfilled bundle that runs past its declared end.

    Stopping bundle 0 ends all leases of the run; those of other marked bundles are not in its
    ``leases``, because these bundles are newer, and stopped before it.

    ``started_seq`` is the sequence of the event that started the bundle. ``since_ms`` is the start
    of its run, and ``run_seq`` the sequence of the run's submission.
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
    """Return the bundles marked ``backfill`` that run past their declared ends, newest first."""
    found = []
    for name in view.backfilled:
        record = view.runs[name]
        # Outside rounds, a run is expected to take at least its declared duration.
        least_ms = 0 if record.spec.rounds else record.spec.expected_duration_ms or 0
        if record.since_ms is None or record.since_ms + least_ms > now_ms:
            continue
        if record.phase is not Phase.RUNNING or record.stopping is not None:
            continue
        end_ms = declared_end_ms(view, record)
        if end_ms > now_ms:
            continue
        marked = {bundle for bundle, _ in record.backfills}
        for bundle, seq in record.backfills:
            leases = tuple(
                lease
                for lease in record.leases
                if bundle == _part_of(view, lease, marked) and view.leases[lease].ending is None
            )
            if leases:
                since_ms = record.since_ms or 0
                grace_ms = view.leases[leases[0]].grace_ms
                found.append(
                    Overstayer(name, bundle, leases, grace_ms, end_ms, seq, since_ms, record.seq)
                )
    found.sort(key=lambda each: (-each.since_ms, -each.run_seq, -each.bundle))
    return found


def _part_of(view: StateView, lease: str, marked: Collection[int]) -> int:
    """Return the marked bundle to which a lease belongs; 0 if its own bundle has no mark."""
    bundle = view.leases[lease].fact.bundle
    return bundle if bundle in marked else 0


def shares_with(view: StateView, pin: Entry, each: Overstayer) -> bool:
    """Return whether a bundle and ``pin`` have a domain, a payer or a cap in common."""
    domains = {domain for domain, _ in pin.slice.domains}
    payers = {share.payer for share in pin.shares}
    caps = {cap for payer in payers for cap in view.envelopes[payer].caps}
    for name in each.leases:
        fact = view.leases[name].fact
        if fact.payer in payers or not caps.isdisjoint(view.envelopes[fact.payer].caps):
            return True
        if any(view.nodes[node].island.domain in domains for node, _ in fact.slots):
            return True
    return False


def room_of(profile: Profile, pin: Entry, each: Overstayer) -> dict[IslandKey, int]:
    """Return how many GPUs the end of a bundle would free for ``pin``, by island.

    If the pool gives whole nodes, a node counts with all its GPUs. Slots of a filled spare do not
    count if the spare's run is expected to run at the start of ``pin``, because these slots go back
    to the spare.
    """
    view, masks = profile.view, dict[str, int]()
    for name in each.leases:
        for node, mask in view.leases[name].fact.slots:
            if node not in view.node_status:
                masks[node] = masks.get(node, 0) | mask
    for pledge in view.pledges.values():
        if pledge.filler == each.run and _outlasts(profile, pledge, pin.start_ms):
            for node, mask in pledge.slots:
                masks[node] = masks.get(node, 0) & ~mask
    found: dict[IslandKey, int] = {}
    for node, mask in masks.items():
        known = view.nodes[node]
        whole = mask and view.pools[known.island.pool].whole_nodes
        gpus = known.spec.gpus if whole else mask.bit_count()
        found[known.island] = found.get(known.island, 0) + gpus
    return found


def _outlasts(profile: Profile, pledge: PledgeRecord, at_ms: int) -> bool:
    """Return whether the run of a filled spare is expected to run at ``at_ms``."""
    record = profile.view.runs[pledge.run]
    return (
        record.phase is Phase.RUNNING and run_end_ms(profile.view, record, profile.now_ms) > at_ms
    )


def width_of(view: StateView, lease: str, kind: str, name: str) -> int:
    """Return how much concurrency of a payer or cap a lease takes, in GPUs.

    Return 0 for a hard quota, because no bundle is stopped to free a quota.
    """
    known = view.leases[lease]
    fact = known.fact
    match kind:
        case "envelope":
            return known.gpus if fact.payer == name else 0
        case "lending":
            return known.gpus if fact.payer == name and fact.tier is Tier.BORROWED else 0
        case "cap":
            return known.gpus if CapId(name) in view.envelopes[fact.payer].caps else 0
        case _:
            return 0


def bundle_end_ms(profile: Profile, each: Overstayer) -> int:
    """Return when a bundle is expected to end; the bundle must not be stopping."""
    return profile.returns.lease_end_ms(each.leases[0])


def take_held(  # noqa: PLR0913, PLR0917 - what, for which start, when, and whether it is given back
    profile: Profile, pin: Entry, each: Overstayer, from_ms: int, until_ms: int, sign: int
) -> None:
    """Count what a bundle holds as taken (``sign`` is 1) or as free (-1), for a time span."""
    view = profile.view
    for key, gpus in room_of(profile, pin, each).items():
        profile.room(key).take(from_ms, until_ms, sign * gpus)
    for name in each.leases:
        lease = view.leases[name]
        payer, gpus = lease.fact.payer, sign * lease.gpus
        profile.payer(payer).take(from_ms, until_ms, gpus)
        if lease.fact.tier is Tier.BORROWED:
            profile.lent(payer).take(from_ms, until_ms, gpus)
        for cap in view.envelopes[payer].caps:
            profile.cap(cap).take(from_ms, until_ms, gpus)
