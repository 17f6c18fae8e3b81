"""The index of the free slots of one flavor in one domain of one pool.

Nodes are numbered in name order. For every count ``c``, the bits of one integer mark the nodes with
exactly ``c`` free slots. So Quorate finds, of all nodes with enough free slots, the node with the
fewest. This takes a handful of integer operations, however many nodes there are. Nodes with equally
many free slots are ordered by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from quorate.model.selector import CLUSTER, DOMAIN, REGION
from quorate.model.specs import Node


class IslandKey(NamedTuple):
    """The pool, flavor and domain whose slots are in an island."""

    pool: str
    flavor: str
    domain: str


@dataclass(slots=True)
class Island:
    """The free slots of each node, and the nodes with each number of free slots.

    ``sizes`` has the nodes of each size. ``withheld`` has the free slots of each node that must not
    take work; in ``free`` these nodes have 0. ``stale`` is true if the index of domains does not
    have the present ``gpus_free`` yet.
    """

    key: IslandKey
    nodes: tuple[Node, ...]
    labels: dict[str, str]
    sizes: dict[int, int]
    free: list[int]
    buckets: list[int]
    gpus_free: int
    gpus_total: int
    withheld: dict[int, int]
    stale: bool = False

    @classmethod
    def build(cls, key: IslandKey, nodes: tuple[Node, ...], free: list[int]) -> Island:
        """Return the island of ``nodes``, in name order, with the free slots ``free`` of each."""
        first = nodes[0]
        labels = {REGION: first.region, CLUSTER: first.cluster, DOMAIN: first.domain}
        sizes: dict[int, int] = {}
        for position, node in enumerate(nodes):
            sizes[node.gpus] = sizes.get(node.gpus, 0) | 1 << position
        buckets = [0] * (max(sizes) + 1)
        for position, mask in enumerate(free):
            buckets[mask.bit_count()] |= 1 << position
        gpus_free = sum(mask.bit_count() for mask in free)
        gpus_total = sum(node.gpus for node in nodes)
        return cls(key, nodes, labels, sizes, free, buckets, gpus_free, gpus_total, {})

    def copy(self) -> Island:
        """Return an independent copy of the island."""
        return Island(
            self.key,
            self.nodes,
            self.labels,
            self.sizes,
            self.free.copy(),
            self.buckets.copy(),
            self.gpus_free,
            self.gpus_total,
            self.withheld.copy(),
            self.stale,
        )

    @property
    def whole(self) -> int:
        """The nodes whose slots are all free, as a bit mask of positions."""
        found = 0
        for size, nodes in self.sizes.items():
            found |= self.buckets[size] & nodes
        return found

    def slots_left(self, position: int) -> int:
        """Return the mask of a node's slots that no lease has, even if they are withheld."""
        return self.withheld.get(position, self.free[position])

    def withhold(self, position: int) -> None:
        """Offer no slots of the node at ``position`` until ``offer`` is called for it."""
        if position not in self.withheld:
            free = self.free[position]
            self.withheld[position] = free
            self.free[position] = 0
            self.move(1 << position, free.bit_count(), 0)

    def offer(self, position: int) -> None:
        """Offer the free slots of the node at ``position`` again."""
        free = self.withheld.pop(position, None)
        if free is not None:
            self.free[position] = free
            self.move(1 << position, 0, free.bit_count())

    def toggle_withheld(self, position: int, mask: int, *, taking: bool) -> int:
        """Take or free slots of a node that takes no new work; return the change of its free slots.

        No new work starts on such a node, but leases on the node may end or change payers.
        """
        left = self.withheld[position]
        assert left & mask == (mask if taking else 0), (self.nodes[position].name, mask, left)
        self.withheld[position] = left ^ mask
        return -mask.bit_count() if taking else mask.bit_count()

    def move(self, nodes: int, was: int, now: int) -> int:
        """Record that the free slots of each of ``nodes`` changed from ``was`` to ``now``.

        Return how many more free slots the island has; negative if it has fewer.
        """
        self.buckets[was] ^= nodes
        self.buckets[now] ^= nodes
        change = (now - was) * nodes.bit_count()
        self.gpus_free += change
        return change


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
