"""A simple model of tenants: at each question, the leases of all descendants are counted again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations

from quorate.model.events import (
    Event,
    LeaseEnded,
    LeaseStarted,
    NodeApplied,
    NodeMarked,
    NodeStatus,
    OwnerApplied,
    OwnerRemoved,
    RunEnded,
    RunRequeued,
    RunSubmitted,
    StartReason,
)
from quorate.model.specs import Owner, Run


@dataclass
class Held:
    """An open lease: its run, and its GPUs on each node."""

    run: str
    gpus: dict[str, int]


@dataclass
class Tenants:
    """The owners and their leases, read from events."""

    owners: dict[str, Owner] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)
    runs: dict[str, Run] = field(default_factory=dict)
    """The runs that have not ended, in the order of their submission."""
    running: set[str] = field(default_factory=set)
    leases: dict[str, Held] = field(default_factory=dict)

    def enter_all(self, events: Iterable[Event]) -> Iterator[str]:
        """Record ``events``, and yield a text for each limit that a start or a growth exceeds."""
        for event in events:
            self.enter(event)
            if not isinstance(event, LeaseStarted):
                continue
            if event.reason in (StartReason.START, StartReason.GROW):
                yield from self.nodes_beyond(self.runs[event.run].owner)
            if event.reason is StartReason.START:  # A run that grows is not counted again.
                yield from self.runs_beyond(self.runs[event.run].owner)

    def enter(self, event: Event) -> None:  # noqa: C901 - one case per kind
        match event:
            case OwnerApplied():
                self.owners[event.owner.name] = event.owner
            case OwnerRemoved():
                del self.owners[event.owner]
            case NodeApplied():
                self.nodes[event.node.name] = event.node.gpus
            case NodeMarked():
                self.away.discard(event.node)
                if event.status is not NodeStatus.READY:
                    self.away.add(event.node)
            case RunSubmitted():
                self.runs[event.run.name] = event.run
            case LeaseStarted():
                gpus = {node: mask.bit_count() for node, mask in event.slots}
                self.leases[event.lease] = Held(event.run, gpus)
                self.running.add(event.run)
            case LeaseEnded():
                del self.leases[event.lease]
            case RunRequeued():
                self.running.discard(event.run)
            case RunEnded():
                self.running.discard(event.run)
                del self.runs[event.run]
            case _:
                pass

    @property
    def pending(self) -> list[str]:
        """The waiting runs, in the order of their submission."""
        return [name for name in self.runs if name not in self.running]

    def below(self, owner: str) -> set[str]:
        """Return ``owner`` and all its descendants."""
        return {name for name in self.owners if owner in self.above(name)}

    def above(self, owner: str) -> list[str]:
        """Return ``owner`` and all its ancestors."""
        found = [owner]
        for name in found:
            found += [up for up in self.owners[name].parents if up not in found]
        return found

    def nodes_of(self, owner: str) -> set[str]:
        """Return the nodes with leases of ``owner`` and its descendants."""
        family = self.below(owner)
        held = (h for h in self.leases.values() if self.runs[h.run].owner in family)
        return {node for each in held for node in each.gpus}

    def running_of(self, owner: str) -> int:
        """Return the number of running runs of ``owner`` and its descendants."""
        return sum(self.runs[name].owner in self.below(owner) for name in self.running)

    def nodes_beyond(self, owner: str) -> Iterator[str]:
        """Yield a text for each limit of nodes that ``owner`` or one of its ancestors exceeds."""
        for name in self.above(owner):
            most = self.owners[name].quota.nodes_max
            if most is not None and len(self.nodes_of(name)) > most:
                yield f"{name} has {self.nodes_of(name)}, of {most}"

    def runs_beyond(self, owner: str) -> Iterator[str]:
        """Yield a text for each limit of running runs that ``owner`` or an ancestor exceeds."""
        for name in self.above(owner):
            most = self.owners[name].quota.concurrent_runs_max
            if most is not None and self.running_of(name) > most:
                yield f"{name} has {self.running_of(name)} running, of {most}"

    def runs_full(self, owner: str) -> list[str]:
        """Return which of ``owner`` and its ancestors have as many running runs as allowed."""
        limits = {n: self.owners[n].quota.concurrent_runs_max for n in self.above(owner)}
        return [n for n, most in limits.items() if most is not None and self.running_of(n) >= most]

    def free(self) -> dict[str, int]:
        """Return the free GPUs of each usable node."""
        found = {name: gpus for name, gpus in self.nodes.items() if name not in self.away}
        for held in self.leases.values():
            for node, gpus in held.gpus.items():
                if node in found:
                    found[node] -= gpus
        return found

    def has_place(self, run: Run) -> bool:
        """Return whether some set of nodes holds ``run`` at its least width within every limit."""
        free, least = self.free(), run.widths()[-1]
        nodes = [name for name, gpus in free.items() if gpus]
        sets = (c for n in range(1, len(nodes) + 1) for c in combinations(nodes, n))
        return any(
            sum(free[node] for node in chosen) >= least and self._within(run.owner, chosen)
            for chosen in sets
        )

    def _within(self, owner: str, chosen: Iterable[str]) -> bool:
        for name in self.above(owner):
            most = self.owners[name].quota.nodes_max
            if most is not None and len(self.nodes_of(name) | set(chosen)) > most:
                return False
        return True
