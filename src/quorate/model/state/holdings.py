"""Holdings: how many nodes and runs an owner with a hard quota and its descendants have.

Holdings count running runs, and the nodes on which an owner has a lease or a filled spare. Each
node counts once. Holdings are updated with each event. To save time, owners are not counted if
neither they nor their ancestors have a hard quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from quorate.model.specs import Owner
from quorate.model.state.tables import Table


class Holdings:
    """Nodes and running runs by owner, for owners with a hard quota."""

    __slots__ = ("_bounds", "_owners", "_uses", "has_bounds", "kept_on", "nodes", "room", "runs")

    def __init__(self, owners: Mapping[str, Owner], *, has_bounds: bool | None = None) -> None:
        self._owners = owners
        self.has_bounds = (
            any(owner.quota.is_hard for owner in owners.values())
            if has_bounds is None
            else has_bounds
        )
        """Whether any owner has a hard quota. Holdings are created anew when owners change."""
        self._bounds: dict[str, tuple[str, ...]] = {}
        self._uses: Table[tuple[str, str], int] = Table()
        self.nodes: Table[str, int] = Table()
        self.runs: Table[str, int] = Table()
        self.room: Table[str, int] = Table()
        """The GPUs on an owner's nodes that the owner does not use: they are free, or others use
        them."""
        self.kept_on: Mapping[tuple[str, str], int] = {}
        """How many nodes a quota allows a new run later on; empty if no plan limits the run's
        start.

        The key is (owner of the quota, node). There is an entry for each node that the owner's
        present work leaves before the new run would end. If the new run uses such a node, the node
        is counted for the present work first, and for the new run when the present work has left
        it. From that instant on, at most this many nodes may be counted for the new run.
        """

    def layer(self, owners: Mapping[str, Owner]) -> Holdings:
        """Return a layer over these holdings; changes in the new layer do not change these."""
        over = Holdings(owners, has_bounds=self.has_bounds)
        over._bounds = self._bounds
        over._uses = self._uses.layer()
        over.nodes = self.nodes.layer()
        over.runs = self.runs.layer()
        over.room = self.room.layer()
        over.kept_on = self.kept_on
        return over

    def bounds_of(self, owner: str) -> tuple[str, ...]:
        """Return those of ``owner`` and its ancestors that have a hard quota."""
        if not self.has_bounds:
            return ()
        known = self._bounds.get(owner)
        if known is None:
            known = self._bounds[owner] = tuple(
                name
                for name in lineage(self._owners, owner)
                if name in self._owners and self._owners[name].quota.is_hard
            )
        return known

    def add_slots(self, owner: str, slots: Iterable[tuple[str, int, int]]) -> None:
        """Count one more lease of ``owner``. ``slots`` has (node, GPUs of the node, taken GPUs)."""
        for name in self.bounds_of(owner):
            for node, size, gpus in slots:
                uses = self._uses.get((name, node), 0)
                self._uses[name, node] = uses + 1
                more = -gpus
                if not uses:
                    self.nodes[name] = self.nodes.get(name, 0) + 1
                    more += size
                self.room[name] = self.room.get(name, 0) + more

    def remove_slots(self, owner: str, slots: Iterable[tuple[str, int, int]]) -> None:
        """Remove one lease of ``owner``, with the same ``slots`` that ``add_slots`` got."""
        for name in self.bounds_of(owner):
            for node, size, gpus in slots:
                uses = self._uses[name, node] - 1
                more = gpus
                if uses:
                    self._uses[name, node] = uses
                else:
                    del self._uses[name, node]
                    self.nodes[name] -= 1
                    more -= size
                self.room[name] += more

    def add_run(self, owner: str, count: int) -> None:
        """Count ``count`` more running runs of ``owner``."""
        for name in self.bounds_of(owner):
            self.runs[name] = self.runs.get(name, 0) + count

    def has(self, owner: str, node: str) -> bool:
        """Return whether an owner with a quota has a lease or a filled spare on ``node``."""
        return (owner, node) in self._uses

    def held(self) -> dict[str, tuple[int, int]]:
        """Return (nodes, running runs) of every owner with a hard quota, if it has any of these."""
        return {
            name: (self.nodes.get(name, 0), self.runs.get(name, 0))
            for name in sorted({*self.nodes, *self.runs})
            if self.nodes.get(name) or self.runs.get(name)
        }


def lineage(owners: Mapping[str, Owner], owner: str) -> list[str]:
    """Return ``owner`` and its ancestors, each once, nearest first."""
    found = {owner: None}
    level = [owner]
    while level:
        above = chain.from_iterable(owners[name].parents for name in level if name in owners)
        level = [name for name in dict.fromkeys(above) if name not in found]
        found.update(dict.fromkeys(level))
    return list(found)
