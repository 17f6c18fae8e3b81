"""Records the last change of each object, so that a test can check the causes of moved starts."""

from __future__ import annotations

from collections.abc import Iterator

from quorate.model.events import (
    BudgetApplied,
    BudgetRemoved,
    Event,
    NodeApplied,
    NodeMarked,
    NodeRemoved,
    NodesClaimed,
    NodeWiped,
    OwnerApplied,
    PoolApplied,
    PoolRemoved,
)
from quorate.model.specs import Budget, Node, Owner
from quorate.model.state.state_view import StateView

Named = tuple[str, str]
"""The kind and the name of an object; the kind "family" is for the parents of the named owner."""


class Changes:
    """Reads every event with its number. If an object is applied unchanged, that is no change."""

    def __init__(self) -> None:
        self._last: dict[Named, int] = {}
        self._nodes: dict[str, Node] = {}
        self._owners: dict[str, Owner] = {}
        self._budgets: dict[str, Budget] = {}

    def enter(self, number: int, event: Event) -> None:
        """Record which objects the event with ``number`` changes."""
        for each in self._changed_by(event):
            self._last[each] = number

    def is_since(self, number: int, what: Named, owner: str, view: StateView) -> bool:
        """Return whether the object ``what`` has changed since event ``number``.

        A payer also counts as changed if the parents of its owner have changed, or the parents of
        ``owner``, who owns the run whose start moved. A quota also counts as changed if the parents
        of any owner have changed.
        """
        kind, name = what
        found = {what}
        if kind == "envelope":
            payer = next(a.owner for key, a in view.envelopes.items() if key == name)
            found |= {("family", owner), ("family", payer)}
        elif kind == "owner":
            found |= {("family", other) for other in view.owners}
        return any(self._last.get(each, -1) > number for each in found)

    def _changed_by(self, event: Event) -> Iterator[Named]:
        match event:
            case NodeApplied():
                yield from self._node_applied(event.node)
            case NodeMarked() | NodeRemoved() | NodeWiped():
                yield from self._around(event.node)
            case NodesClaimed():
                for node in event.nodes:
                    yield from self._around(node)
            case OwnerApplied():
                yield from self._owner_applied(event.owner)
            case PoolApplied():
                yield "pool", event.pool.name
            case PoolRemoved():
                yield "pool", event.pool
            case BudgetApplied():
                yield from self._budget_applied(event.budget)
            case BudgetRemoved():
                yield from self._budget_removed(event.budget)
            case _:
                pass

    def _node_applied(self, node: Node) -> Iterator[Named]:
        if self._nodes.get(node.name) != node:
            yield from self._around(node.name)
            self._nodes[node.name] = node
            yield from self._around(node.name)

    def _around(self, name: str) -> Iterator[Named]:
        """Yield a node, and its domain."""
        yield "node", name
        if name in self._nodes:
            yield "domain", self._nodes[name].domain_key

    def _owner_applied(self, owner: Owner) -> Iterator[Named]:
        before = self._owners.get(owner.name, Owner(name=owner.name))
        self._owners[owner.name] = owner
        if before.quota != owner.quota:
            yield "owner", owner.name
        if before.parents != owner.parents:
            yield "family", owner.name

    def _budget_removed(self, name: str) -> Iterator[Named]:
        before = self._budgets.pop(name)
        yield from (("envelope", f"{name}/{line.name}") for line in before.envelopes)
        yield from (("cap", f"{name}/{cap.name}") for cap in before.caps)

    def _budget_applied(self, budget: Budget) -> Iterator[Named]:
        before = self._budgets.get(budget.name)
        self._budgets[budget.name] = budget
        old = {} if before is None else {line.name: line for line in before.envelopes}
        new = {line.name: line for line in budget.envelopes}
        for name in {*old, *new}:
            if old.get(name) != new.get(name):
                yield "envelope", f"{budget.name}/{name}"
        if before is None or before.caps != budget.caps or old != new:
            caps = (*budget.caps, *(() if before is None else before.caps))
            yield from (("cap", f"{budget.name}/{cap.name}") for cap in caps)
