"""Checks firm starts by brute force: at every instant, with every lease, without a cache.

A firm start has a recorded instant, domains and payers. This module does not use ``core/planning``,
whose plans it checks. At each instant at which the use of resources changes, it adds up what all
leases and firm starts use. The resources are GPUs and whole nodes by domain and by rack, the
concurrency and GPU-hours of payers, lending and caps, and hard quotas of runs and nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import gcd

from quorate.core.admission.holds import expected_ms
from quorate.core.profile.reservations import is_cleared
from quorate.model.amounts import HOLD_QUANTUM_MS
from quorate.model.events import LeaseStarted, Share, Slice, Tier, lease_gpus
from quorate.model.selector import RACK, matches, names_label
from quorate.model.specs import CapId, Sharing
from quorate.model.state.records import Lease, Phase
from quorate.model.state.state_view import StateView
from quorate.model.state.upstreams import eligible_since_ms


@dataclass(frozen=True, slots=True)
class Place:
    """A firm start: the run, and its recorded instant, domains and payers."""

    run: str
    start_ms: int
    end_ms: int
    slice: Slice
    payers: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class PutBack:
    """What a trial assumes: some leases have ended, nodes are ready, and limits are ignored.

    ``leases`` are assumed to have ended, and ``nodes`` to be ready. The limits of the objects
    in ``limits`` are ignored; each object is a pair (kind, name). The kind "domain" is for a domain
    whose nodes have changed. The leases in ``unrecalled`` are assumed to last until their declared
    ends, although they were recalled. ``gone_ms`` maps leases to the instant at which they are
    assumed to end. ``paid`` maps leases to the shares that are assumed to pay for them instead of
    their payers.
    """

    leases: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    limits: frozenset[tuple[str, str]] = frozenset()
    unrecalled: frozenset[str] = frozenset()
    gone_ms: Mapping[str, int] = field(default_factory=dict)
    paid: Mapping[str, tuple[Share, ...]] = field(default_factory=dict)


def places_of(view: StateView, *, without: Collection[str] = ()) -> list[Place]:
    """Return the firm starts of ``view`` for which room must be kept, the oldest first.

    Starts by a conflict that is not settled yet are left out, and so are the reservations named in
    ``without``. Starts for which a conflict has cut leases come last, because they use the GPUs of
    these leases. Such a start is left out if it does not fit beside the others. The reason may be a
    quota, or a node that was lost since.
    """
    found: list[Place] = []
    settled: list[Place] = []
    for name, record in sorted(view.reservations.items(), key=lambda entry: entry[1].seq):
        if record.planned_start_ms is None or name in without:
            continue
        if record.by_conflict and not is_cleared(view, record):
            continue
        run = view.runs[record.made.run].spec
        start_ms = record.planned_start_ms
        end_ms = start_ms + expected_ms(run, view.pools[run.pool])
        place = Place(run.name, start_ms, end_ms, record.slice, record.payers)
        (settled if record.by_conflict else found).append(place)
    for place in settled:
        if not lacking(view, place, found):
            found.append(place)
    return found


def lacking(
    view: StateView, place: Place, others: Collection[Place], put_back: PutBack | None = None
) -> list[str]:
    """Return a text for each resource that ``place`` lacks if ``others`` and open leases stay.

    ``put_back`` has the assumptions of a trial.
    """
    back = put_back or PutBack()
    return list(_lacking(view, place, others, back))


def _lacking(
    view: StateView, place: Place, others: Collection[Place], back: PutBack
) -> Iterator[str]:
    from_ms = max(place.start_ms, view.at_ms)
    instants = {from_ms} | {
        other.start_ms for other in others if from_ms < other.start_ms < place.end_ms
    }
    pool = view.runs[place.run].spec.pool
    yield from _broken(view, place, back)
    for at_ms in sorted(instants):
        beside = [
            other for other in others if other.start_ms <= at_ms < other.end_ms and other != place
        ]
        there = [place, *beside]
        for domain, gpus in place.slice.domains:
            where = (pool, place.slice.flavor, domain)
            free = _free(view, where, at_ms, back)
            free -= sum(_taken(view, other, where) for other in beside)
            if free < gpus and ("domain", domain) not in back.limits:
                yield f"domain {domain} has {free} free GPUs of {gpus} at {at_ms}"
        yield from _short_of_racks(view, place, there, at_ms, back)
        yield from _unpaid(view, place, there, at_ms, back)
        for owner, left in _runs_left(view, place, at_ms, back):
            family = sum(owner in _lineage(view, other.run) for other in beside)
            if left - family < 1 and ("owner", owner) not in back.limits:
                yield f"quota of {owner} has {left - family} of 1 run at {at_ms}"
        for owner, short in _nodes_short(view, place, there, at_ms, back):
            if short > 0 and ("owner", owner) not in back.limits:
                yield f"quota of {owner} has {short} nodes too few at {at_ms}"


def _broken(view: StateView, place: Place, back: PutBack) -> Iterator[str]:
    """Yield a text for each domain of whole nodes in which a start would use part of a node."""
    run = view.runs[place.run].spec
    if not view.pools[run.pool].whole_nodes:
        return
    for domain, gpus in place.slice.domains:
        where = (run.pool, place.slice.flavor, domain)
        sizes = [node.spec.gpus for node in view.nodes.values() if tuple(node.island) == where]
        grain, group = gcd(*sizes), run.group_gpus
        is_whole = grain == 0 or gpus % grain == 0
        if group is not None and grain:
            width = place.slice.gpus
            groups = {min(group, width), width % group or group}
            is_whole = all((each + run.spares_per_group) % grain == 0 for each in groups)
        if not is_whole and ("domain", domain) not in back.limits:
            yield f"domain {domain} gives whole nodes of {grain} GPUs only"


def _short_of_racks(
    view: StateView, place: Place, there: Collection[Place], at_ms: int, back: PutBack
) -> Iterator[str]:
    """Yield the nodes with too few free GPUs for payers and runs that may only use these nodes.

    Only selectors that name racks are checked. The nodes of each payer, and the nodes of every two
    payers together, must have enough free GPUs for all starts that may use only these nodes.
    """
    if any(("domain", domain) in back.limits for domain, _ in place.slice.domains):
        return
    mine = [nodes for nodes, _ in _by_nodes(view, place, back)]
    wanted = [each for other in there for each in _by_nodes(view, other, back)]
    for nodes in {one | two for one in mine for two in mine}:
        pool, flavor = view.runs[place.run].spec.pool, place.slice.flavor
        free = sum(
            _free(view, (pool, flavor, domain), at_ms, back, nodes)
            for domain, _ in place.slice.domains
        )
        gpus = sum(gpus for only, gpus in wanted if only <= nodes)
        if free < gpus:
            yield f"nodes {', '.join(sorted(nodes))} have {free} free GPUs of {gpus} at {at_ms}"


def _by_nodes(view: StateView, place: Place, back: PutBack) -> Iterator[tuple[frozenset[str], int]]:
    """Yield sets of nodes, each with the number of GPUs of a start that must be on these nodes.

    If the selector of the run names racks, there is one set for each payer. Otherwise there is one
    set for each payer whose selector names racks.
    """
    run = view.runs[place.run].spec
    domains = dict(place.slice.domains)
    there = {
        name: node.spec.location
        for name, node in view.nodes.items()
        if (node.island.pool, node.island.flavor) == (run.pool, place.slice.flavor)
        and node.island.domain in domains
    }
    for share in place.payers:
        if ("envelope", share.payer) in back.limits:
            continue  # The former selector of this payer is not known.
        selector = view.envelopes[share.payer].spec.selector
        if names_label(run.selector, RACK) or names_label(selector, RACK):
            yield (
                frozenset(
                    name
                    for name, labels in there.items()
                    if matches(selector, labels) and matches(run.selector, labels)
                ),
                share.gpus,
            )


def _unpaid(
    view: StateView, place: Place, there: Collection[Place], at_ms: int, back: PutBack
) -> Iterator[str]:
    """Yield a text for each envelope, lending limit or cap that the starts in ``there`` exceed."""
    caps = dict[CapId, None]()
    for share in place.payers:
        payer, account = share.payer, view.envelopes[share.payer]
        if ("envelope", payer) in back.limits:
            continue
        spec = account.spec
        caps |= dict.fromkeys(account.caps)
        families = {("family", account.owner), ("family", view.runs[place.run].spec.owner)}
        if families.isdisjoint(back.limits) and not _still_pays(view, place, share):
            yield f"envelope {payer} does not pay for {place.run}"
        free = spec.concurrency - _used(view, {payer}, at_ms, back) - _wanted(there, {payer})
        if free < 0:
            yield f"envelope {payer} has {-free} GPUs too few at {at_ms}"
        if account.committed_gpu_ms > spec.gpu_ms_granted:
            yield f"envelope {payer} has promised {account.committed_gpu_ms} GPU-ms"
        limit = spec.lending.concurrency_max if share.tier is Tier.BORROWED else None
        if limit is not None:
            lent = _used(view, {payer}, at_ms, back, lent=True)
            if limit < lent + _wanted(there, {payer}, lent=True):
                yield f"envelope {payer} lends {limit} GPUs, which is too few at {at_ms}"
    yield from _over_caps(view, caps, there, at_ms, back)


def _over_caps(
    view: StateView, caps: Iterable[CapId], there: Collection[Place], at_ms: int, back: PutBack
) -> Iterator[str]:
    """Yield a text for each cap in ``caps`` that the starts in ``there`` exceed together."""
    for cap in caps:
        if ("cap", cap) in back.limits:
            continue
        known = view.caps[cap]
        members = {key for key, account in view.envelopes.items() if cap in account.caps}
        limit, granted = known.spec.concurrency_max, known.spec.gpu_ms_max
        free = 0
        if limit is not None:
            free = limit - _used(view, members, at_ms, back) - _wanted(there, members)
        if free < 0:
            yield f"cap {cap} has {-free} GPUs too few at {at_ms}"
        if granted is not None and known.committed_gpu_ms > granted:
            yield f"cap {cap} has promised {known.committed_gpu_ms} GPU-ms"


def _wanted(places: Collection[Place], payers: Collection[str], *, lent: bool = False) -> int:
    """Return how many GPUs ``payers`` pay for in ``places``; if ``lent``, count only lent GPUs."""
    return sum(
        share.gpus
        for place in places
        for share in place.payers
        if share.payer in payers and (not lent or share.tier is Tier.BORROWED)
    )


def _nodes_short(
    view: StateView, place: Place, there: Collection[Place], at_ms: int, back: PutBack
) -> Iterator[tuple[str, int]]:
    """Yield owners, and by how many nodes each exceeds its quota of nodes at ``at_ms``.

    The owners are the owner of the run that starts and the ancestors of this owner. The number is
    below 0 if the quota allows further nodes. It is computed as if the starts in ``there`` were
    carried out on as few nodes as possible. If nodes can be shared, these starts first use the free
    GPUs of nodes that the owner already has.
    """
    for owner in _lineage(view, place.run):
        known = view.owners.get(owner)
        limit = None if known is None else known.quota.nodes_max
        if limit is None:
            continue
        used = _nodes_used(view, owner, at_ms, back)
        wanted = dict[tuple[str, str, str], int]()
        for other in there:
            if owner in _lineage(view, other.run):
                pool = view.runs[other.run].spec.pool
                for domain, gpus in other.slice.domains:
                    where = (pool, other.slice.flavor, domain)
                    wanted[where] = wanted.get(where, 0) + gpus
        held = len(used)
        for where, gpus in wanted.items():
            nodes = {n: k.spec.gpus for n, k in view.nodes.items() if tuple(k.island) == where}
            own = sum(size - used[name] for name, size in nodes.items() if name in used)
            own = 0 if view.pools[where[0]].whole_nodes else own
            if nodes:
                held += -(-max(0, gpus - own) // max(nodes.values()))
        yield owner, held - limit


def _nodes_used(view: StateView, owner: str, at_ms: int, back: PutBack) -> dict[str, int]:
    """Return the GPUs per node that ``owner`` and owners below it hold at ``at_ms``.

    The GPUs of filled spares of these owners are included until the end of the spare's run.
    """
    used = dict[str, int]()
    for name, lease in view.leases.items():
        spec = view.runs[lease.fact.run].spec
        stays = spec.sensitive or spec.rounds is not None
        is_open = name not in back.leases and (stays or _end_ms(view, lease, back) > at_ms)
        if is_open and owner in _lineage(view, lease.fact.run):
            for node, mask in lease.fact.slots:
                used[node] = used.get(node, 0) | mask
    for pledge in view.pledges.values():
        if _over_ms(view, pledge.run, back) > at_ms and owner in _lineage(view, pledge.run):
            for node, mask in pledge.slots:
                used[node] = used.get(node, 0) | mask
    return {node: mask.bit_count() for node, mask in used.items()}


def _runs_left(
    view: StateView, place: Place, at_ms: int, back: PutBack
) -> Iterator[tuple[str, int]]:
    """Yield owners, and how many more runs the quota of each allows at ``at_ms``.

    The owners are the owner of the run that starts and the ancestors of this owner.
    """
    limits = dict[str, int]()
    for owner in _lineage(view, place.run):
        known = view.owners.get(owner)
        limit = None if known is None else known.quota.concurrent_runs_max
        if limit is not None:
            limits[owner] = limit
    if not limits:
        return
    running = {
        lease.fact.run
        for name, lease in view.leases.items()
        if name not in back.leases and _end_ms(view, lease, back) > at_ms
    }
    # A run in rounds is limited from its first GPUs to its end.
    running |= view.in_rounds.keys()
    counted = [
        _lineage(view, name)
        for name in running
        if view.runs[name].phase is Phase.RUNNING
        and not view.runs[name].spec.sensitive  # A claim does not count as a run.
    ]
    for owner, limit in limits.items():
        yield owner, limit - sum(owner in family for family in counted)


def _lineage(view: StateView, run: str) -> set[str]:
    """Return the owner of ``run`` and the ancestors of this owner."""
    found, level = set[str](), [view.runs[run].spec.owner]
    while level:
        owner = level.pop()
        if owner not in found:
            found.add(owner)
            known = view.owners.get(owner)
            level += () if known is None else known.parents
    return found


def _still_pays(view: StateView, place: Place, share: Share) -> bool:
    """Return whether a payer may pay for a run.

    A payer may pay if it is in the family of the run's owner or lends to it, and its window is open
    at the start.
    """
    owner = view.runs[place.run].spec.owner
    account = view.envelopes[share.payer]
    spec = account.spec
    if account.retired or not (spec.start_ms <= place.start_ms or spec.allow_admission):
        return False
    if place.start_ms >= spec.end_ms:
        return False
    if share.tier is Tier.BORROWED and spec.lending.admits(owner):
        return True
    known = view.owners.get(owner)
    parents = set() if known is None else set(known.parents)
    siblings = {name for name, each in view.owners.items() if parents & set(each.parents)}
    shared = account.owner in parents | siblings and spec.sharing is Sharing.FAMILY
    return account.owner == owner or shared


def _taken(view: StateView, other: Place, where: tuple[str, str, str]) -> int:
    pool, flavor, domain = where
    if view.runs[other.run].spec.pool != pool or other.slice.flavor != flavor:
        return 0
    return sum(gpus for key, gpus in other.slice.domains if key == domain)


def _free(
    view: StateView,
    where: tuple[str, str, str],
    at_ms: int,
    back: PutBack,
    only: Collection[str] | None = None,
) -> int:
    """Return the GPUs of a domain, or of the nodes ``only``, that no lease holds at ``at_ms``.

    If the pool gives whole nodes, only the GPUs of entirely free nodes are counted.
    """
    whole = view.pools[where[0]].whole_nodes
    found = 0
    for name, known in view.nodes.items():
        key = known.island
        if (key.pool, key.flavor, key.domain) != where or (only is not None and name not in only):
            continue
        if (name in view.node_status and name not in back.nodes) or name in view.unwiped:
            continue
        held = sum(
            mask.bit_count()
            for lease_name in view.node_leases.get(name, ())
            if lease_name not in back.leases
            and _end_ms(view, lease := view.leases[lease_name], back) > at_ms
            for node, mask in lease.fact.slots
            if node == name
        )
        held += _pledged(view, name, at_ms, back)
        if whole:
            found += 0 if held else known.spec.gpus
        else:
            found += known.spec.gpus - held
    return found


def _pledged(view: StateView, node: str, at_ms: int, back: PutBack) -> int:
    """Return how many GPUs on ``node`` have returned to filled spares by ``at_ms``.

    A spare gets its GPUs back when the run that fills it (the filler) has ended. If ``back`` has
    the leases of the filler, the spare has its GPUs back at once.
    """
    found = 0
    for pledge in view.pledges.values():
        gpus = sum(mask.bit_count() for name, mask in pledge.slots if name == node)
        if not gpus:
            continue
        fillers = (n for n in view.runs[pledge.filler].leases if n not in back.leases)
        ends = (_end_ms(view, view.leases[name], back) for name in fillers)
        back_ms = max(ends, default=view.at_ms)
        if back_ms <= at_ms < _over_ms(view, pledge.run, back):
            found += gpus
    return found


def _over_ms(view: StateView, run: str, back: PutBack) -> int:
    """Return the expected end of ``run``: the end of its last lease other than a spare.

    Leases in ``back`` are ignored. If all leases of the run are stopping, their ends are used.
    Otherwise only the leases that are not stopping are used, because a lease on a drained node may
    stop after the end of its run; if ``back`` has all of them, the run is over.
    """
    record = view.runs[run]
    if record.phase is not Phase.RUNNING:
        return view.at_ms
    leases = {name: view.leases[name] for name in record.leases}
    working = {name: lease for name, lease in leases.items() if lease.ending is None}
    left = [lease for name, lease in (working or leases).items() if name not in back.leases]
    return max((_end_ms(view, lease, back) for lease in left), default=view.at_ms)


def _used(
    view: StateView, payers: Collection[str], at_ms: int, back: PutBack, *, lent: bool = False
) -> int:
    """Return how many GPUs ``payers`` pay for at ``at_ms``; if ``lent``, count only lent GPUs."""
    used = sum(
        share.gpus
        for name, lease in view.leases.items()
        for share in back.paid.get(name, (share_of(lease.fact),))
        if share.payer in payers
        and (not lent or share.tier is Tier.BORROWED)
        and name not in back.leases
        and _end_ms(view, lease, back) > at_ms
    )
    return used + sum(
        pledge.gpus
        for pledge in view.pledges.values()
        if pledge.payer in payers
        and (not lent or pledge.tier is Tier.BORROWED)
        and _over_ms(view, pledge.run, back) > at_ms
    )


def share_of(fact: LeaseStarted) -> Share:
    """Return the payer of a lease as a share: the payer, its tier, the GPUs and the hold."""
    return Share(fact.payer, fact.tier, lease_gpus(fact.slots), fact.hold_gpu_ms)


def _end_ms(view: StateView, lease: Lease, back: PutBack) -> int:
    """Return when a lease is expected to end, by the rules in docs/design/planning.md."""
    gone_ms = back.gone_ms.get(lease.fact.lease)
    end_ms = _expected_ms(view, lease, back)
    return end_ms if gone_ms is None else min(end_ms, gone_ms)


def _expected_ms(view: StateView, lease: Lease, back: PutBack) -> int:
    record = view.runs[lease.fact.run]
    assert record.since_ms is not None, record
    end_ms = record.since_ms + expected_ms(record.spec, view.pools[record.spec.pool])
    end_ms = _climbed(view, record.since_ms, end_ms)
    if lease.fact.lease in back.unrecalled:
        return end_ms
    if lease.ending is not None:
        stopped_ms = _climbed(view, lease.ending.at_ms, lease.ending.deadline_ms)
        return min(end_ms, stopped_ms)
    recalls = [
        max(view.at_ms, known.due_ms)
        for (run, bundle), known in view.recalls.items()
        if run == lease.fact.run and bundle in (0, lease.fact.bundle)
    ]
    return min((end_ms, *recalls))


def _climbed(view: StateView, from_ms: int, end_ms: int) -> int:
    """Return ``end_ms``; if it has passed, extend it step by step until it is in the future.

    Each step is a quarter of the time since ``from_ms``, but at least ``HOLD_QUANTUM_MS``.
    """
    is_late = end_ms < view.at_ms
    while is_late and end_ms <= view.at_ms:
        end_ms += max(HOLD_QUANTUM_MS, (end_ms - from_ms) // 4)
    return end_ms


def is_counted(view: StateView, place: Place) -> bool:
    """Return whether the number of free GPUs alone decides if a start has room.

    Return False if the run or a payer selects racks, if the pool gives whole nodes of several
    sizes, or if a quota of nodes applies to shared nodes. In these cases it matters which GPUs of
    the domain are free, not only how many.
    """
    run = view.runs[place.run].spec
    lines = [view.envelopes[share.payer].spec.selector for share in place.payers]
    sizes = {
        node.spec.gpus
        for node in view.nodes.values()
        if (node.island.pool, node.island.flavor) == (run.pool, place.slice.flavor)
    }
    if any(names_label(line, RACK) for line in (run.selector, *lines)):
        return False
    if view.pools[run.pool].whole_nodes:
        return len(sizes) == 1
    above = (view.owners.get(owner) for owner in _lineage(view, place.run))
    return all(owner is None or owner.quota.nodes_max is None for owner in above)


def stoppable(view: StateView, place: Place) -> frozenset[str]:
    """Return the leases that overstay and may be stopped for the firm start ``place``.

    A lease may be stopped if it is marked as backfill, and began after the run of ``place`` began
    to wait. Its declared end must have passed, and must be at least one grace before the planned
    start. No lease may be stopped for a run that was itself stopped for overstaying.
    """
    waiting = view.runs[place.run]
    is_alone = waiting.spec.follow is None and waiting.spec.array is None
    since_ms = 0 if is_alone else eligible_since_ms(view, waiting)
    found = set[str]()
    if waiting.has_overstayed or since_ms is None:
        return frozenset()
    for name in view.backfilled:
        record = view.runs[name]
        if record.phase is not Phase.RUNNING or record.stopping is not None:
            continue
        assert record.since_ms is not None, record
        end_ms = record.since_ms + expected_ms(record.spec, view.pools[record.spec.pool])
        for bundle, started_seq, started_ms in record.backfills:
            if started_seq < waiting.waiting_seq or started_ms < since_ms:
                continue
            for lease_name in record.leases:
                lease = view.leases[lease_name]
                is_free = lease.ending is None and bundle in (0, lease.fact.bundle)
                told_ms = max(place.start_ms, view.at_ms) - lease.grace_ms
                if is_free and end_ms <= min(view.at_ms, told_ms):
                    found.add(lease_name)
    return frozenset(found)


def stopped_by(view: StateView, place: Place, places: Collection[Place]) -> PutBack:
    """Return the leases that may be stopped for ``place``, or for starts at overlapping times.

    If starts that overlap in time do not fit together, all of them lack room or money. Then a lease
    may be stopped for any of these starts, and it ends before the start for which it is stopped.
    For a start that has no domain in common with ``place``, only leases of payers that both starts
    use are returned.
    """
    pool, domains = view.runs[place.run].spec.pool, dict(place.slice.domains)
    payers, gone_ms = _pooled(view, place), dict[str, int]()
    for other in places:
        if other.end_ms <= place.start_ms or place.end_ms <= other.start_ms:
            continue
        is_beside = (view.runs[other.run].spec.pool, other.slice.flavor) == (
            pool,
            place.slice.flavor,
        ) and not domains.keys().isdisjoint(dict(other.slice.domains))
        common = payers & _pooled(view, other)
        for lease in stoppable(view, other):
            if is_beside or view.leases[lease].fact.payer in common:
                gone_ms[lease] = min(other.start_ms, gone_ms.get(lease, other.start_ms))
    begun = {lease for lease, at_ms in gone_ms.items() if at_ms <= place.start_ms}
    return PutBack(stoppable(view, place) | begun, gone_ms=gone_ms)


def _pooled(view: StateView, place: Place) -> set[str]:
    """Return the payers of ``place``, and all payers under their caps."""
    payers = {share.payer for share in place.payers}
    caps = {cap for payer in payers for cap in view.envelopes[payer].caps}
    return payers | {
        key for key, account in view.envelopes.items() if not caps.isdisjoint(account.caps)
    }


def overstaying(view: StateView, place: Place, others: Collection[Place]) -> list[str]:
    """Return the leases that should have been stopped for ``place`` by now, but were not.

    A lease is returned on three conditions. It may be stopped for ``place``. Less than one grace is
    left before the planned start. Its domain would lack room for ``place`` even if the leases that
    can still be stopped in time were stopped.
    """
    may_stop = stoppable(view, place)
    late = {n for n in may_stop if place.start_ms - view.leases[n].grace_ms < view.at_ms}
    left = lacking(view, place, others, PutBack(may_stop - late))
    lack = {text.split()[1] for text in left if text.startswith("domain ")}
    return [
        name
        for name in sorted(late)
        if lack & {view.nodes[node].spec.domain_key for node, _ in view.leases[name].fact.slots}
    ]
