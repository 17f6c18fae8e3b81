"""The state of the fleet: pools, nodes and their slots, indexed for packing."""

from __future__ import annotations

from quorate.model.events import NodeStatus, Slots
from quorate.model.selector import matches
from quorate.model.specs import (
    DEFAULT_POOL,
    Node,
    Pool,
)
from quorate.model.state.domain_index import DomainIndex
from quorate.model.state.free_slots import Island, IslandKey, all_slots
from quorate.model.state.records import (
    Lease,
    NodeMark,
    NodeRecord,
    UnwipedNode,
)
from quorate.model.state.state_plans import PlanState
from quorate.model.state.tables import Table


class FleetState(PlanState):
    """Nodes by pool, flavor and domain, and which of their slots are free."""

    __slots__ = (
        "_domains",
        "_nodes",
        "_pending_free",
        "_pending_nodes",
        "_stale",
        "islands",
        "node_marks",
        "node_status",
        "pools",
        "unwiped",
    )

    def __init__(self) -> None:
        super().__init__()
        self.pools: Table[str, Pool] = Table({DEFAULT_POOL: Pool(name=DEFAULT_POOL)})
        self._nodes: Table[str, NodeRecord] = Table()
        self.node_status: Table[str, NodeStatus] = Table()
        self.node_marks: Table[str, NodeMark] = Table()
        self.unwiped: Table[str, UnwipedNode] = Table()
        self.islands: Table[IslandKey, Island] = Table()
        self._domains: Table[tuple[str, str], DomainIndex] = Table()
        # The islands that changed since the last refresh, with the number of free GPUs that the
        # index of domains still has for each of them.
        self._stale: list[tuple[IslandKey, int]] = []
        # Nodes that ``refresh`` will put into an island (None: will remove), and their free slots.
        self._pending_nodes: dict[str, Node | None] = {}
        self._pending_free: dict[str, int] = {}

    @property
    def nodes(self) -> Table[str, NodeRecord]:
        """Nodes by name, including nodes that were just added."""
        if self._pending_nodes:
            self._place_pending()
        return self._nodes

    def taken_slots(self, name: str) -> int:
        """Return the mask of a node's taken slots; 0 for an unknown node.

        This call does not place the nodes that wait to be placed.
        """
        if name in self._pending_nodes:
            node = self._pending_nodes[name]
            return 0 if node is None else all_slots(node.gpus) ^ self._pending_free[name]
        record = self._nodes.get(name)
        if record is None:
            return 0
        return all_slots(record.spec.gpus) ^ self.islands[record.island].slots_left(record.position)

    def slots_left(self, name: str) -> int:
        """Return the mask of a node's slots that no lease has, even if they are withheld."""
        record = self.nodes[name]
        return self.islands[record.island].slots_left(record.position)

    def pool_of(self, node: Node) -> str:
        """Return the pool whose selector matches ``node``, else the default pool.

        ``decide`` ensures that at most one pool besides the default pool matches a node.
        """
        labels = dict(node.labels) | node.location
        for name in sorted(self.pools):
            pool = self.pools[name]
            if name != DEFAULT_POOL and matches(pool.selector, labels):
                return name
        return DEFAULT_POOL

    def add_node(self, node: Node, *, free: int) -> None:
        """Add ``node``, with ``free`` slots; ``refresh`` places all added nodes in the index."""
        self.ends_changed()
        self.ranks_changed()
        self._pending_nodes[node.name] = node
        self._pending_free[node.name] = free

    def mark_node(self, name: str, status: NodeStatus, mark: NodeMark) -> None:
        """Set a node's status and who set it; offer or withhold its slots as the status says."""
        self.ends_changed()
        record = self.nodes[name]
        island = self._own_island(record.island)
        if status is NodeStatus.READY:
            self.node_status.pop(name, None)
            self.node_marks.pop(name, None)
            if name not in self.unwiped:
                island.offer(record.position)
        else:
            self.node_status[name] = status
            self.node_marks[name] = mark
            island.withhold(record.position)

    def occupy(self, slots: Slots) -> int:
        """Take ``slots``, which are all free, out of the index; return the number of slots.

        A node that is not placed yet is placed later, with the slots that are free then. So a
        replay builds no index of slots, which it does not need; the index is built after the
        replay.
        """
        if not self._pending_nodes:
            return -self._toggle(slots, taking=True)
        pending, total = self._pending_free, 0
        for node, mask in slots:
            free = pending.get(node)
            if free is None:
                total -= self._toggle_one(node, mask, taking=True)
                continue
            assert free & mask == mask, (node, mask, free)
            pending[node] = free ^ mask
            total += mask.bit_count()
        return total

    def vacate(self, slots: Slots) -> int:
        """Put ``slots``, which are all taken, back into the index; return the number of slots."""
        if not self._pending_nodes:
            return self._toggle(slots, taking=False)
        pending, total = self._pending_free, 0
        for node, mask in slots:
            free = pending.get(node)
            if free is None:
                total += self._toggle_one(node, mask, taking=False)
                continue
            assert not free & mask, (node, mask, free)
            pending[node] = free | mask
            total += mask.bit_count()
        return total

    def remove_node(self, name: str) -> None:
        """Remove a node without leases; ``refresh`` takes all removed nodes out of the index."""
        self.ends_changed()
        self.ranks_changed()
        self.node_status.pop(name, None)
        self.node_marks.pop(name, None)
        self._pending_nodes[name] = None
        self._pending_free.pop(name, None)

    def refresh(self) -> None:
        """Bring the placement index up to date with the slots."""
        if self._pending_nodes:
            self._place_pending()
        if self._stale:
            self._flush_stale()

    def domains(self, pool: str, flavor: str) -> DomainIndex:
        """Return the index of the domains of ``pool`` with ``flavor``, brought up to date."""
        self.refresh()
        return self._domains.get((pool, flavor), _NO_DOMAINS)

    def domain_order(self, pool: str, flavor: str) -> list[tuple[int, str]]:
        """Return (-free, domain) for the domains of ``pool`` with ``flavor``, most free first.

        Ties are ordered by key.
        """
        return [(-free, key.domain) for free, key in self.domains(pool, flavor).most_free()]

    def island(self, key: IslandKey) -> Island:
        """Return the island under ``key``; ``domains`` must have been called before."""
        return self.islands[key]

    def pool_gpus(self, pool: str) -> int:
        """Return how many GPUs ``pool`` has, in use or not."""
        self.refresh()
        indexes = [index for (name, _), index in self._domains.items() if name == pool]
        return sum(index.gpus_total for index in indexes)

    def flavor_gpus(self, flavor: str) -> tuple[int, int]:
        """Return how many GPUs of ``flavor`` there are, and how many of them are free."""
        self.refresh()
        indexes = [index for (_, kind), index in self._domains.items() if kind == flavor]
        return sum(index.gpus_total for index in indexes), sum(i.gpus_free for i in indexes)

    def flavors(self) -> list[str]:
        """Return the flavors of all nodes, in order."""
        self.refresh()
        return sorted({flavor for (_, flavor), index in self._domains.items() if index.keys})

    def end_changed(self, lease: Lease) -> None:
        """Mark the cached expected end of ``lease`` as outdated, by island and by payer."""
        ends, index = self.ends_cache, self.room_index
        if ends.is_asked or index.bounds or index.plan is not None:
            fact, nodes = lease.fact, self._nodes
            slots, payer, name = fact.slots, fact.payer, fact.lease
            if len(slots) == 1:
                key = nodes[slots[0][0]].island
                ends.islands.change(key, name)
                index.island_changed(key)
            else:
                for key in {nodes[node].island for node, _ in slots}:
                    ends.islands.change(key, name)
                    index.island_changed(key)
            ends.payers.change(payer, name)
            index.payer_changed(payer)

    def _toggle(self, slots: Slots, *, taking: bool) -> int:
        """Take ``slots``, or free them; return the change of the number of free GPUs.

        Nodes that change alike are moved in the index together. Most nodes change as a whole, so
        this saves time.
        """
        if len(slots) == 1:
            return self._toggle_one(*slots[0], taking=taking)
        nodes, total = self._nodes, 0
        key = nodes[slots[0][0]].island
        island = self._own_island(key)
        masks = island.free
        was = now = bits = 0
        for node, mask in slots:
            record = nodes[node]
            if record.island is not key:
                if bits:
                    total += island.move(bits, was, now)
                key, bits = record.island, 0
                island = self._own_island(key)
                masks = island.free
            position = record.position
            if position in island.withheld:
                total += island.toggle_withheld(position, mask, taking=taking)
                continue
            free = masks[position]
            assert free & mask == (mask if taking else 0), (node, mask, free)
            left = free ^ mask
            masks[position] = left
            before, after = free.bit_count(), left.bit_count()
            if before != was or after != now:
                if bits:
                    total += island.move(bits, was, now)
                    bits = 0
                was, now = before, after
            bits |= 1 << position
        return total + island.move(bits, was, now) if bits else total

    def _toggle_one(self, node: str, mask: int, *, taking: bool) -> int:
        """Take the slots ``mask`` of ``node``, or free them: a fast way for leases on one node."""
        record = self._nodes[node]
        island = self._own_island(record.island)
        position = record.position
        if position in island.withheld:
            return island.toggle_withheld(position, mask, taking=taking)
        free = island.free[position]
        assert free & mask == (mask if taking else 0), (node, mask, free)
        left = free ^ mask
        island.free[position] = left
        return island.move(1 << position, free.bit_count(), left.bit_count())

    def _own_island(self, key: IslandKey) -> Island:
        """Return the island under ``key`` for changing.

        The caller may change how many GPUs are free, so the number in the index of domains is
        marked as outdated.
        """
        island = self.islands.own(key)
        self.room_index.island_changed(key)
        if not island.stale:
            island.stale = True
            self._stale.append((key, island.gpus_free))
        return island

    def _flush_stale(self) -> None:
        for key, was in self._stale:
            island = self.islands[key]
            island.stale = False
            now = island.gpus_free
            if now != was:
                self._domains.own((key.pool, key.flavor)).move(key.domain, was=was, now=now)
        self._stale.clear()

    def _place_pending(self) -> None:
        """Rebuild the islands in which nodes were added, removed or changed."""
        pending, self._pending_nodes = self._pending_nodes, {}
        pending_free, self._pending_free = self._pending_free, {}
        self._flush_stale()
        touched: dict[IslandKey, dict[str, tuple[Node, int]]] = {}
        for name, node in pending.items():
            old = self._nodes.get(name)
            if old is not None:
                self._members(touched, old.island).pop(name, None)
            if node is None:
                self._nodes.pop(name, None)
                continue
            key = IslandKey(self.pool_of(node), node.flavor, node.domain_key)
            self._members(touched, key)[name] = (node, pending_free[name])
        for key, members in touched.items():
            self._rebuild(key, members)
        for pool, flavor in {(key.pool, key.flavor) for key in touched}:
            old_index = self._domains.get((pool, flavor), _NO_DOMAINS)
            keys = {
                key
                for key in (*old_index.keys, *touched)
                if (key.pool, key.flavor) == (pool, flavor)
            }
            there = {key: self.islands[key] for key in keys if key in self.islands}
            self._domains[pool, flavor] = DomainIndex.build(
                {key: island.gpus_free for key, island in there.items()},
                gpus_total=sum(island.gpus_total for island in there.values()),
            )

    def _members(
        self, touched: dict[IslandKey, dict[str, tuple[Node, int]]], key: IslandKey
    ) -> dict[str, tuple[Node, int]]:
        if key not in touched:
            island = self.islands.get(key)
            touched[key] = (
                {}
                if island is None
                else {n.name: (n, island.slots_left(p)) for p, n in enumerate(island.nodes)}
            )
        return touched[key]

    def _rebuild(self, key: IslandKey, members: dict[str, tuple[Node, int]]) -> None:
        """Replace the island under ``key`` by an island with exactly the nodes ``members``."""
        if not members:
            self.islands.pop(key, None)
            return
        names = sorted(members)
        island = Island.build(
            key,
            tuple(members[name][0] for name in names),
            [members[name][1] for name in names],
        )
        self.islands[key] = island
        for position, node in enumerate(island.nodes):
            if node.name in self.node_status or node.name in self.unwiped:
                island.withhold(position)
            self._nodes[node.name] = NodeRecord(node, key, position)


_NO_DOMAINS = DomainIndex.build({}, gpus_total=0)
