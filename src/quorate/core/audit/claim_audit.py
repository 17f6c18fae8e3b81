"""I12: only one user uses the nodes of a claim, and they are wiped before another user gets them.

Both the check of a state (``invariants.py``) and the audit of a history (``history_audit.py``) use
this module. For the audit of a history, the module keeps its own records: for each node, its open
leases and its claim.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from quorate.core.admission.run_shape import Violation
from quorate.model.events import (
    EndReason,
    Event,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    NodeApplied,
    NodeMarked,
    NodeRemoved,
    NodesClaimed,
    NodeStatus,
    NodeWiped,
    Role,
    RunSubmitted,
    SystemApplied,
    Tier,
    lease_gpus,
)
from quorate.model.specs import Node, Run
from quorate.model.state.free_slots import all_slots
from quorate.model.state.state_view import StateView

_ENDS: Final = frozenset((EndReason.END, EndReason.CANCELLED, EndReason.FAIL))
"""The reasons for which a lease of a claim may end. No claim may end because of another run."""


def check_claims(view: StateView) -> Iterator[Violation]:
    """Yield a violation for each claimed node that others use (I12), and for wrong counts (I8)."""
    leases: dict[str, int] = {}
    for lease in view.leases.values():
        fact = lease.fact
        if fact.role is not Role.CLAIM:
            yield from (
                Violation("I12", fact.lease, f"is on {node}, which was not wiped after a claim")
                for node, _ in fact.slots
                if node in view.unwiped
            )
            continue
        for node, _ in fact.slots:
            leases[node] = leases.get(node, 0) + 1
            unwiped = view.unwiped.get(node)
            if unwiped is None or unwiped.claim != fact.run:
                yield Violation("I12", fact.lease, f"is on {node}, which the claim does not have")
    for node, unwiped in view.unwiped.items():
        if unwiped.leases != leases.get(node, 0):
            yield Violation(
                "I8",
                node,
                f"counts {unwiped.leases} leases, but its claim has {leases.get(node, 0)}",
            )
        if unwiped.leases and unwiped.user != view.runs[unwiped.claim].spec.user:
            yield Violation("I12", node, f"is kept for {unwiped.user}, not for the claim's user")


@dataclass(slots=True)
class _Apart:
    """A node that is set apart for a claim: the claim, and the open leases on the node."""

    claim: NodesClaimed
    leases: dict[str, int] = field(default_factory=dict)
    is_leaving: bool = False


@dataclass(slots=True)
class ClaimBooks:
    """The nodes that are set apart for claims, as recorded by the events so far."""

    _size_max: int | None = None
    _runs: dict[str, Run] = field(default_factory=dict)
    _nodes: dict[str, Node] = field(default_factory=dict)
    _status: dict[str, NodeStatus] = field(default_factory=dict)
    _apart: dict[str, _Apart] = field(default_factory=dict)
    _open: dict[str, dict[str, None]] = field(default_factory=dict)
    _facts: dict[str, LeaseStarted] = field(default_factory=dict)

    def enter(self, event: Event) -> Iterator[Violation]:  # noqa: C901, PLR0912 - one case per kind
        """Record ``event``, and yield a violation for each of its effects that a claim forbids."""
        match event:
            case SystemApplied():
                self._size_max = event.system.sensitive_pool_size
            case RunSubmitted():
                if event.run.sensitive:
                    self._runs[event.run.name] = event.run
            case NodeApplied():
                self._nodes[event.node.name] = event.node
            case NodeMarked():
                self._status[event.node] = event.status
            case NodeRemoved():
                if event.node in self._apart:
                    yield Violation("I12", event.node, "is removed before it was wiped")
                self._nodes.pop(event.node, None)
                self._status.pop(event.node, None)
            case NodesClaimed():
                yield from self._claim(event)
            case LeaseStarted():
                yield from self._start(event)
            case LeaseEnding():
                self._leave(event)
            case LeaseEnded():
                yield from self._end(event)
            case NodeWiped():
                yield from self._wipe(event)
            case _:
                return

    def settle(self) -> Iterator[Violation]:
        """Yield a violation for each node of which a claim holds only a part."""
        for node, apart in self._apart.items():
            known = self._nodes.get(node)
            taken = 0
            for mask in apart.leases.values():
                taken |= mask
            is_whole = known is None or taken == all_slots(known.gpus)
            if taken and not (is_whole or apart.is_leaving):
                yield Violation("I12", apart.claim.claim, f"has {node} in part")

    def _claim(self, event: NodesClaimed) -> Iterator[Violation]:
        run = self._runs.get(event.claim)
        if run is None or run.user != event.user or not event.user:
            yield Violation(
                "I12",
                event.claim,
                (f"is claimed by {event.user!r}, but is a run of another user"),
            )
        for node in event.nodes:
            if self._open.get(node) or node in self._apart:
                yield Violation("I12", event.claim, f"claims {node}, which is in use or not wiped")
            if self._status.get(node, NodeStatus.READY) is not NodeStatus.READY:
                yield Violation("I12", event.claim, f"claims {node}, which is not ready")
            self._apart[node] = _Apart(event)
        if self._size_max is not None and len(self._apart) > self._size_max:
            what = f"brings claims to {len(self._apart)} nodes, above the limit of {self._size_max}"
            yield Violation("I4", event.claim, what)

    def _start(self, fact: LeaseStarted) -> Iterator[Violation]:
        self._facts[fact.lease] = fact
        for node, mask in fact.slots:
            self._open.setdefault(node, {})[fact.lease] = None
            apart = self._apart.get(node)
            if apart is None:
                if fact.role is Role.CLAIM:
                    yield Violation("I12", fact.lease, f"uses {node} without a claim on it")
                continue
            if fact.role is not Role.CLAIM or fact.run != apart.claim.claim:
                yield Violation(
                    "I12", fact.lease, f"uses {node}, which claim {apart.claim.claim} has"
                )
            apart.leases[fact.lease] = mask
            ends_ms = fact.start_ms + fact.hold_gpu_ms // lease_gpus(fact.slots)
            if fact.tier is not Tier.OWNED or ends_ms != apart.claim.end_ms:
                yield Violation(
                    "I12",
                    fact.lease,
                    f"is paid by tier {fact.tier} until {ends_ms}, not by its owner for the "
                    "whole claim",
                )

    def _leave(self, event: LeaseEnding) -> None:
        fact = self._facts.get(event.lease)
        for node, _ in () if fact is None else fact.slots:
            if node in self._apart:
                self._apart[node].is_leaving = True

    def _end(self, event: LeaseEnded) -> Iterator[Violation]:
        fact = self._facts.pop(event.lease, None)
        if fact is None:
            return
        for node, _ in fact.slots:
            self._open.get(node, {}).pop(event.lease, None)
            if node in self._apart:
                self._apart[node].leases.pop(event.lease, None)
        if fact.role is Role.CLAIM and event.reason not in _ENDS:
            yield Violation(
                "I12", event.lease, f"is a lease of a claim, but ends by {event.reason}"
            )

    def _wipe(self, event: NodeWiped) -> Iterator[Violation]:
        apart = self._apart.get(event.node)
        if apart is None or apart.leases or apart.claim.claim != event.claim:
            yield Violation(
                "I12",
                event.node,
                f"is reported wiped after {event.claim}, which still has or never had the node",
            )
        elif event.is_clean:
            del self._apart[event.node]
