"""Failure: what happens to the runs on a node that fails or is drained.

When a node fails, the spares of a group replace the slots that the group has lost. If other runs
fill these spares, those other runs stop first. Until they have ended, the lease with the lost slots
stays open, and the run is not requeued. If a group has too few spares, its bundle stops. A
malleable run that loses only steps in this way continues at a smaller width. Any other run stops
and waits again, to start from its last checkpoint. A run with ``replace: Restart`` always stops and
waits again.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.reclaim import reclaim, reclaimable
from quorate.core.lifecycle.sensitive_claims import lose_nodes
from quorate.core.lifecycle.spares import close_pledges, part_with, return_spares
from quorate.core.lifecycle.stops import confirm, stop_bundle, stop_run
from quorate.core.lifecycle.swap import healthy, leases_of, promoted, spares_of, swap
from quorate.model.events import EndReason, NodeMarked, NodeStatus, Role, lease_gpus
from quorate.model.specs import Replace
from quorate.model.state.records import Lease, RunRecord
from quorate.model.state.state_view import StateView


def mark_node(log: DecisionLog, node: str, status: NodeStatus, note: str) -> None:
    """Write the status of a node if it has changed; for a failure, also the effects on runs."""
    before = log.view.node_status.get(node, NodeStatus.READY)
    if before is status:
        return
    if before is NodeStatus.FAILED:
        # The node comes back without processes. So its bundles that still wait for a filled spare
        # have to start again.
        for record in _waiting(log.view, node):
            _stop_bundles(log, record.spec.name, _bundles_on(log.view, record, node))
    log.write(NodeMarked(at_ms=log.now_ms, actor=log.actor, node=node, status=status, note=note))
    if status is NodeStatus.FAILED:
        for record in _runs_on(log.view, node):
            _recover(log, record.spec.name)


def settle_spares(log: DecisionLog) -> bool:
    """Bring back spares whose fillers have ended, and swap them in if their runs waited for them.

    A filler is a run that fills a spare. Return whether any spare came back or was given up.
    """
    changed = False
    while return_spares(log):
        changed = True
        for record in _waiting(log.view):
            _recover(log, record.spec.name)
    return changed


def drain_node(log: DecisionLog, node: str, note: str) -> None:
    """Cordon a node and stop the bundles on it, except claims.

    A run whose first bundle is stopped waits again.
    """
    mark_node(log, node, NodeStatus.CORDONED, note)
    view = log.view
    close_pledges(log, [c for c in view.pledges.values() if any(n == node for n, _ in c.slots)])
    for record in _runs_on(log.view, node):
        name = record.spec.name
        if record.spec.sensitive:
            continue  # No drain cuts a claim; the node is empty when the claim ends.
        _drop_spares(log, name, {node}, EndReason.DRAINED)
        bundles = _bundles_on(log.view, log.view.runs[name], node)
        _stop_bundles(log, name, bundles, EndReason.DRAINED)


def _bundles_on(view: StateView, record: RunRecord, node: str) -> set[int]:
    """Return the bundles of a run that have leases on ``node``."""
    return {
        lease.fact.bundle
        for lease in leases_of(view, record)
        if any(place == node for place, _ in lease.fact.slots)
    }


def _stop_bundles(
    log: DecisionLog, run: str, bundles: Iterable[int], reason: EndReason = EndReason.FAIL
) -> None:
    """Stop ``bundles`` of a run; if its first bundle is among them, the whole run stops."""
    ordered = sorted(bundles)
    for bundle in ordered[:1] if 0 in ordered else ordered:
        stop_bundle(log, run, bundle, reason)


def _runs_on(view: StateView, node: str) -> list[RunRecord]:
    """Return the runs with leases on ``node``, in the order of submission."""
    names = {view.leases[lease].fact.run for lease in view.node_leases.get(node, ())}
    return sorted((view.runs[name] for name in names), key=lambda record: record.seq)


def _waiting(view: StateView, *nodes: str) -> list[RunRecord]:
    """Return the runs that wait for a filled spare, in the order of submission.

    On the lost ``nodes``, these runs have leases that are not stopping. If no ``nodes`` are given,
    all failed nodes are examined.
    """
    lost = nodes or [n for n, status in view.node_status.items() if status is NodeStatus.FAILED]
    names = {
        view.leases[lease].fact.run
        for node in lost
        for lease in view.node_leases.get(node, ())
        if view.leases[lease].ending is None
    }
    return sorted((view.runs[name] for name in names), key=lambda record: record.seq)


def _recover(log: DecisionLog, run: str) -> None:
    """Write what happens to a run with slots on failed nodes: swap, shrink, requeue, or wait.

    The run waits if filled spares have to come back first.
    """
    view = log.view
    record = view.runs[run]
    for lease in leases_of(view, record):
        if lease.ending is not None and not healthy(view, lease.fact.slots):
            confirm(log, lease)
    record = log.view.runs[run]
    if record.stopping is not None or not record.leases:
        return
    if record.spec.sensitive:
        lose_nodes(log, run)
        return
    if record.spec.replace is Replace.RESTART:
        stop_run(log, record, EndReason.FAIL, None)
        return
    lost, short = _swap_in(log, run)
    lost = {b for b in lost if not promoted(log, run, b, {group.path for group in short})}
    failed = {n for n, status in log.view.node_status.items() if status is NodeStatus.FAILED}
    _drop_spares(log, run, failed, EndReason.FAIL)
    if 0 not in lost:
        for group in short:
            if group.bundle not in lost:
                reclaim(log, run, group.path, group.gpus)
    _stop_bundles(log, run, lost)


class _Short(Struct, frozen=True, gc=False):
    """A group that lacks ``gpus``, and gets them when the runs that fill its spares have ended."""

    path: str
    bundle: int
    gpus: int


def _swap_in(log: DecisionLog, run: str) -> tuple[set[int], list[_Short]]:
    """Replace lost slots by spares, group by group.

    Return the bundles without enough spares, and the groups that will have enough spares once the
    runs that fill them have ended.
    """
    lost: set[int] = set()
    short: list[_Short] = []
    view = log.view
    groups: dict[str, list[Lease]] = {}
    for lease in leases_of(view, view.runs[run]):
        if lease.fact.role is not Role.SPARE and lease.ending is None:
            groups.setdefault(lease.fact.comp_path, []).append(lease)
    for path, leases in groups.items():
        missing = sum(lease.gpus - lease_gpus(healthy(view, lease.fact.slots)) for lease in leases)
        if not missing:
            continue
        spares = spares_of(log.view, run, path)
        kept = sum(lease_gpus(healthy(view, spare.fact.slots)) for spare in spares)
        filled = sum(pledge.gpus for pledge in reclaimable(log, run, path))
        bundle = leases[0].fact.bundle
        if kept >= missing:
            swap(log, run, leases, spares, missing)
        elif kept + filled >= missing:
            short.append(_Short(path, bundle, missing - kept))
        else:
            lost.add(bundle)
    return lost, short


def _drop_spares(log: DecisionLog, run: str, nodes: set[str], reason: EndReason) -> None:
    """End the spares of ``run`` on ``nodes``; slots of these spares on other nodes stay spares."""
    view = log.view
    for lease in leases_of(view, view.runs[run]):
        lost = tuple(slot for slot in lease.fact.slots if slot[0] in nodes)
        if lease.fact.role is Role.SPARE and lease.ending is None and lost:
            part_with(log, lease.fact.lease, lost, reason)
