"""Checks of pools and nodes against the state: nodes in two pools, and changes of nodes in use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from quorate.core.commands import Applied
from quorate.core.lifecycle.pool_executors import executor_faults, refused_with_runs
from quorate.model.closed_words import counted
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.selector import matches
from quorate.model.specs import DEFAULT_POOL, Discipline, Node, Pool
from quorate.model.state.state_view import StateView


def check_fleet(view: StateView, specs: Sequence[Applied]) -> Iterator[Refusal]:
    """Yield a refusal for each fault of the pools and nodes in ``specs``.

    Examples of faults are a node in two pools, and a new location of a node that is in use.
    """
    pools = dict(view.pools)
    for spec in specs:
        if isinstance(spec, Pool):
            pools[spec.name] = spec
            yield from _check_discipline(view, spec)
            yield from executor_faults(view, spec)
            if spec.name == DEFAULT_POOL and spec.selector:
                yield Refusal(
                    code=RefusalCode.INVALID,
                    subject=f"Pool/{DEFAULT_POOL}: spec.selector: the default pool has every node "
                    "that no other pool selects",
                    remedy="leave the selector out, or give the pool another name",
                )
    pools_change = any(isinstance(spec, Pool) for spec in specs)
    new = {spec.name: spec for spec in specs if isinstance(spec, Node)}
    # Nodes are sorted by name, because their order in the table may differ after the state was read
    # from a snapshot.
    kept = (view.nodes[name].spec for name in sorted(view.nodes) if name not in new)
    for node in (*new.values(), *(kept if pools_change else ())):
        yield from _check_node(view, pools, node)


def _check_discipline(view: StateView, pool: Pool) -> Iterator[Refusal]:
    """Yield a refusal if a pool with runs changes its discipline, or has rounds but no policy."""
    if pool.discipline is Discipline.ROUNDS and pool.policy is None:
        yield Refusal(
            code=RefusalCode.INVALID,
            subject=f"Pool/{pool.name}: spec.policy: is required when discipline is rounds",
            remedy="name one: quorate policy list",
        )
    old = view.pools.get(pool.name)
    was = Discipline.BIND if old is None else old.discipline
    if was is not pool.discipline:
        change = f"spec.discipline: cannot change from {was} to {pool.discipline}"
        yield from refused_with_runs(view, pool, change)


def _check_node(view: StateView, pools: Mapping[str, Pool], node: Node) -> Iterator[Refusal]:
    labels = dict(node.labels) | node.location
    chosen = [
        name
        for name, pool in sorted(pools.items())
        if name != DEFAULT_POOL and matches(pool.selector, labels)
    ]
    if len(chosen) > 1:
        yield Refusal(
            code=RefusalCode.CONFLICT,
            subject=f"Node/{node.name}: pools {chosen[0]!r} and {chosen[1]!r} both select it",
            remedy="a node is in exactly one pool: narrow one of the selectors",
        )
    held = view.node_leases.get(node.name)
    if not held:
        return
    old = view.nodes[node.name]
    moved = (old.spec.flavor, old.spec.domain_key, old.spec.rack, old.island.pool) != (
        node.flavor,
        node.domain_key,
        node.rack,
        chosen[0] if chosen else DEFAULT_POOL,
    )
    unwiped = view.unwiped.get(node.name)
    if unwiped is not None and unwiped.leases and node.gpus != old.spec.gpus:
        yield Refusal(
            code=RefusalCode.CONFLICT,
            subject=(
                f"Node/{node.name}: claim {unwiped.claim!r} has the whole node, so its number of "
                "GPUs cannot change"
            ),
            remedy=f"wait until the claim ends, or end it early: quorate release {unwiped.claim}",
        )
    elif moved or node.gpus < old.spec.gpus:
        yield Refusal(
            code=RefusalCode.CONFLICT,
            subject=f"Node/{node.name}: has {counted(len(held), 'open lease')}, so its flavor, "
            "location and pool cannot change, and it cannot lose GPUs",
            remedy=f"end the runs on it first: quorate describe node {node.name}",
        )
