"""The audit of hard quotas (I4), which keeps its own records of the nodes and runs of each owner.

When a lease starts, the owner of the run and every ancestor of this owner must be within their
limits. An owner may exceed a limit later, when the limit is lowered or a family changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from quorate.core.admission.run_shape import Violation
from quorate.model.events import (
    Event,
    LeaseEnded,
    LeaseStarted,
    NodesClaimed,
    NodeWiped,
    OwnerApplied,
    OwnerRemoved,
    PledgeClosed,
    RunEnded,
    RunRequeued,
    RunSubmitted,
    SpareFilled,
    StartReason,
)
from quorate.model.specs import Owner


@dataclass(slots=True)
class Quotas:
    """The nodes that each owner holds and its running runs, as recorded by the events so far."""

    owners: dict[str, Owner] = field(default_factory=dict)
    owner_of: dict[str, str] = field(default_factory=dict)
    open: dict[str, tuple[str, frozenset[str]]] = field(default_factory=dict)
    """For each lease, each pledge, and each node set apart for a claim: its run and its nodes."""
    uses: dict[str, dict[str, int]] = field(default_factory=dict)
    """How many leases, pledges and claims each owner itself has on each node."""
    running: dict[str, int] = field(default_factory=dict)
    """The instant at which each run began to run."""
    claims: set[str] = field(default_factory=set)
    """The runs that are claims. They hold nodes, but are not counted as running runs."""
    given_back: dict[str, set[str]] = field(default_factory=dict)
    """For each run: the nodes of its filled spares that have come free again."""

    def enter(self, event: Event) -> Iterator[Violation]:  # noqa: C901, PLR0912 - one case per kind
        """Record ``event``, and yield a violation for each limit that is exceeded by it."""
        match event:
            case OwnerApplied():
                self.owners[event.owner.name] = event.owner
            case OwnerRemoved():
                self.owners.pop(event.owner, None)
            case RunSubmitted():
                self.owner_of[event.run.name] = event.run.owner
                if event.run.sensitive:
                    self.claims.add(event.run.name)
            case LeaseStarted():
                yield from self._start(event)
            case LeaseEnded():
                self._let_go(event.lease)
            case SpareFilled():
                run = event.lease.rpartition("/")[0]
                self._take(event.pledge, run, (node for node, _ in event.slots))
            case PledgeClosed():
                run, nodes = self.open.get(event.pledge, ("", frozenset[str]()))
                self.given_back.setdefault(run, set()).update(nodes)
                self._let_go(event.pledge)
            case NodesClaimed():
                for node in event.nodes:
                    self._take(f"{event.claim} on {node}", event.claim, (node,))
            case NodeWiped() if event.is_clean:
                self._let_go(f"{event.claim} on {event.node}")
            case RunEnded() | RunRequeued():
                self.running.pop(event.run, None)
                self.given_back.pop(event.run, None)
            case _:
                return

    def _start(self, event: LeaseStarted) -> Iterator[Violation]:
        both = (event.run,) if event.partner is None else (event.run, event.partner)
        begins = any(run not in self.running for run in both)
        for run in both:
            self.running.setdefault(run, event.at_ms)
        self._take(event.lease, event.run, (node for node, _ in event.slots))
        owner = self.owner_of.get(event.run)
        grows = event.reason is StartReason.GROW
        starts = event.reason is StartReason.START and self.running[event.run] == event.at_ms
        if starts and self.given_back.get(event.run, set()).issuperset(n for n, _ in event.slots):
            return  # The run has just started, and its filled spare already comes back.
        if owner is None or not (grows or starts):
            return  # A swap, a hand-over or a returning spare adds no node.
        for name in self._above(owner):
            quota, family = self.owners[name].quota, self._family(name)
            if quota.nodes_max is not None:
                held = {node for member in family for node in self.uses.get(member, ())}
                if len(held) > quota.nodes_max:
                    what = (
                        f"brings {name} to {len(held)} nodes, above its limit of {quota.nodes_max}"
                    )
                    yield Violation("I4", event.lease, what)
            if begins and event.run not in self.claims and quota.concurrent_runs_max is not None:
                running = (run for run in self.running if run not in self.claims)
                count = sum(self.owner_of.get(run) in family for run in running)
                if count > quota.concurrent_runs_max:
                    what = (
                        f"brings {name} to {count} running runs, above its limit of "
                        f"{quota.concurrent_runs_max}"
                    )
                    yield Violation("I4", event.run, what)

    def _take(self, name: str, run: str, nodes: Iterable[str]) -> None:
        self.open[name] = (run, frozenset(nodes))
        uses = self.uses.setdefault(self.owner_of.get(run, ""), {})
        for node in self.open[name][1]:
            uses[node] = uses.get(node, 0) + 1

    def _let_go(self, name: str) -> None:
        run, nodes = self.open.pop(name, ("", frozenset[str]()))
        uses = self.uses.get(self.owner_of.get(run, ""), {})
        for node in nodes:
            uses[node] -= 1
            if not uses[node]:
                del uses[node]

    def _above(self, owner: str) -> list[str]:
        """Return ``owner`` and its ancestors that have a hard quota."""
        limited, rest = [], [owner]
        seen: set[str] = set()
        while rest:
            name = rest.pop()
            if name in seen or name not in self.owners:
                continue
            seen.add(name)
            rest += self.owners[name].parents
            if self.owners[name].quota.is_hard:
                limited.append(name)
        return limited

    def _family(self, owner: str) -> set[str]:
        """Return ``owner`` and its descendants."""
        found, grew = {owner}, True
        while grew:
            below = {n for n, spec in self.owners.items() if found.intersection(spec.parents)}
            grew = not below <= found
            found |= below
        return found
