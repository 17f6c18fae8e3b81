"""The headroom of hard quotas over time: how many more runs and nodes an owner may have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from quorate.core.admission.quota_holders import family_of
from quorate.core.profile.expected_returns import ExpectedReturns
from quorate.core.profile.resource import FOREVER_MS, Resource, curve_of
from quorate.model.specs import Run
from quorate.model.state.state_view import StateView


def is_end_known(run: Run) -> bool:
    """Return whether it is known when the leases of ``run`` stop counting in hard quotas.

    The time is not known for a claim, because it is not known when its nodes will be wiped. The
    time is not known for a run in rounds either. Such a run may keep its nodes in the next round,
    and the quota of runs counts it until the run ends.
    """
    return not run.sensitive and run.rounds is None


class QuotaHeadroom:
    """The headroom of owners in one profile. Each headroom is computed when it is first read."""

    __slots__ = ("_node_ends", "_nodes", "_returns", "_runs", "_view")

    def __init__(self, view: StateView, returns: ExpectedReturns) -> None:
        self._view = view
        self._returns = returns
        self._runs: dict[str, Resource] = {}
        self._nodes: dict[str, Resource] = {}
        self._node_ends: dict[str, dict[str, int]] = {}

    def runs(self, owner: str) -> Resource:
        """Return how many more runs may run under ``owner``, which has a limit on runs."""
        resource = self._runs.get(owner)
        if resource is None:
            view, limit = self._view, self._view.owners[owner].quota.concurrent_runs_max
            assert limit is not None, owner
            last_ms = dict[str, int]()
            for name in self._family_leases(owner):
                run = view.leases[name].fact.run
                last_ms[run] = max(last_ms.get(run, 0), self._returns.lease_end_ms(name))
            # Claims do not count as runs.
            gains = ((end, 1) for run, end in last_ms.items() if is_end_known(view.runs[run].spec))
            free = limit - view.holdings.runs.get(owner, 0)
            resource = self._runs[owner] = Resource(free, curve_of(gains))
        return resource

    def nodes(self, owner: str) -> Resource:
        """Return how many more nodes may be held under ``owner``, which has a limit on nodes."""
        resource = self._nodes.get(owner)
        if resource is None:
            view, limit = self._view, self._view.owners[owner].quota.nodes_max
            assert limit is not None, owner
            uses = self.node_uses(owner).items()
            until = {node: max(end_ms for end_ms, _ in ends) for node, ends in uses}
            free = limit - view.holdings.nodes.get(owner, 0)
            gains = ((end_ms, 1) for end_ms in until.values() if end_ms < FOREVER_MS)
            resource = self._nodes[owner] = Resource(free, curve_of(gains))
            self._node_ends[owner] = until
        return resource

    def of(self, owner: str) -> list[Resource]:
        """Return the headroom of every hard quota that bounds the starts of ``owner``."""
        view, found = self._view, list[Resource]()
        for name in view.holdings.bounds_of(owner):
            quota = view.owners[name].quota
            if quota.concurrent_runs_max is not None:
                found.append(self.runs(name))
            if quota.nodes_max is not None:
                found.append(self.nodes(name))
        return found

    def node_uses(
        self, owner: str, *, without: AbstractSet[str] = frozenset()
    ) -> dict[str, list[tuple[int, int]]]:
        """Return the expected ends and slots of leases and filled spares under ``owner``, by node.

        Leases in ``without``, and the filled spares of their runs, are left out.
        """
        view, found = self._view, dict[str, list[tuple[int, int]]]()
        for name in self._family_leases(owner):
            if name in without:
                continue
            lease = view.leases[name]
            is_known = is_end_known(view.runs[lease.fact.run].spec)
            end_ms = self._returns.lease_end_ms(name) if is_known else FOREVER_MS
            for node, mask in lease.fact.slots:
                found.setdefault(node, []).append((end_ms, mask))
        family = family_of(view, owner) if view.pledges else ()
        for pledge in view.pledges.values():
            record = view.runs[pledge.run]
            if record.spec.owner in family and without.isdisjoint(record.leases):
                end_ms = self._returns.pledge_over_ms(pledge)
                for node, mask in pledge.slots:
                    found.setdefault(node, []).append((end_ms, mask))
        return found

    def hold_nodes(self, owner: str, nodes: Iterable[str], from_ms: int, until_ms: int) -> None:
        """Count ``nodes``, on which work of ``owner`` has just begun, in the quotas of ``owner``.

        If other work under the same quota is on a node, the node is counted only from the expected
        end of that work on.
        """
        holdings, named = self._view.holdings, tuple(nodes)
        for name in holdings.bounds_of(owner):
            if self._view.owners[name].quota.nodes_max is None:
                continue
            resource, ends = self.nodes(name), self._node_ends[name]
            for node in named:
                # It is not known when a claim gives back its nodes.
                kept_ms = FOREVER_MS if holdings.has(name, node) else from_ms
                held_ms = ends.get(node, kept_ms)
                resource.take(max(from_ms, held_ms), until_ms, 1)
                ends[node] = max(held_ms, until_ms)

    def left_on(self, owner: str, from_ms: int, until_ms: int) -> Iterator[tuple[str, int]]:
        """Yield the nodes whose work under ``owner`` ends before ``until_ms``, and the headroom.

        If a run uses one of these nodes until ``until_ms``, the quota of ``owner`` charges the node
        to this run after the present work has ended. The headroom is how many more nodes the quota
        allows at all times from the end of the present work until ``until_ms``. Nothing is yielded
        if planned starts use nothing of the quota.
        """
        resource = self._nodes.get(owner)
        if resource is not None and resource.steps_ms:
            for node, end_ms in self._node_ends[owner].items():
                if end_ms < until_ms:
                    yield node, resource.least(max(from_ms, end_ms), until_ms)

    def planned_runs(self) -> Iterator[tuple[str, Resource]]:
        """Yield each owner whose headroom of runs the plan uses, with this headroom."""
        for owner, runs in self._runs.items():
            if runs.steps_ms:
                yield owner, runs

    def planned_nodes(self) -> Iterator[tuple[str, Resource]]:
        """Yield each owner whose headroom of nodes the plan uses, with this headroom."""
        for owner, nodes in self._nodes.items():
            if nodes.steps_ms:
                yield owner, nodes

    def _family_leases(self, owner: str) -> Iterator[str]:
        view = self._view
        for name in family_of(view, owner):
            yield from view.owner_leases.get(name, ())
