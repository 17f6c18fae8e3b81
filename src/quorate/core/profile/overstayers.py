"""Finds backfilled bundles that run past their declared ends, and the resources that they hold."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

from quorate.core.profile.lease_ends import declared_end_ms
from quorate.core.profile.plan_entry import Entry
from quorate.core.profile.profile import Profile
from quorate.model.events import Slots, Tier
from quorate.model.specs import CapId, EnvelopeId
from quorate.model.state.free_slots import IslandKey
from quorate.model.state.records import BackfillMark, Phase, PledgeRecord
from quorate.model.state.state_view import StateView


@dataclass(frozen=True, slots=True)
class Overstayer:
    """A backfilled bundle that runs past its declared end.

    Stopping bundle 0 ends all leases of the run. But ``leases`` of bundle 0 does not include leases
    of other marked bundles: these bundles are newer, and are stopped before bundle 0.

    ``spares`` are the bundle's filled spares: when the bundle stops, they no longer get their slots
    back. ``mark`` has the event that started the bundle. ``since_ms`` is the start of its run, and
    ``run_seq`` the sequence number of the run's submission.
    """

    run: str
    bundle: int
    leases: tuple[str, ...]
    grace_ms: int
    declared_end_ms: int
    mark: BackfillMark
    since_ms: int
    run_seq: int
    spares: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FilledSpare:
    """A filled spare of an overstaying bundle, and the overstaying bundles that fill it.

    The slots of the spare are free for a firm start only if ``owner`` and all of ``fillers`` have
    stopped. If ``fillers`` is empty, the filler cannot be stopped, and is expected to end at
    ``back_ms``. Until ``over_ms`` the profile expects that the slots are taken, by the filler or by
    the spare.
    """

    slots: Slots
    owner: Overstayer
    fillers: tuple[Overstayer, ...]
    back_ms: int
    over_ms: int


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
        marked = {mark.bundle for mark in record.backfills}
        for mark in record.backfills:
            bundle = mark.bundle
            leases = tuple(
                lease
                for lease in record.leases
                if bundle == _part_of(view, lease, marked) and view.leases[lease].ending is None
            )
            if leases:
                since_ms = record.since_ms or 0
                grace_ms = view.leases[leases[0]].grace_ms
                spares = tuple(
                    spare
                    for spare, pledge in view.pledges.items()
                    if pledge.run == name
                    and bundle == (pledge.bundle if pledge.bundle in marked else 0)
                )
                found.append(
                    Overstayer(
                        name, bundle, leases, grace_ms, end_ms, mark, since_ms, record.seq, spares
                    )
                )
    found.sort(key=lambda each: (-each.since_ms, -each.run_seq, -each.bundle))
    return found


def _part_of(view: StateView, lease: str, marked: Collection[int]) -> int:
    """Return the marked bundle to which a lease belongs; 0 if its own bundle has no mark."""
    bundle = view.leases[lease].fact.bundle
    return bundle if bundle in marked else 0


def shares_with(view: StateView, pin: Entry, each: Overstayer) -> bool:
    """Return whether a bundle and the firm start ``pin`` share a domain, a payer or a cap."""
    domains = {domain for domain, _ in pin.slice.domains}
    payers = {share.payer for share in pin.shares}
    caps = {cap for payer in payers for cap in view.envelopes[payer].caps}
    for name in each.leases:
        fact = view.leases[name].fact
        if fact.payer in payers or not caps.isdisjoint(view.envelopes[fact.payer].caps):
            return True
        if any(view.nodes[node].island.domain in domains for node, _ in fact.slots):
            return True
    return any(
        spare.payer in payers
        or not caps.isdisjoint(view.envelopes[spare.payer].caps)
        or any(view.nodes[node].island.domain in domains for node, _ in spare.slots)
        for spare in (view.pledges[spare_name] for spare_name in each.spares)
    )


def filled_spares(profile: Profile, pin: Entry, late: Collection[Overstayer]) -> list[FilledSpare]:
    """Return the filled spares of the bundles in ``late`` that last past the firm start ``pin``."""
    view, found = profile.view, list[FilledSpare]()
    for each in late:
        for spare in (view.pledges[name] for name in each.spares):
            if not _outlasts(profile, spare, pin.start_ms):
                continue
            places = dict(spare.slots)
            fillers = tuple(
                other
                for other in late
                if other.run == spare.filler
                and any(
                    places.get(node, 0) & mask
                    for lease in other.leases
                    for node, mask in view.leases[lease].fact.slots
                )
            )
            back_ms, over_ms = profile.returns.pledge_span(spare)
            found.append(FilledSpare(spare.slots, each, fillers, back_ms, over_ms))
    return found


def slots_of(profile: Profile, spare: FilledSpare) -> dict[IslandKey, int]:
    """Return how many GPUs of a filled spare are on nodes that take work, by island."""
    view, found = profile.view, dict[IslandKey, int]()
    for node, mask in spare.slots:
        if node not in view.node_status and node not in view.unwiped:
            key = view.nodes[node].island
            found[key] = found.get(key, 0) + mask.bit_count()
    return found


def take_slots(
    profile: Profile, spare: FilledSpare, from_ms: int, until_ms: int, sign: int
) -> None:
    """Count the slots of a filled spare as taken (``sign`` is 1) or as free (-1)."""
    for key, gpus in slots_of(profile, spare).items():
        profile.room(key).take(from_ms, until_ms, sign * gpus)
    on_nodes = {node: sign * mask.bit_count() for node, mask in spare.slots}
    profile.take_on(on_nodes, from_ms, until_ms)


def room_of(profile: Profile, pin: Entry, each: Overstayer, at_ms: int) -> dict[IslandKey, int]:
    """Return how many GPUs the end of a bundle would free for a firm start, by island.

    ``pin`` is the firm start. The result is for the instant ``at_ms``.
    """
    found: dict[IslandKey, int] = {}
    for node, gpus in nodes_of(profile, pin, each, at_ms).items():
        key = profile.view.nodes[node].island
        found[key] = found.get(key, 0) + gpus
    return found


def nodes_of(profile: Profile, pin: Entry, each: Overstayer, at_ms: int) -> dict[str, int]:
    """Return how many GPUs the end of a bundle would free for a firm start, by node.

    ``pin`` is the firm start. The result is for the instant ``at_ms``, which is not before the
    planned start. If the pool gives whole nodes, all GPUs of a node are counted.

    If the bundle fills a spare, and the run of this spare is expected to run at ``at_ms``, the
    slots go back to the spare, and are not counted. If the run of the spare overstays, its
    expected end is only a guess. Then the slots are not counted if this end is later than the start
    of ``pin`` (``filled_spares``).
    """
    view, masks = profile.view, dict[str, int]()
    for name in each.leases:
        for node, mask in view.leases[name].fact.slots:
            if node not in view.node_status:
                masks[node] = masks.get(node, 0) | mask
    for pledge in _filled_by(view, each):
        if _outlasts(profile, pledge, pin.start_ms if _is_late(profile, pledge) else at_ms):
            for node, mask in pledge.slots:
                masks[node] = masks.get(node, 0) & ~mask
    found: dict[str, int] = {}
    for node, mask in masks.items():
        known = view.nodes[node]
        whole = mask and view.pools[known.island.pool].whole_nodes
        found[node] = known.spec.gpus if whole else mask.bit_count()
    return found


def _outlasts(profile: Profile, pledge: PledgeRecord, at_ms: int) -> bool:
    """Return whether a filled spare is expected to last past ``at_ms``."""
    return profile.returns.pledge_over_ms(pledge) > at_ms


def _filled_by(view: StateView, each: Overstayer) -> Iterator[PledgeRecord]:
    """Yield the spares that the run of a bundle fills."""
    return (pledge for pledge in view.pledges.values() if pledge.filler == each.run)


def _is_late(profile: Profile, pledge: PledgeRecord) -> bool:
    """Return whether the run of a filled spare overstays, so that it may be stopped, too.

    The slots of such a spare are counted by ``take_slots``.
    """
    record = profile.view.runs[pledge.run]
    is_backfill = pledge.run in profile.view.backfilled and record.phase is Phase.RUNNING
    return is_backfill and declared_end_ms(profile.view, record) <= profile.now_ms


def width_of(view: StateView, each: Overstayer, kind: str, name: str) -> int:
    """Return how much concurrency of a payer or cap a bundle takes, in GPUs.

    Return 0 for a hard quota, because no bundle is stopped to free a quota.
    """
    found = 0
    for payer, tier, gpus in _paid(view, each):
        match kind:
            case "envelope":
                found += gpus if payer == name else 0
            case "lending":
                found += gpus if payer == name and tier is Tier.BORROWED else 0
            case "cap":
                found += gpus if CapId(name) in view.envelopes[payer].caps else 0
            case _:
                pass
    return found


def _paid(view: StateView, each: Overstayer) -> Iterator[tuple[EnvelopeId, Tier, int]]:
    """Yield the payers of a bundle and of its filled spares, with their tiers and GPUs."""
    for name in each.leases:
        lease = view.leases[name]
        yield lease.fact.payer, lease.fact.tier, lease.gpus
    for spare in (view.pledges[name] for name in each.spares):
        yield spare.payer, spare.tier, spare.gpus


def bundle_end_ms(profile: Profile, each: Overstayer) -> int:
    """Return when a bundle is expected to end; the bundle must not be stopping."""
    return profile.returns.lease_end_ms(each.leases[0])


def take_held(  # noqa: PLR0913, PLR0917 - what, for which start, when, and whether it is given back
    profile: Profile, pin: Entry, each: Overstayer, from_ms: int, until_ms: int, sign: int
) -> None:
    """Count the resources of a bundle as taken (``sign`` is 1) or as free (-1), for a time span.

    The slots of the bundle's own filled spares are not counted; ``take_slots`` counts them. If the
    bundle fills a spare of another run, the slots of this spare are counted only from the expected
    end of that run on. Before that end, a stop of the bundle gives the slots back to the spare.
    """
    view = profile.view
    overs = {
        profile.returns.pledge_over_ms(spare)
        for spare in _filled_by(view, each)
        if not _is_late(profile, spare)
    }
    instants = sorted({from_ms, until_ms, *(over for over in overs if from_ms < over < until_ms)})
    for begin_ms, end_ms in pairwise(instants):
        at_ms = max(begin_ms, pin.start_ms)
        for key, gpus in room_of(profile, pin, each, at_ms).items():
            profile.room(key).take(begin_ms, end_ms, sign * gpus)
        on_nodes = {node: sign * gpus for node, gpus in nodes_of(profile, pin, each, at_ms).items()}
        profile.take_on(on_nodes, begin_ms, end_ms)
    for payer, tier, gpus in _paid(view, each):
        profile.payer(payer).take(from_ms, until_ms, sign * gpus)
        if tier is Tier.BORROWED:
            profile.lent(payer).take(from_ms, until_ms, sign * gpus)
        for cap in view.envelopes[payer].caps:
            profile.cap(cap).take(from_ms, until_ms, sign * gpus)
