"""Finds why a firm start has to move: one of a fixed list of causes, and the objects concerned.

The objects are leases that are late, nodes that were lost, or money, quotas and pools that changed.
Submissions, starts, growth, filled spares and cancellations are never a cause, because runs use
only room that firm starts leave.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from quorate.core.admission.holds import expected_ms
from quorate.core.admission.quota_holders import family_of
from quorate.core.profile.firm_places import (
    breaks_nodes,
    is_barred,
    is_void,
    payers_of,
    recorded_end_ms,
    unpaid,
)
from quorate.core.profile.lease_ends import is_told_late, said_end_ms
from quorate.core.profile.node_quota import nodes_short
from quorate.core.profile.plan_entry import Entry
from quorate.core.profile.profile import Profile, nodes_in
from quorate.core.profile.rack_rooms import gpus_on, islands_of
from quorate.core.profile.resource import Resource
from quorate.model.events import (
    BudgetApplied,
    EndReason,
    Event,
    LeaseEnded,
    LeaseEnding,
    MoveCause,
    MoveCode,
    NodeApplied,
    NodeMarked,
    NodeRemoved,
    NodesClaimed,
    NodeStatus,
    NodeWiped,
    OwnerApplied,
    Share,
    Slots,
    Tier,
)
from quorate.model.specs import CapId, EnvelopeId
from quorate.model.state.free_slots import IslandKey
from quorate.model.state.reads.money_reads import cap_members
from quorate.model.state.records import PledgeRecord
from quorate.model.state.state_view import StateView

OBJECTS_MAX: Final = 16
"""The most objects that a cause names."""

_WITHDRAWN: Final = {
    "envelope": (MoveCode.BUDGET_CHANGED, "envelope"),
    "lending": (MoveCode.BUDGET_CHANGED, "envelope"),
    "cap": (MoveCode.CAP_CHANGED, "cap"),
    "runs": (MoveCode.QUOTA_CHANGED, "owner"),
    "nodes": (MoveCode.QUOTA_CHANGED, "owner"),
}
_PLACES: Final = ("domain", "racks")
"""The kinds of resources that are GPUs of nodes."""
_LOST: Final = (
    (NodeStatus.FAILED, MoveCode.NODE_LOST),
    (NodeStatus.CORDONED, MoveCode.NODE_DRAINED),
)

Found = tuple[MoveCode, tuple[str, str]]
"""The code of a cause, and one of its objects as kind and name."""
NamedNeed = tuple[str, str, Resource, int]
"""The kind and name of a resource, the resource itself, and the amount that is needed."""


def cause_of(
    profile: Profile, pin: Entry, overdue: Sequence[Entry] = (), events: Sequence[Event] = ()
) -> MoveCause:
    """Return why the firm start ``pin``, which ``profile`` does not contain, does not fit there.

    For each resource that is short, the cause names the late leases that hold some of it. If these
    leases do not explain the whole shortage, the cause also names the objects that were lost or
    withdrawn. The code of the cause is the first that applies, in the order of ``MoveCode``.

    ``overdue`` are the firm starts that were due before now. An overdue start ends later than
    recorded, because the leases that it waits for are late. ``events`` are this decision's events
    so far, which may end or stop leases that an overdue start has waited for. If the events change
    nodes, the cause names no other nodes.
    """
    found: dict[Found, None] = {}
    gone = [
        (MoveCode.LEASE_OVERRAN, ("lease", event.lease))
        for event in events
        if isinstance(event, LeaseEnded)
        or (isinstance(event, LeaseEnding) and event.reason is EndReason.OVERSTAYED)
    ]
    for need in (*profile.named_needs(pin), *profile.rack_needs(pin)):
        kind, name, resource, amount = need
        if resource.least(pin.start_ms, pin.end_ms) >= amount:
            continue
        if kind == "nodes" and nodes_short(profile, pin, name) <= 0:
            continue
        delayed: list[tuple[Entry, int]] = []
        for other in overdue:
            needs = [*profile.named_needs(other), *profile.rack_needs(other)]
            taken = sum(each[3] for each in needs if each[:2] == need[:2])
            if taken and other.start_ms < pin.end_ms and pin.start_ms < other.end_ms:
                delayed.append((other, taken))
                due = replace(other, start_ms=_due_ms(profile.view, other))
                late = [lease for each in needs for lease in _late(profile, due, *each[:2])]
                itself: Found = (MoveCode.LEASE_OVERRAN, ("run", other.run))
                found |= dict.fromkeys(late or gone or [itself])
        if _short_without(profile, pin, need, (), delayed) > 0:
            found |= dict.fromkeys(_causes(profile, pin, need, delayed, events))
    for share in unpaid(profile.view, pin):
        found |= dict.fromkeys(_withdrawn(profile.view, pin, share, events))
    if breaks_nodes(profile.view, pin):
        found |= dict.fromkeys(_resized(pin, events))
    if not found:
        return _closed(profile, pin)
    return _first(found)


def withdrawn(profile: Profile, pin: Entry, events: Sequence[Event]) -> MoveCause | None:
    """Return why no conflict can make the start ``pin`` possible; None if a conflict may.

    ``pin`` is not in ``profile``. No conflict helps in these cases:

    - A payer may no longer pay, or may no longer pay for so many GPUs at a time.
    - A domain no longer has enough ready GPUs.
    - A hard quota allows no such run at all.
    - The start would no longer fill whole nodes, in a pool that gives whole nodes.
    """
    view, found = profile.view, dict[Found, None]()
    for share in unpaid(view, pin):
        found |= dict.fromkeys(_withdrawn(view, pin, share, events))
    paid: dict[EnvelopeId, int] = {}
    for share in pin.shares:
        paid[share.payer] = paid.get(share.payer, 0) + share.gpus
    for payer, gpus in paid.items():
        if view.envelopes[payer].spec.concurrency < gpus:
            found[MoveCode.BUDGET_CHANGED, ("envelope", payer)] = None
    for domain, gpus in pin.slice.domains:
        key = IslandKey(pin.pool, pin.slice.flavor, domain)
        if _ready_gpus(view, key) < gpus:
            lost = _lost(profile, pin, key, events)
            found |= dict.fromkeys(each for each in lost if each[1][0] != "lease")
    for name in view.holdings.bounds_of(pin.owner):
        quota = view.owners[name].quota
        if quota.concurrent_runs_max == 0 or (
            quota.nodes_max is not None and quota.nodes_max < pin.nodes
        ):
            found[MoveCode.QUOTA_CHANGED, ("owner", name)] = None
    if breaks_nodes(view, pin):
        found |= dict.fromkeys(_resized(pin, events))
    return _first(found) if found else None


def stands_without(profile: Profile, pin: Entry, leases: Collection[str]) -> bool:
    """Return whether the firm start ``pin`` would fit into ``profile`` if ``leases`` had ended.

    ``profile`` does not contain ``pin``.
    """
    view, returns = profile.view, profile.returns
    if is_void(view, pin):
        return False
    for kind, name, resource, amount in (*profile.named_needs(pin), *profile.rack_needs(pin)):
        if kind == "nodes":
            if nodes_short(profile, pin, name, without=frozenset(leases)) > 0:
                return False
            continue
        cured = resource.copy()
        if kind == "runs":
            runs = {view.leases[lease].fact.run for lease in leases}
            over = [run for run in runs if all(each in leases for each in view.runs[run].leases)]
            for run in over:
                ends = (returns.lease_end_ms(lease) for lease in view.runs[run].leases)
                cured.take(pin.start_ms, max(ends), -1)
        else:
            for lease in leases:
                if _holds(view, lease, kind, name):
                    gpus = _share(view, lease, kind, name)
                    cured.take(pin.start_ms, returns.lease_end_ms(lease), -gpus)
        if cured.least(pin.start_ms, pin.end_ms) < amount:
            return False
    return True


def _ready_gpus(view: StateView, key: IslandKey) -> int:
    """Return how many GPUs the ready nodes of an island have; 0 if the island is gone."""
    if key.domain not in view.domains(key.pool, key.flavor).numbers:
        return 0
    nodes = view.island(key).nodes
    return sum(node.gpus for node in nodes if node.name not in view.node_status)


def _due_ms(view: StateView, entry: Entry) -> int:
    """Return the recorded start of the firm start ``entry``."""
    record = view.reservations[view.runs[entry.run].reservation or ""]
    return record.planned_start_ms or entry.start_ms


def _resized(pin: Entry, events: Sequence[Event]) -> Iterator[Found]:
    """Yield why the firm start ``pin`` no longer fills whole nodes: its pool or nodes changed."""
    if any(isinstance(event, NodeApplied | NodeRemoved) for event in events):
        yield from ((MoveCode.NODES_CHANGED, ("domain", name)) for name, _ in pin.slice.domains)
    else:
        yield MoveCode.POOL_CHANGED, ("pool", pin.pool)


def _first(found: Collection[Found]) -> MoveCause:
    """Return one cause with all objects in ``found``.

    Of the codes in ``found``, the cause has the one that ``MoveCode`` lists first.
    """
    code = min((code for code, _ in found), key=list(MoveCode).index)
    return MoveCause(code, tuple(dict.fromkeys(each for _, each in found))[:OBJECTS_MAX])


def _causes(
    profile: Profile,
    pin: Entry,
    need: NamedNeed,
    delayed: Sequence[tuple[Entry, int]],
    events: Sequence[Event],
) -> Iterator[Found]:
    """Yield the late leases of a resource, and objects that were lost or withdrawn.

    Lost or withdrawn objects are yielded only if the late leases do not explain the whole shortage.
    """
    kind, name, *_ = need
    view = profile.view
    # A filled spare goes back to its run. If this run is late, the spare's GPUs are missing, too.
    spares = [each for each in view.pledges.values() if _pledged(view, each, kind, name)]
    owed = (lease for spare in spares for lease in view.runs[spare.run].leases)
    late = list(dict.fromkeys((*_late(profile, pin, kind, name), *_late_of(profile, pin, owed))))
    yield from late
    if _short_without(profile, pin, need, [lease for _, (_, lease) in late], delayed) <= 0:
        return
    if kind == "domain":
        yield from _lost(profile, pin, IslandKey(pin.pool, pin.slice.flavor, name), events)
    elif kind == "racks":
        applied = {event.budget.name for event in events if isinstance(event, BudgetApplied)}
        payers = [s.payer for s in pin.shares if s.payer.partition("/")[0] in applied]
        yield from ((MoveCode.BUDGET_CHANGED, ("envelope", payer)) for payer in payers)
        for key in () if payers else islands_of(view, pin):
            yield from _lost(profile, pin, key, events, nodes_in(name))
    else:
        code, what = _WITHDRAWN[kind]
        yield code, (what, name)


def _short_without(
    profile: Profile,
    pin: Entry,
    need: NamedNeed,
    late: Sequence[str],
    delayed: Sequence[tuple[Entry, int]],
) -> int:
    """Return how much of a resource the firm start ``pin`` would lack if nothing were late.

    The leases ``late``, and the other leases of their runs, are treated as ended. ``delayed`` are
    the starts that were due before now, and how much each takes; these starts are treated as begun
    at their planned instants. If ``pin`` was due before now, only the time until its recorded end
    is examined.
    """
    kind, name, resource, amount = need
    view, runs = profile.view, {profile.view.leases[lease].fact.run for lease in late}
    if kind == "nodes":
        gone = {lease for run in runs for lease in view.runs[run].leases}
        return nodes_short(profile, pin, name, without=gone) - sum(taken for _, taken in delayed)
    cured = resource.copy()
    for other, taken in delayed:
        run, due_ms = view.runs[other.run].spec, _due_ms(view, other)
        cured.take(other.start_ms, other.end_ms, -taken)
        cured.take(due_ms, due_ms + expected_ms(run, view.pools[run.pool]), taken)
    for from_ms, until_ms, gained in _gains(profile, kind, name, runs):
        cured.take(max(from_ms, pin.start_ms), until_ms, -gained)
    own, end_ms = view.reservations.get(view.runs[pin.run].reservation or ""), pin.end_ms
    if own is not None and own.planned_start_ms is not None:
        end_ms = recorded_end_ms(own, pin)
    return amount - cured.least(pin.start_ms, end_ms)


def _gains(
    profile: Profile, kind: str, name: str, runs: Collection[str]
) -> Iterator[tuple[int, int, int]]:
    """Yield how much more of a resource is free without ``runs``, as (from, until, amount)."""
    view, returns, now_ms = profile.view, profile.returns, profile.now_ms
    for run in runs:
        ends = [(lease, returns.lease_end_ms(lease)) for lease in view.runs[run].leases]
        if kind == "runs":
            yield now_ms, max(end_ms for _, end_ms in ends), 1
            continue
        for lease, end_ms in ends:
            if _holds(view, lease, kind, name):
                yield now_ms, end_ms, _share(view, lease, kind, name)
    if kind == "runs":
        return
    for spare in view.pledges.values():
        gpus = _pledged(view, spare, kind, name)
        if not gpus:
            continue
        back_ms, over_ms = returns.pledge_span(spare)
        if spare.run in runs:
            yield (back_ms if kind in _PLACES else now_ms), over_ms, gpus
        elif kind in _PLACES and spare.filler in runs:
            yield now_ms, back_ms, -gpus  # When its filler has ended, the spare has its slots back.


def _holds(view: StateView, lease: str, kind: str, name: str) -> bool:
    """Return whether a lease may hold GPUs of a domain, or concurrency of a payer or cap."""
    fact = view.leases[lease].fact
    match kind:
        case "domain" | "racks":
            return True  # ``_share`` counts the GPUs that the lease has in the domain.
        case "envelope":
            return fact.payer == name
        case "lending":
            return fact.payer == name and fact.tier is Tier.BORROWED
        case _:
            return fact.payer in cap_members(view, CapId(name))


def _late(profile: Profile, pin: Entry, kind: str, name: str) -> Iterator[Found]:
    """Yield the late leases of a resource that are expected to end after the start of ``pin``.

    A recalled lease is late, too, if it was stopped so late that it outlasts its notice.
    """
    return _late_of(profile, pin, _leases(profile, pin, kind, name))


def _late_of(profile: Profile, pin: Entry, leases: Iterable[str]) -> Iterator[Found]:
    """Yield each of ``leases`` that is late and expected to end after the start of ``pin``."""
    view = profile.view
    for lease in leases:
        known = view.leases[lease]
        is_late = said_end_ms(view, known) < profile.now_ms
        if not (is_late or is_told_late(view, known)):
            continue
        if profile.returns.lease_end_ms(lease) > pin.start_ms:
            is_stopping = known.ending is not None and known.ending.deadline_ms < profile.now_ms
            late = MoveCode.EXECUTOR_LATE if is_stopping else MoveCode.LEASE_OVERRAN
            yield late, ("lease", lease)


def _leases(profile: Profile, pin: Entry, kind: str, name: str) -> Iterator[str]:
    """Yield the leases that hold some of a resource; in a domain, only those that may be late."""
    view = profile.view
    match kind:
        case "domain":
            key = IslandKey(pin.pool, pin.slice.flavor, name)
            late = profile.returns.late_leases(key)
            ends = profile.returns.island_ends(key)  # A lease has one end for each of its nodes.
            recalls = bool(view.recalls)  # Without recalls, ``is_told_late`` is always False.
            yield from dict.fromkeys(
                lease
                for _, _, lease in ends
                if lease in late or (recalls and is_told_late(view, view.leases[lease]))
            )
        case "racks":
            for node in sorted(nodes_in(name)):
                yield from view.node_leases.get(node, ())
        case "envelope" | "lending":
            yield from view.payer_leases.get(EnvelopeId(name), ())
        case "cap":
            for member in cap_members(view, CapId(name)):
                yield from view.payer_leases.get(member, ())
        case _:
            for owner in family_of(view, name):
                yield from view.owner_leases.get(owner, ())


def _share(view: StateView, lease: str, kind: str, name: str) -> int:
    """Return how many GPUs of a payer, or of ready nodes in a domain or in racks, a lease holds."""
    known = view.leases[lease]
    return _gpus_in(view, known.fact.slots, kind, name) if kind in _PLACES else known.gpus


def _pledged(view: StateView, spare: PledgeRecord, kind: str, name: str) -> int:
    """Return how much of a resource a filled spare takes when the run that fills it has ended."""
    match kind:
        case "domain" | "racks":
            return _gpus_in(view, spare.slots, kind, name)
        case "envelope" | "lending":
            return spare.gpus if spare.payer == name else 0
        case "cap":
            return spare.gpus if spare.payer in cap_members(view, CapId(name)) else 0
        case _:
            return 0


def _gpus_in(view: StateView, slots: Slots, kind: str, name: str) -> int:
    """Return how many of ``slots`` are in a domain or in racks, on nodes that are ready."""
    ready = [(node, mask) for node, mask in slots if node not in view.node_status]
    if kind == "racks":
        return gpus_on(tuple(ready), nodes_in(name))
    return gpus_on(
        tuple(ready), [node for node, _ in ready if view.nodes[node].island.domain == name]
    )


def _withdrawn(
    view: StateView, pin: Entry, share: Share, events: Sequence[Event]
) -> Iterator[Found]:
    """Yield why the payer of ``share`` may no longer pay: an owner moved, or its budget changed.

    The owner that moved is the payer's owner or the run's owner, because only the parents of these
    two decide whether they are of one family.
    """
    account = view.envelopes[share.payer]
    applied = {event.owner.name for event in events if isinstance(event, OwnerApplied)}
    moved = [name for name in dict.fromkeys((account.owner, pin.owner)) if name in applied]
    run = view.runs[pin.run].spec
    if account.retired or not is_barred(share, payers_of(view, run, pin.slice.flavor)):
        moved = []
    yield from ((MoveCode.OWNER_MOVED, ("owner", name)) for name in moved)
    budget = share.payer.partition("/")[0]
    if not moved or any(
        isinstance(event, BudgetApplied) and event.budget.name == budget for event in events
    ):
        yield MoveCode.BUDGET_CHANGED, ("envelope", share.payer)


def _lost(
    profile: Profile,
    pin: Entry,
    key: IslandKey,
    events: Sequence[Event],
    only: Collection[str] | None = None,
) -> Iterator[Found]:
    """Yield the lost and drained nodes of a domain; if there are none, the domain itself.

    If ``only`` is given, nodes that are not in ``only`` are left out.

    If this decision changes nodes, only these nodes are yielded: the start was planned after
    the other nodes were lost. Late leases on a lost node are yielded with the node, because they
    would still hold its GPUs if the node came back.
    """
    view = profile.view
    marked = {event.node for event in events if isinstance(event, NodeMarked)}
    changes = NodeApplied | NodeRemoved | NodesClaimed | NodeWiped
    is_changed = any(isinstance(event, changes) for event in events)
    is_there = key.domain in view.domains(key.pool, key.flavor).numbers
    nodes = view.island(key).nodes if is_there else ()
    found = [
        (code, ("node", node.name))
        for node in nodes
        for status, code in _LOST
        if (only is None or node.name in only)
        and view.node_status.get(node.name) is status
        and (node.name in marked or not (marked or is_changed))
    ]
    yield from found
    for _, (_, node_name) in found:
        yield from _late_of(profile, pin, view.node_leases.get(node_name, ()))
    if is_changed or not found:
        yield MoveCode.NODES_CHANGED, ("domain", key.domain)


def _closed(profile: Profile, pin: Entry) -> MoveCause:
    """Return why the firm start ``pin`` cannot begin, although by counting no resource is short.

    The cause names the late leases that are in the domains of ``pin``, that its payers pay for, or
    that count in its owner's quotas. Without late leases, the cause names what may have changed
    since the start was recorded: the domains, a quota or the payers.
    """
    view = profile.view
    domains = [("domain", domain) for domain, _ in pin.slice.domains]
    payers = [("envelope", share.payer) for share in pin.shares]
    bounded = view.holdings.bounds_of(pin.owner)
    where = [*(("nodes", name) for name in bounded), *domains, *payers]
    late = dict.fromkeys(each for kind in where for each in _late(profile, pin, *kind))
    if late:
        return _first(late)
    if pin.is_choosy:
        return _first(dict.fromkeys((MoveCode.NODES_CHANGED, each) for each in domains))
    if bounded:
        return MoveCause(MoveCode.QUOTA_CHANGED, (("owner", bounded[0]),))
    return MoveCause(MoveCode.BUDGET_CHANGED, tuple(payers))
