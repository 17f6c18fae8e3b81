"""Failure: what becomes of the runs on a node that is lost, or is to be emptied.

A bundle with enough spares in its group's domain swaps them in. Where others fill them, these make
room first: until they have gone, what was lost stays open and the run is not put back. Else a
malleable run goes on narrower, as long as its minimum is whole. Else the run stops and waits again,
to start from its last checkpoint. ``replace: Restart`` goes straight to the last.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from quorate.core.claims import lose_nodes
from quorate.core.reclaim import reclaim, reclaimable
from quorate.core.scribe import Scribe
from quorate.core.spares import close_pledges, part_with, return_spares
from quorate.core.stops import confirm, stop_bundle, stop_run
from quorate.core.swap import healthy, leases_of, promoted, spares_of, swap
from quorate.model.events import EndReason, NodeMarked, NodeStatus, Role, lease_gpus
from quorate.model.records import Lease, RunRecord
from quorate.model.specs import Replace
from quorate.model.view import StateView


def mark_node(scribe: Scribe, node: str, status: NodeStatus, note: str) -> None:
    """Write the status of a node if it is news, and what a failure does to the runs on it."""
    before = scribe.view.node_status.get(node, NodeStatus.READY)
    if before is status:
        return
    if before is NodeStatus.FAILED:
        # It comes back empty: what waits there for a spare that is filled has to start over.
        for record in _waiting(scribe.view, node):
            _stop_bundles(scribe, record.spec.name, _bundles_on(scribe.view, record, node))
    scribe.write(
        NodeMarked(at_ms=scribe.now_ms, actor=scribe.actor, node=node, status=status, note=note)
    )
    if status is NodeStatus.FAILED:
        for record in _runs_on(scribe.view, node):
            _recover(scribe, record.spec.name)


def settle_spares(scribe: Scribe) -> bool:
    """Bring spares back whose fillers have gone, and swap them in where that was waited for.

    Returns whether any came back or was given up.
    """
    changed = False
    while return_spares(scribe):
        changed = True
        for record in _waiting(scribe.view):
            _recover(scribe, record.spec.name)
    return changed


def drain_node(scribe: Scribe, node: str, note: str) -> None:
    """Cordon a node and stop the bundles on it, claims excepted; runs that need them wait again."""
    mark_node(scribe, node, NodeStatus.CORDONED, note)
    view = scribe.view
    close_pledges(scribe, [c for c in view.pledges.values() if any(n == node for n, _ in c.slots)])
    for record in _runs_on(scribe.view, node):
        name = record.spec.name
        if record.spec.sensitive:
            continue  # A claim is never cut: its nodes are empty when it is over.
        _drop_spares(scribe, name, {node}, EndReason.DRAINED)
        bundles = _bundles_on(scribe.view, scribe.view.runs[name], node)
        _stop_bundles(scribe, name, bundles, EndReason.DRAINED)


def _bundles_on(view: StateView, record: RunRecord, node: str) -> set[int]:
    """Return the bundles of a run that have leases on ``node``."""
    return {
        lease.fact.bundle
        for lease in leases_of(view, record)
        if any(place == node for place, _ in lease.fact.slots)
    }


def _stop_bundles(
    scribe: Scribe, run: str, bundles: Iterable[int], reason: EndReason = EndReason.FAIL
) -> None:
    """Stop ``bundles`` of a run; with its first one all of it stops."""
    ordered = sorted(bundles)
    for bundle in ordered[:1] if 0 in ordered else ordered:
        stop_bundle(scribe, run, bundle, reason)


def _runs_on(view: StateView, node: str) -> list[RunRecord]:
    """Return the runs with leases on ``node``, in the order of submission."""
    names = {view.leases[lease].fact.run for lease in view.node_leases.get(node, ())}
    return sorted((view.runs[name] for name in names), key=lambda record: record.seq)


def _waiting(view: StateView, *nodes: str) -> list[RunRecord]:
    """Return the runs that wait for a spare: nobody told what they lost (on ``nodes``) to stop."""
    lost = nodes or [n for n, status in view.node_status.items() if status is NodeStatus.FAILED]
    names = {
        view.leases[lease].fact.run
        for node in lost
        for lease in view.node_leases.get(node, ())
        if view.leases[lease].ending is None
    }
    return sorted((view.runs[name] for name in names), key=lambda record: record.seq)


def _recover(scribe: Scribe, run: str) -> None:
    """Swap, shrink or requeue a run that has slots on failed nodes, or let it wait for spares."""
    view = scribe.view
    record = view.runs[run]
    for lease in leases_of(view, record):
        if lease.ending is not None and not healthy(view, lease.fact.slots):
            confirm(scribe, lease)
    record = scribe.view.runs[run]
    if record.stopping is not None or not record.leases:
        return
    if record.spec.sensitive:
        lose_nodes(scribe, run)
        return
    if record.spec.replace is Replace.RESTART:
        stop_run(scribe, record, EndReason.FAIL, None)
        return
    lost, short = _swap_in(scribe, run)
    lost = {b for b in lost if not promoted(scribe, run, b, {group.path for group in short})}
    failed = {n for n, status in scribe.view.node_status.items() if status is NodeStatus.FAILED}
    _drop_spares(scribe, run, failed, EndReason.FAIL)
    if 0 not in lost:
        for group in short:
            if group.bundle not in lost:
                reclaim(scribe, run, group.path, group.gpus)
    _stop_bundles(scribe, run, lost)


class _Short(Struct, frozen=True, gc=False):
    """A group that lacks ``gpus`` until as many of its filled spares have come back."""

    path: str
    bundle: int
    gpus: int


def _swap_in(scribe: Scribe, run: str) -> tuple[set[int], list[_Short]]:
    """Swap spares in, group by group.

    Returns the bundles that have not enough of them, and the groups that have with those that
    others fill.
    """
    lost: set[int] = set()
    short: list[_Short] = []
    view = scribe.view
    groups: dict[str, list[Lease]] = {}
    for lease in leases_of(view, view.runs[run]):
        if lease.fact.role is not Role.SPARE and lease.ending is None:
            groups.setdefault(lease.fact.comp_path, []).append(lease)
    for path, leases in groups.items():
        missing = sum(lease.gpus - lease_gpus(healthy(view, lease.fact.slots)) for lease in leases)
        if not missing:
            continue
        spares = spares_of(scribe.view, run, path)
        kept = sum(lease_gpus(healthy(view, spare.fact.slots)) for spare in spares)
        filled = sum(pledge.gpus for pledge in reclaimable(scribe, run, path))
        bundle = leases[0].fact.bundle
        if kept >= missing:
            swap(scribe, run, leases, spares, missing)
        elif kept + filled >= missing:
            short.append(_Short(path, bundle, missing - kept))
        else:
            lost.add(bundle)
    return lost, short


def _drop_spares(scribe: Scribe, run: str, nodes: set[str], reason: EndReason) -> None:
    """End spares on ``nodes``; what is left of them stays a spare."""
    view = scribe.view
    for lease in leases_of(view, view.runs[run]):
        lost = tuple(slot for slot in lease.fact.slots if slot[0] in nodes)
        if lease.fact.role is Role.SPARE and lease.ending is None and lost:
            part_with(scribe, lease.fact.lease, lost, reason)
