"""``calc topology``: the domains of one flavor, with all GPUs and free GPUs of each domain."""

from __future__ import annotations

from quorate.calc.world_fleet import fleet_state, read_fleet
from quorate.calc.world_reader import open_world
from quorate.model.specs import DEFAULT_POOL


def topology(world: object) -> dict[str, object]:
    """Return the domains, most free GPUs first, then by key.

    The answer is ``error`` if a node has no domain.
    """
    fleet = read_fleet(*open_world(world, ["nodes"]))
    state = fleet_state(fleet)
    if isinstance(state, str):
        return {"error": True, "message": state}
    domains: list[dict[str, object]] = []
    for free, key in state.domains(DEFAULT_POOL, fleet.flavor).most_free():
        island = state.island(key)
        domains.append(
            {
                "key": key.domain,
                "free": free,
                "total": island.gpus_total,
                "nodes": [node.name for node in island.nodes],
            }
        )
    return {
        "domains": domains,
        "largest": domains[0]["key"] if domains else None,
        "totalFree": -sum(free for free, _ in state.domain_order(DEFAULT_POOL, fleet.flavor)),
    }
