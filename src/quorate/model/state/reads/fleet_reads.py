"""The fleet, as a decision may read it: pools, nodes, domains and free slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from quorate.model.events import NodeStatus
from quorate.model.specs import (
    Node,
    Pool,
)
from quorate.model.state.domain_index import DomainIndex
from quorate.model.state.free_slots import Island, IslandKey
from quorate.model.state.records import (
    NodeMark,
    NodeRecord,
    UnwipedNode,
)


class FleetView(Protocol):
    """Pools and nodes."""

    @property
    def pools(self) -> Mapping[str, Pool]:
        """Pools by name; the default pool always exists."""
        ...

    @property
    def nodes(self) -> Mapping[str, NodeRecord]:
        """Nodes by name."""
        ...

    @property
    def node_status(self) -> Mapping[str, NodeStatus]:
        """The nodes that are not ready, with their status."""
        ...

    @property
    def node_marks(self) -> Mapping[str, NodeMark]:
        """Who marked each node that is not ready."""
        ...

    @property
    def unwiped(self) -> Mapping[str, UnwipedNode]:
        """The nodes that a claim has, or has had since the last wipe."""
        ...

    def pool_of(self, node: Node) -> str:
        """Return the pool that ``node`` belongs to."""
        ...

    def domains(self, pool: str, flavor: str) -> DomainIndex:
        """Return the up-to-date index of the domains of ``pool`` with ``flavor``."""
        ...

    def domain_order(self, pool: str, flavor: str) -> list[tuple[int, str]]:
        """Return (-free, domain) for the domains of ``pool`` with ``flavor``, most free first.

        Ties are ordered by key.
        """
        ...

    def island(self, key: IslandKey) -> Island:
        """Return the up-to-date free-slot index of the island under ``key``."""
        ...

    def pool_gpus(self, pool: str) -> int:
        """Return how many GPUs ``pool`` has, in use or not."""
        ...

    def flavor_gpus(self, flavor: str) -> tuple[int, int]:
        """Return how many GPUs of ``flavor`` there are, and how many of them are free."""
        ...

    def flavors(self) -> list[str]:
        """Return the flavors of all nodes, in order."""
        ...
