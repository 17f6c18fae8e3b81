"""The live state: what the events up to now add up to, indexed for deciding.

There is one owned ``State``; ``model/apply.py`` changes it. ``decide`` reads it through the
``StateView`` protocol and tries things in an ``overlay``, which is a ``State`` whose tables read
through to the one below and are thrown away together.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from heapq import heapify
from typing import Protocol

from quorate.model.events import Tier
from quorate.model.island import Island, IslandKey
from quorate.model.records import (
    CapAccount,
    EnvelopeAccount,
    Lease,
    NodeRecord,
    RunRecord,
)
from quorate.model.selector import matches
from quorate.model.specs import (
    DEFAULT_POOL,
    Budget,
    CapId,
    EnvelopeId,
    Node,
    Owner,
    Pool,
    System,
)
from quorate.model.tables import Table

DomainOrder = list[tuple[int, str]]
"""(-free GPUs, domain) ascending: the most free domain first, then by key."""

Payers = tuple[tuple[EnvelopeId, Tier], ...]
"""Envelopes that may pay for an owner's work in one flavor, in cover order."""



class StateView(Protocol):
    """What a decision may read. Mappings here are not for writing."""

    @property
    def seq(self) -> int: ...
    @property
    def at_ms(self) -> int: ...
    @property
    def ledger_id(self) -> str: ...
    @property
    def public_key(self) -> str: ...
    @property
    def system(self) -> System: ...
    @property
    def pools(self) -> Mapping[str, Pool]: ...
    @property
    def owners(self) -> Mapping[str, Owner]: ...
    @property
    def children(self) -> Mapping[str, tuple[str, ...]]: ...
    @property
    def budgets(self) -> Mapping[str, Budget]: ...
    @property
    def owner_budgets(self) -> Mapping[str, tuple[str, ...]]: ...
    @property
    def lenders(self) -> Mapping[str, tuple[EnvelopeId, ...]]: ...
    @property
    def envelopes(self) -> Mapping[EnvelopeId, EnvelopeAccount]: ...
    @property
    def caps(self) -> Mapping[CapId, CapAccount]: ...
    @property
    def nodes(self) -> Mapping[str, NodeRecord]: ...
    @property
    def runs(self) -> Mapping[str, RunRecord]: ...
    @property
    def pending(self) -> Mapping[str, int]: ...
    @property
    def leases(self) -> Mapping[str, Lease]: ...
    @property
    def node_leases(self) -> Mapping[str, Mapping[str, None]]: ...
    @property
    def owner_leases(self) -> Mapping[str, Mapping[str, None]]: ...
    @property
    def family_cache(self) -> dict[tuple[str, str], Payers]: ...

    def domain_order(self, pool: str, flavor: str) -> Sequence[tuple[int, str]]:
        """Return the domains of ``pool`` with ``flavor``, most free first, then by key."""
        ...

    def island(self, key: IslandKey) -> Island:
        """Return the up-to-date free-slot index under ``key``."""
        ...

    def pool_of(self, node: Node) -> str:
        """Return the pool that ``node`` belongs to."""
        ...

    def holds_due(self) -> list[tuple[int, str]]:
        """Return the heap of (instant, lease) at which holds run out; entries may be outdated."""
        ...

    def overlay(self) -> State:
        """Return a state over this one in which events may be tried."""
        ...


class State:
    """Tables, counters and indexes. Everything here can be rebuilt from the events."""

    __slots__ = (
        "_holds_due",
        "_orders",
        "_pending_nodes",
        "_stale",
        "at_ms",
        "budgets",
        "caps",
        "children",
        "envelopes",
        "family_cache",
        "islands",
        "leases",
        "ledger_id",
        "lenders",
        "node_leases",
        "nodes",
        "owner_budgets",
        "owner_leases",
        "owners",
        "pending",
        "pools",
        "public_key",
        "runs",
        "seq",
        "system",
    )

    def __init__(self) -> None:
        self.seq = 0
        self.at_ms = 0
        self.ledger_id = ""
        self.public_key = ""
        self.system = System()
        self.pools: Table[str, Pool] = Table({DEFAULT_POOL: Pool(name=DEFAULT_POOL)})
        self.owners: Table[str, Owner] = Table()
        self.children: Table[str, tuple[str, ...]] = Table()
        self.budgets: Table[str, Budget] = Table()
        self.owner_budgets: Table[str, tuple[str, ...]] = Table()
        self.lenders: Table[str, tuple[EnvelopeId, ...]] = Table()
        self.envelopes: Table[EnvelopeId, EnvelopeAccount] = Table()
        self.caps: Table[CapId, CapAccount] = Table()
        self.nodes: Table[str, NodeRecord] = Table()
        self.islands: Table[IslandKey, Island] = Table()
        self.runs: Table[str, RunRecord] = Table()
        self.pending: Table[str, int] = Table()
        self.leases: Table[str, Lease] = Table()
        self.node_leases: Table[str, dict[str, None]] = Table()
        self.owner_leases: Table[str, dict[str, None]] = Table()
        self.family_cache: dict[tuple[str, str], Payers] = {}
        self._orders: Table[tuple[str, str], DomainOrder] = Table()
        self._stale: set[IslandKey] = set()
        self._pending_nodes: dict[str, tuple[Node, int]] = {}
        self._holds_due: list[tuple[int, str]] | None = None

    def overlay(self) -> State:
        """Return a state that reads through to this one and keeps its changes to itself.

        Costs the same however large the state is. This state must not change while it is used.
        """
        self.refresh()
        over = State.__new__(State)
        over.seq, over.at_ms = self.seq, self.at_ms
        over.ledger_id, over.public_key, over.system = self.ledger_id, self.public_key, self.system
        for name in _TABLES:
            setattr(over, name, getattr(self, name).layer())
        # Shared until a budget or owner changes in the overlay, which then gets its own (apply.py).
        over.family_cache = self.family_cache
        over._stale = set()
        over._pending_nodes = {}
        over._holds_due = None
        return over

    def mark(self, key: IslandKey, position: int) -> Island:
        """Return the island under ``key`` for changing the slots of the node at ``position``."""
        island = self.islands.own(key)
        island.stale |= 1 << position
        self._stale.add(key)
        return island

    def add_node(self, node: Node, *, free: int) -> None:
        """Place ``node``, with ``free`` slots, into the topology; done in bulk by ``refresh``."""
        self._pending_nodes[node.name] = (node, free)

    def refresh(self) -> None:
        """Bring the placement index up to date with the slots."""
        if self._pending_nodes:
            self._place_pending()
        if not self._stale:
            return
        for key in self._stale:
            island = self.islands.own(key)
            was = island.gpus_free
            island.refresh()
            if island.gpus_free != was:
                order = self._orders.own((key.pool, key.flavor))
                del order[bisect_left(order, (-was, key.domain))]
                insort(order, (-island.gpus_free, key.domain))
        self._stale.clear()

    def domain_order(self, pool: str, flavor: str) -> Sequence[tuple[int, str]]:
        """Return (-free, domain) pairs of ``pool`` and ``flavor``, most free first, then by key."""
        self.refresh()
        return self._orders.get((pool, flavor), ())

    def island(self, key: IslandKey) -> Island:
        """Return the island under ``key``; ``domain_order`` must have been asked first."""
        return self.islands[key]

    def pool_of(self, node: Node) -> str:
        """Return the pool whose selector matches ``node``, else the default pool.

        At most one other pool matches; ``decide`` sees to that.
        """
        labels = dict(node.labels) | node.location
        for name in sorted(self.pools):
            pool = self.pools[name]
            if name != DEFAULT_POOL and matches(pool.selector, labels):
                return name
        return DEFAULT_POOL

    def holds_due(self) -> list[tuple[int, str]]:
        """Return the heap of hold ends, built on first use so that a replay does not pay for it."""
        if self._holds_due is None:
            heap = [(lease.hold_ends_ms, name) for name, lease in self.leases.items()]
            heapify(heap)
            self._holds_due = heap
        return self._holds_due

    @property
    def holds_tracked(self) -> bool:
        """Whether the heap of hold ends is built and has to be kept."""
        return self._holds_due is not None

    def settle_topology(self) -> None:
        """Place nodes added since, so that leases on them can be applied."""
        if self._pending_nodes:
            self._place_pending()

    def _place_pending(self) -> None:
        """Rebuild the islands that nodes join, leave or change in."""
        pending, self._pending_nodes = self._pending_nodes, {}
        touched: dict[IslandKey, dict[str, tuple[Node, int]]] = {}
        for name, (node, free) in pending.items():
            old = self.nodes.get(name)
            if old is not None:
                self._members(touched, old.island).pop(name, None)
            key = IslandKey(self.pool_of(node), node.flavor, node.domain_key)
            self._members(touched, key)[name] = (node, free)
        for key, members in touched.items():
            self._rebuild(key, members)

    def _members(
        self, touched: dict[IslandKey, dict[str, tuple[Node, int]]], key: IslandKey
    ) -> dict[str, tuple[Node, int]]:
        if key not in touched:
            island = self.islands.get(key)
            touched[key] = (
                {}
                if island is None
                else {n.name: (n, f) for n, f in zip(island.nodes, island.free, strict=True)}
            )
        return touched[key]

    def _rebuild(self, key: IslandKey, members: dict[str, tuple[Node, int]]) -> None:
        order_key = (key.pool, key.flavor)
        if order_key not in self._orders:
            self._orders[order_key] = []
        order = self._orders.own(order_key)
        old = self.islands.get(key)
        if old is not None:
            del order[bisect_left(order, (-old.gpus_free, key.domain))]
        self._stale.discard(key)
        if not members:
            if old is not None:
                del self.islands[key]
            return
        names = sorted(members)
        island = Island.build(
            key,
            tuple(members[name][0] for name in names),
            [members[name][1] for name in names],
        )
        self.islands[key] = island
        insort(order, (-island.gpus_free, key.domain))
        for position, node in enumerate(island.nodes):
            self.nodes[node.name] = NodeRecord(node, key, position)


_TABLES = (
    "pools",
    "owners",
    "children",
    "budgets",
    "owner_budgets",
    "lenders",
    "envelopes",
    "caps",
    "nodes",
    "islands",
    "runs",
    "pending",
    "leases",
    "node_leases",
    "owner_leases",
    "_orders",
)


