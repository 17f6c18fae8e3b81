"""What a decision may read of the fleet: pools, nodes, domains and free slots."""

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
        """The nodes that a claim uses, or that were not wiped yet after a claim."""
        ...

    def pool_of(self, node: Node) -> str:
        """Return the pool that ``node`` belongs to."""
        ...

    def domains(self, pool: str, flavor: str) -> DomainIndex:
        """Return the index of the domains of ``pool`` with ``flavor``, brought up to date."""
        ...

    def domain_order(self, pool: str, flavor: str) -> list[tuple[int, str]]:
        """Return (-free, domain) for the domains of ``pool`` with ``flavor``, most free first.

        Domains with equally many free GPUs are ordered by their keys.
        """
        ...

    def island(self, key: IslandKey) -> Island:
        """Return the island under ``key``, the index of its free slots, brought up to date."""
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
