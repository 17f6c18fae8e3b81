"""Computes how many nodes a hard quota charges for a planned start, and the fewest it needs.

A planned start states a number of GPUs in a domain. Its nodes are not known before the run starts.
If runs share nodes, each GPU may be on a different node. So the plan charges the quotas in one of
two ways. It charges many nodes for the start. Or it charges few nodes, and keeps additional GPUs of
the domain free when the run starts. With these additional GPUs free, a few nodes have room for the
run, however the free GPUs are spread over the nodes.

A start becomes firm if the quotas allow the nodes that are charged for it, and if its domains have
the additional GPUs. A firm start stays firm as long as the quotas allow the fewest nodes that it
needs. So no firm start moves when nodes are added to a domain, although its run may then take more
nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from quorate.core.profile.plan_entry import Entry
from quorate.core.profile.profile import Profile
from quorate.model.state.free_slots import IslandKey
from quorate.model.state.state_view import StateView

NodeUses = Mapping[str, Sequence[tuple[int, int]]]
"""For each node, the (expected end, slots) pairs of the leases and filled spares on it."""


def counted(view: StateView, entry: Entry) -> Entry:
    """Return ``entry`` with the nodes that quotas charge for it, and the GPUs that it keeps free.

    If the pool gives whole nodes, the quotas charge as many nodes as the entry would take if all
    nodes had the smallest size. If runs share nodes, the quotas charge one node per GPU, up to all
    nodes of the domain. But no more than half of the nodes that the quotas allow are charged,
    unless the run needs more nodes in any case.
    """
    limits = [limit for _, limit in _limits(view, entry.owner)]
    if not limits:
        return entry
    whole, domains = view.pools[entry.pool].whole_nodes, entry.slice.domains
    nodes, keeps = 0, list[tuple[str, int]]()
    for domain, gpus in domains:
        key = IslandKey(entry.pool, entry.slice.flavor, domain)
        if domain not in view.domains(key.pool, key.flavor).numbers:
            continue
        sizes = {size: bits.bit_count() for size, bits in view.island(key).sizes.items()}
        if whole:
            nodes += min(-(-gpus // min(sizes)), sum(sizes.values()))
            continue
        fewest, most = -(-gpus // max(sizes)), min(gpus, sum(sizes.values()))
        count = max(fewest, min(most, min(limits) // 2 // len(domains)))
        nodes += count
        more = 0 if count >= most else gpus_for(gpus, count, sizes) - gpus
        if more > 0:
            keeps.append((domain, more))
    return replace(entry, nodes=nodes, keeps=tuple(keeps))


def gpus_for(gpus: int, nodes: int, sizes: Mapping[int, int]) -> int:
    """Return how many GPUs of a domain must be free for a run of ``gpus`` on ``nodes`` nodes.

    ``sizes`` is the number of the domain's nodes by size. The result is enough for every
    way in which the free GPUs may be spread over the nodes.
    """
    # Free GPUs that are spread evenly are the worst case. If one GPU fewer than the result is free,
    # and the free GPUs are spread evenly, any ``nodes`` nodes have fewer than ``gpus`` of them.
    level, more = divmod(gpus - 1, nodes)
    even = sum(min(size, level) * count for size, count in sizes.items())
    return even + min(more, sum(count for size, count in sizes.items() if size > level)) + 1


def promised(profile: Profile, entry: Entry) -> Entry | None:
    """Return ``entry`` with its nodes counted if it can become firm, else None.

    ``entry`` must not be in the profile. ``entry`` can become firm under two conditions:

    - From its start to its end, the quotas allow the nodes that are charged for ``entry``.
    - At its start, its domains have enough GPUs for the run, for the GPUs that ``entry`` keeps
      free, and for the needs of other firm starts.
    """
    view, start_ms = profile.view, entry.start_ms
    if not view.holdings.has_bounds:
        return entry
    entry_counted = counted(view, entry)
    for name, _ in _limits(view, entry.owner):
        if profile.headroom.nodes(name).least(start_ms, entry.end_ms) < entry_counted.nodes:
            return None
    if entry_counted.keeps:
        needed = dict(entry_counted.slice.domains)
        with profile.opened():
            for domain, more in entry_counted.keeps:
                room = profile.room(IslandKey(entry.pool, entry.slice.flavor, domain))
                if room.value(start_ms) < needed[domain] + more:
                    return None
    return entry_counted


def kept_from_ms(profile: Profile, entry: Entry) -> int | None:
    """Return the first instant at which ``entry`` may fit its domains and become firm, or None.

    The caller has found that the entry cannot become firm at its own start.
    """
    found = counted(profile.view, entry)
    at_ms: int | None = entry.start_ms
    for name, _ in _limits(profile.view, entry.owner):
        if at_ms is not None:
            lasts_ms = entry.end_ms - entry.start_ms
            at_ms = profile.headroom.nodes(name).earliest(found.nodes, lasts_ms, at_ms)
    needed = dict(found.slice.domains)
    with profile.opened():
        for domain, more in found.keeps:
            if at_ms is not None:
                room = profile.room(IslandKey(entry.pool, entry.slice.flavor, domain))
                at_ms = room.earliest(needed[domain] + more, 1, at_ms)
    return at_ms


def _limits(view: StateView, owner: str) -> Iterator[tuple[str, int]]:
    """Yield the quotas of nodes that bound ``owner``, as (owner of the quota, nodes)."""
    for name in view.holdings.bounds_of(owner):
        limit = view.owners[name].quota.nodes_max
        if limit is not None:
            yield name, limit


def nodes_short(
    profile: Profile, pin: Entry, owner: str, *, without: AbstractSet[str] = frozenset()
) -> int:
    """Return by how many nodes the start ``pin`` and the entries in the profile exceed a quota.

    The quota is that of ``owner``.

    The result is for the instant at which the most nodes are missing. For each entry, the fewest
    nodes that it needs are counted. Starts by a conflict are not counted, because they take only
    room that other starts leave. The leases in ``without`` are treated as ended, and so are the
    filled spares of their runs.
    """
    view = profile.view
    beside = [
        entry
        for entry in profile.bounded.values()
        if entry.run != pin.run
        and not entry.by_conflict
        and entry.start_ms < pin.end_ms
        and pin.start_ms < entry.end_ms
        and owner in view.holdings.bounds_of(entry.owner)
    ]
    instants = {max(pin.start_ms, entry.start_ms) for entry in beside} | {pin.start_ms}
    uses = profile.headroom.node_uses(owner, without=without)
    return max(
        _short_at(profile, owner, [pin, *beside], at_ms, uses)
        - (_left_sooner(profile, owner, at_ms, uses) if without else 0)
        for at_ms in instants
    )


def _left_sooner(profile: Profile, owner: str, at_ms: int, uses: NodeUses) -> int:
    """Return how many nodes ``owner`` is expected to hold at ``at_ms``.

    Nodes that are in use at that instant according to ``uses`` are not counted.
    """
    return sum(
        max(end_ms for end_ms, _ in ends) > at_ms
        and not any(end_ms > at_ms for end_ms, _ in uses.get(node, ()))
        for node, ends in profile.headroom.node_uses(owner).items()
    )


def _short_at(
    profile: Profile, owner: str, entries: list[Entry], at_ms: int, uses: NodeUses
) -> int:
    view, wanted = profile.view, dict[IslandKey, int]()
    for entry in entries:
        if entry.start_ms <= at_ms < entry.end_ms:
            for domain, gpus in entry.slice.domains:
                key = IslandKey(entry.pool, entry.slice.flavor, domain)
                wanted[key] = wanted.get(key, 0) + gpus
    nodes = 0
    for key, gpus in wanted.items():
        if key.domain in view.domains(key.pool, key.flavor).numbers:
            own = 0 if view.pools[key.pool].whole_nodes else _own_gpus(view, uses, key, at_ms)
            nodes += -(-max(0, gpus - own) // max(view.island(key).sizes))
    return nodes - profile.headroom.nodes(owner).unplanned(at_ms)


def _own_gpus(view: StateView, uses: NodeUses, key: IslandKey, at_ms: int) -> int:
    """Return how many GPUs of an island are free at ``at_ms`` on nodes that are in use then."""
    found = 0
    for node, ends in uses.items():
        known = view.nodes[node]
        if known.island == key and node not in view.node_status:
            used = 0
            for end_ms, mask in ends:
                used |= mask if end_ms > at_ms else 0
            found += known.spec.gpus - used.bit_count() if used else 0
    return found
