"""The free-slot index of one flavor in one domain of one pool.

Nodes are numbered in name order. For every count ``c`` the index keeps, as the bits of one
integer, the nodes with exactly ``c`` free slots, so "the first node by name with the fewest free
slots that still holds r" is a handful of integer operations however many nodes there are.

The fold only records which slots are free and marks the node; ``refresh`` brings the index up to
date before it is read. A replay of a million events therefore pays for the index once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from quorate.model.specs import Node


class IslandKey(NamedTuple):
    """Which slots an island holds."""

    pool: str
    flavor: str
    domain: str


@dataclass(slots=True)
class Island:
    """Free slots by node, and nodes by free count. ``cordoned`` bits mark nodes not to be used."""

    key: IslandKey
    nodes: tuple[Node, ...]
    free: list[int]
    counts: list[int]
    buckets: list[int]
    whole: int
    gpus_free: int
    gpus_total: int
    stale: int

    @classmethod
    def build(cls, key: IslandKey, nodes: tuple[Node, ...], free: list[int]) -> Island:
        """Return the island of ``nodes`` (in name order) whose free slots are ``free``."""
        sizes = [node.gpus for node in nodes]
        island = cls(
            key=key,
            nodes=nodes,
            free=free,
            counts=[mask.bit_count() for mask in free],
            buckets=[0] * (max(sizes, default=0) + 1),
            whole=0,
            gpus_free=0,
            gpus_total=sum(sizes),
            stale=0,
        )
        for position, count in enumerate(island.counts):
            island.buckets[count] |= 1 << position
            if count == sizes[position]:
                island.whole |= 1 << position
        island.gpus_free = sum(island.counts)
        return island

    def copy(self) -> Island:
        """Return an island that may be changed without changing this one."""
        return Island(
            self.key,
            self.nodes,
            self.free.copy(),
            self.counts.copy(),
            self.buckets.copy(),
            self.whole,
            self.gpus_free,
            self.gpus_total,
            self.stale,
        )

    def refresh(self) -> None:
        """Bring the index up to date with ``free`` for the nodes marked stale."""
        stale = self.stale
        free, counts, buckets, nodes = self.free, self.counts, self.buckets, self.nodes
        while stale:
            bit = stale & -stale
            stale ^= bit
            position = bit.bit_length() - 1
            was = counts[position]
            now = free[position].bit_count()
            if was == now:
                continue
            counts[position] = now
            buckets[was] ^= bit
            buckets[now] ^= bit
            self.gpus_free += now - was
            size = nodes[position].gpus
            if now == size or was == size:
                self.whole ^= bit
        self.stale = 0


def all_slots(gpus: int) -> int:
    """Return the mask of every slot of a node with ``gpus`` GPUs."""
    return (1 << gpus) - 1


def lowest_slots(free: int, gpus: int) -> int:
    """Return the mask of the ``gpus`` lowest free slots of ``free``."""
    assert free.bit_count() >= gpus, (free, gpus)
    rest = free
    for _ in range(gpus):
        rest &= rest - 1
    return free ^ rest


def ordinals(mask: int) -> tuple[int, ...]:
    """Return the slot ordinals in ``mask``, ascending."""
    found = []
    while mask:
        bit = mask & -mask
        found.append(bit.bit_length() - 1)
        mask ^= bit
    return tuple(found)
