"""Firm places checked by brute force: every instant, every lease, nothing remembered.

Independent of ``core/planning``: it adds up what each lease and each firm place holds at each
instant at which that changes. Knows domains, payers, lending and caps, and hard quotas on runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from quorate.core.holds import expected_ms
from quorate.model.amounts import HOLD_QUANTUM_MS
from quorate.model.events import Share, Slice, Tier
from quorate.model.records import Lease, Phase
from quorate.model.selector import RACK, names_label
from quorate.model.specs import Sharing
from quorate.model.view import StateView


@dataclass(frozen=True, slots=True)
class Place:
    """A firm place: whose, when, where and paid by whom."""

    run: str
    start_ms: int
    end_ms: int
    slice: Slice
    payers: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class PutBack:
    """What is put back for a trial: leases taken as gone, nodes as ready, limits as unbounded."""

    leases: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    limits: frozenset[str] = frozenset()


def places_of(view: StateView, *, without: Collection[str] = ()) -> list[Place]:
    """Return the firm places of ``view`` that count on no conflict, oldest first."""
    found = []
    for name, record in sorted(view.reservations.items(), key=lambda entry: entry[1].seq):
        if record.planned_start_ms is None or record.by_conflict or name in without:
            continue
        run = view.runs[record.made.run].spec
        start_ms = record.planned_start_ms
        end_ms = start_ms + expected_ms(run, view.pools[run.pool])
        found.append(Place(run.name, start_ms, end_ms, record.slice, record.payers))
    return found


def lacking(
    view: StateView, place: Place, others: Collection[Place], put_back: PutBack | None = None
) -> list[str]:
    """Return what ``place`` lacks beside ``others``, what runs, and what is ``put_back``."""
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
    for at_ms in sorted(instants):
        beside = [
            other for other in others if other.start_ms <= at_ms < other.end_ms and other != place
        ]
        for domain, gpus in place.slice.domains:
            where = (pool, place.slice.flavor, domain)
            free = _free(view, where, at_ms, back)
            free -= sum(_taken(view, other, where) for other in beside)
            if free < gpus:
                yield f"domain {domain} has {free} of {gpus} at {at_ms}"
        for share in place.payers:
            if share.payer not in back.limits:
                if not _still_pays(view, place, share):
                    yield f"envelope {share.payer} does not pay for {place.run}"
                left = _width(view, share.payer, at_ms, back)
                left -= sum(s.gpus for o in beside for s in o.payers if s.payer == share.payer)
                wanted = sum(s.gpus for s in place.payers if s.payer == share.payer)
                if left < wanted:
                    yield f"envelope {share.payer} has {left} of {wanted} at {at_ms}"
        for owner, left in _runs_left(view, place, at_ms, back):
            family = sum(owner in _lineage(view, other.run) for other in beside)
            if left - family < 1 and owner not in back.limits:
                yield f"quota of {owner} has {left - family} of 1 run at {at_ms}"


def _runs_left(
    view: StateView, place: Place, at_ms: int, back: PutBack
) -> Iterator[tuple[str, int]]:
    """Yield how many more runs each owner that bounds a place allows at ``at_ms``."""
    running = {
        name
        for name, record in view.runs.items()
        if record.phase is Phase.RUNNING
        and any(
            lease not in back.leases and _end_ms(view, view.leases[lease]) > at_ms
            for lease in record.leases
        )
    }
    for owner in _lineage(view, place.run):
        known = view.owners.get(owner)
        limit = None if known is None else known.quota.concurrent_runs_max
        if limit is not None:
            yield owner, limit - sum(owner in _lineage(view, name) for name in running)


def _lineage(view: StateView, run: str) -> set[str]:
    """Return the owner of ``run`` and all above it."""
    found, level = set[str](), [view.runs[run].spec.owner]
    while level:
        owner = level.pop()
        if owner not in found:
            found.add(owner)
            known = view.owners.get(owner)
            level += () if known is None else known.parents
    return found


def _still_pays(view: StateView, place: Place, share: Share) -> bool:
    """Return whether a payer may pay for a run: of its family, or as a lender, and open then."""
    owner = view.runs[place.run].spec.owner
    account = view.envelopes[share.payer]
    spec = account.spec
    if account.retired or not (spec.start_ms <= place.start_ms or spec.allow_admission):
        return False
    if place.start_ms >= spec.end_ms:
        return False
    if share.tier is Tier.BORROWED:
        return spec.lending.admits(owner)
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


def _free(view: StateView, where: tuple[str, str, str], at_ms: int, back: PutBack) -> int:
    """Return the GPUs of a domain that no lease holds at ``at_ms``, in whole nodes where asked."""
    whole = view.pools[where[0]].whole_nodes
    found = 0
    for name, known in view.nodes.items():
        key = known.island
        if (key.pool, key.flavor, key.domain) != where:
            continue
        if (name in view.node_status and name not in back.nodes) or name in view.unwiped:
            continue
        held = sum(
            mask.bit_count()
            for lease_name in view.node_leases.get(name, ())
            if lease_name not in back.leases
            and _end_ms(view, lease := view.leases[lease_name]) > at_ms
            for node, mask in lease.fact.slots
            if node == name
        )
        held += _pledged(view, name, at_ms)
        if whole:
            found += 0 if held else known.spec.gpus
        else:
            found += known.spec.gpus - held
    return found


def _pledged(view: StateView, node: str, at_ms: int) -> int:
    """Return the GPUs of filled spares that have come back to ``node`` by ``at_ms``."""
    found = 0
    for pledge in view.pledges.values():
        gpus = sum(mask.bit_count() for name, mask in pledge.slots if name == node)
        if not gpus:
            continue
        fillers = [view.leases[name] for name in view.runs[pledge.filler].leases]
        back_ms = max((_end_ms(view, lease) for lease in fillers), default=view.at_ms)
        record = view.runs[pledge.run]
        over_ms = view.at_ms
        if record.phase is Phase.RUNNING:
            over_ms = max(_end_ms(view, view.leases[name]) for name in record.leases)
        if back_ms <= at_ms < over_ms:
            found += gpus
    return found


def _width(view: StateView, payer: str, at_ms: int, back: PutBack) -> int:
    """Return how many GPUs more a payer pays at ``at_ms``."""
    account = next(a for key, a in view.envelopes.items() if key == payer)
    used = sum(
        lease.gpus
        for name, lease in view.leases.items()
        if lease.fact.payer == payer and name not in back.leases and _end_ms(view, lease) > at_ms
    )
    used += sum(
        pledge.gpus
        for pledge in view.pledges.values()
        if pledge.payer == payer
        and view.runs[pledge.run].phase is Phase.RUNNING
        and max(_end_ms(view, view.leases[n]) for n in view.runs[pledge.run].leases) > at_ms
    )
    return account.spec.concurrency - used


def _end_ms(view: StateView, lease: Lease) -> int:
    """Return when a lease is expected to end, by the ladder that the documents state."""
    record = view.runs[lease.fact.run]
    assert record.since_ms is not None, record
    from_ms = record.since_ms
    end_ms = from_ms + expected_ms(record.spec, view.pools[record.spec.pool])
    if lease.ending is not None and not view.at_ms <= end_ms <= lease.ending.deadline_ms:
        from_ms, end_ms = lease.ending.at_ms, lease.ending.deadline_ms
    if lease.ending is None:
        recalls = [
            max(view.at_ms, known.due_ms)
            for (run, bundle), known in view.recalls.items()
            if run == lease.fact.run and bundle in (0, lease.fact.bundle)
        ]
        while end_ms < view.at_ms:
            end_ms += max(HOLD_QUANTUM_MS, (end_ms - from_ms) // 4)
        return min((end_ms, *recalls))
    while end_ms < view.at_ms:
        end_ms += max(HOLD_QUANTUM_MS, (end_ms - from_ms) // 4)
    return end_ms


def is_plain(view: StateView, place: Place) -> bool:
    """Return whether counting GPUs by domain is all there is to a place."""
    run = view.runs[place.run].spec
    lines = [view.envelopes[share.payer].spec.selector for share in place.payers]
    sizes = {
        node.spec.gpus
        for node in view.nodes.values()
        if (node.island.pool, node.island.flavor) == (run.pool, place.slice.flavor)
    }
    mixed = view.pools[run.pool].whole_nodes and len(sizes) > 1
    bounded = any(
        view.owners[name].quota.nodes_max is not None for name in view.holdings.bounds_of(run.owner)
    )
    racks = any(names_label(line, RACK) for line in (run.selector, *lines))
    lent = any(share.tier is Tier.BORROWED for share in place.payers)
    capped = any(view.envelopes[share.payer].caps for share in place.payers)
    return not (mixed or bounded or racks or lent or capped)


def overstaying(view: StateView, place: Place, others: Collection[Place]) -> list[str]:
    """Return the leases that had to be told to stop for ``place`` by now, and were not.

    Marked as out of order, started after the run of the place began to wait, past their declared
    ends, one grace before the start, and where it lacks room.
    """
    lack = {text.split()[1] for text in lacking(view, place, others) if text.startswith("domain ")}
    waiting_seq = view.runs[place.run].waiting_seq
    found = []
    for name in view.backfilled:
        record = view.runs[name]
        if record.phase is not Phase.RUNNING or record.stopping is not None:
            continue
        assert record.since_ms is not None, record
        end_ms = record.since_ms + expected_ms(record.spec, view.pools[record.spec.pool])
        for bundle, started_seq in record.backfills:
            for lease_name in record.leases:
                lease = view.leases[lease_name]
                if lease.ending is not None or bundle not in (0, lease.fact.bundle):
                    continue
                told_ms = place.start_ms - lease.grace_ms
                where = {view.nodes[node].spec.domain_key for node, _ in lease.fact.slots}
                if (
                    started_seq > waiting_seq
                    and end_ms <= told_ms
                    and told_ms < view.at_ms
                    and where & lack
                ):
                    found.append(lease_name)
    return found
