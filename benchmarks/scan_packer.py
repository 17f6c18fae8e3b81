"""Places a gang in the plain way: by scanning every node of the fleet each time.

This is the baseline of ``placement``. Its answers equal those of ``pack_gang`` under ``tight`` for
a gang that may be divided, so both are measured on the same work.
"""

from __future__ import annotations

from quorate.model.events import Slots
from quorate.model.state.free_slots import lowest_slots
from quorate.model.state.state import State

ScanFleet = dict[str, list[tuple[str, int]]]
"""(node, free slots) of each domain."""


def scan_fleet(state: State) -> ScanFleet:
    """Return the free slots of ``state``, without its indexes."""
    found: ScanFleet = {}
    for key, island in state.islands.items():
        nodes = zip(island.nodes, island.free, strict=True)
        found[key.domain] = [(node.name, free) for node, free in nodes]
    return found


def scan_pack(fleet: ScanFleet, gpus: int) -> list[Slots]:
    """Return the slots of a gang, with one entry for each domain."""
    free = {domain: sum(mask.bit_count() for _, mask in nodes) for domain, nodes in fleet.items()}
    holding = [(gpus_free, domain) for domain, gpus_free in free.items() if gpus_free >= gpus]
    if holding:
        return [_pick(fleet[min(holding)[1]], gpus)]
    found = []
    for gpus_free, domain in sorted((-gpus_free, domain) for domain, gpus_free in free.items()):
        here = min(gpus, -gpus_free)
        found.append(_pick(fleet[domain], here))
        gpus -= here
        if not gpus:
            break
    return found


def _pick(nodes: list[tuple[str, int]], gpus: int) -> Slots:
    """Return slots of ``gpus`` GPUs: whole nodes first, the rest on the fullest node that fits."""
    left = sorted(nodes, key=lambda node: (-node[1].bit_count(), node[0]))
    found: list[tuple[str, int]] = []
    while gpus:
        fitting = [node for node in left if node[1].bit_count() >= gpus]
        if not fitting or gpus >= left[0][1].bit_count():
            name, mask = left[0]
        else:
            name, mask = min(fitting, key=lambda node: (node[1].bit_count(), node[0]))
        taken = mask if mask.bit_count() <= gpus else lowest_slots(mask, gpus)
        found.append((name, taken))
        left.remove((name, mask))
        gpus -= taken.bit_count()
    return tuple(found)
