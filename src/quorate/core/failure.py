"""Failure: what becomes of the runs on a node that is lost, or is to be emptied.

A bundle with enough spares in its group's domain swaps them in. Else a malleable run goes on
narrower, as long as its minimum is whole. Else the run stops and waits again, to start from its
last checkpoint. ``replace: Restart`` goes straight to the last.
"""

from __future__ import annotations

from collections.abc import Sequence

from quorate.core.bind import LeaseDraft
from quorate.core.lifecycle import write_leases
from quorate.core.scribe import Scribe
from quorate.core.stops import confirm, end_lease, stop_bundle, stop_run
from quorate.model.events import (
    EndReason,
    NodeMarked,
    NodeStatus,
    Role,
    Slots,
    StartReason,
    Tier,
)
from quorate.model.island import lowest_slots
from quorate.model.records import Lease, RunRecord
from quorate.model.specs import Replace
from quorate.model.view import StateView


def mark_node(scribe: Scribe, node: str, status: NodeStatus, note: str) -> None:
    """Write the status of a node if it is news, and what a failure does to the runs on it."""
    if scribe.view.node_status.get(node, NodeStatus.READY) is status:
        return
    scribe.write(
        NodeMarked(at_ms=scribe.now_ms, actor=scribe.actor, node=node, status=status, note=note)
    )
    if status is NodeStatus.FAILED:
        for record in _runs_on(scribe.view, node):
            _recover(scribe, record.spec.name)


def drain_node(scribe: Scribe, node: str, note: str) -> None:
    """Cordon a node and stop the bundles on it; runs that need them wait again."""
    mark_node(scribe, node, NodeStatus.CORDONED, note)
    for record in _runs_on(scribe.view, node):
        _drop_spares(scribe, record.spec.name, {node}, EndReason.DRAINED)
        bundles = {
            lease.fact.bundle
            for lease in _leases(scribe.view, scribe.view.runs[record.spec.name])
            if any(place == node for place, _ in lease.fact.slots)
        }
        for bundle in [0] if 0 in bundles else sorted(bundles):
            stop_bundle(scribe, record.spec.name, bundle, EndReason.DRAINED)


def _runs_on(view: StateView, node: str) -> list[RunRecord]:
    """Return the runs with leases on ``node``, in the order of submission."""
    names = {view.leases[lease].fact.run for lease in view.node_leases.get(node, ())}
    return sorted((view.runs[name] for name in names), key=lambda record: record.seq)


def _leases(view: StateView, record: RunRecord) -> list[Lease]:
    return [view.leases[name] for name in record.leases]


def _recover(scribe: Scribe, run: str) -> None:
    """Swap, shrink or requeue a run that has slots on failed nodes."""
    view = scribe.view
    record = view.runs[run]
    for lease in _leases(view, record):
        if lease.ending is not None and not _healthy(view, lease.fact.slots):
            confirm(scribe, lease)
    record = scribe.view.runs[run]
    if record.stopping is not None or not record.leases:
        return
    if record.spec.replace is Replace.RESTART:
        stop_run(scribe, record, EndReason.FAIL, None)
        return
    lost = {bundle for bundle in _swap_in(scribe, run) if not _promoted(scribe, run, bundle)}
    failed = {n for n, status in scribe.view.node_status.items() if status is NodeStatus.FAILED}
    _drop_spares(scribe, run, failed, EndReason.FAIL)
    for bundle in [0] if 0 in lost else sorted(lost):
        stop_bundle(scribe, run, bundle, EndReason.FAIL)


def _healthy(view: StateView, slots: Slots) -> Slots:
    """Return the part of ``slots`` that is not on failed nodes."""
    return tuple(
        (node, mask) for node, mask in slots if view.node_status.get(node) is not NodeStatus.FAILED
    )


def _gpus(slots: Slots) -> int:
    return sum(mask.bit_count() for _, mask in slots)


def _swap_in(scribe: Scribe, run: str) -> set[int]:
    """Swap spares in, group by group, and return the bundles that have not enough of them."""
    lost: set[int] = set()
    view = scribe.view
    groups: dict[str, list[Lease]] = {}
    for lease in _leases(view, view.runs[run]):
        if lease.fact.role is not Role.SPARE and lease.ending is None:
            groups.setdefault(lease.fact.comp_path, []).append(lease)
    for path, leases in groups.items():
        missing = sum(lease.gpus - _gpus(_healthy(view, lease.fact.slots)) for lease in leases)
        if missing:
            spares = _spares_of(scribe.view, run, path)
            if sum(_gpus(_healthy(view, spare.fact.slots)) for spare in spares) >= missing:
                _swap(scribe, run, leases, spares, missing)
            else:
                lost.add(leases[0].fact.bundle)
    return lost


def _spares_of(view: StateView, run: str, path: str) -> list[Lease]:
    """Return the spare leases of the group at ``path``."""
    spare_path = path.replace("group/", "spare/")
    return [
        lease
        for lease in _leases(view, view.runs[run])
        if lease.fact.comp_path == spare_path and lease.ending is None
    ]


def _swap(
    scribe: Scribe, run: str, leases: Sequence[Lease], spares: Sequence[Lease], missing: int
) -> None:
    """Write what is left of ``leases`` and ``missing`` GPUs of ``spares`` as the group's leases.

    What was held for a GPU goes on being held for whatever takes its place, so a swap costs nobody
    more than was promised already.
    """
    view, drafts = scribe.view, []
    path = leases[0].fact.comp_path
    for lease in leases:
        if _healthy(view, lease.fact.slots) == lease.fact.slots:
            continue
        end_lease(scribe, lease.fact.lease, EndReason.FAIL, end_ms=scribe.now_ms)
        drafts += _draft(scribe, lease, _healthy(view, lease.fact.slots), lease.fact.comp_path)
    for spare in spares:
        healthy = _healthy(view, spare.fact.slots)
        taken, kept = _divided(healthy, missing)
        if not taken and healthy == spare.fact.slots:
            continue
        missing -= _gpus(taken)
        reason = EndReason.SWAP if taken else EndReason.FAIL
        end_lease(scribe, spare.fact.lease, reason, end_ms=scribe.now_ms)
        drafts += _draft(scribe, spare, taken, path)
        drafts += _draft(scribe, spare, kept, spare.fact.comp_path)
    first = scribe.view.runs[run].leases_ever
    write_leases(scribe, run, drafts, first, StartReason.SWAP, start_ms=scribe.now_ms)


def _divided(slots: Slots, gpus: int) -> tuple[Slots, Slots]:
    """Return the first ``gpus`` of ``slots`` (all of them if there are fewer), and the rest."""
    taken: list[tuple[str, int]] = []
    kept: list[tuple[str, int]] = []
    for node, mask in slots:
        part = lowest_slots(mask, min(gpus, mask.bit_count()))
        gpus -= part.bit_count()
        if part:
            taken.append((node, part))
        if part != mask:
            kept.append((node, mask ^ part))
    return tuple(taken), tuple(kept)


def _draft(scribe: Scribe, lease: Lease, slots: Slots, path: str) -> list[LeaseDraft]:
    """Return ``slots``, if any, as a lease at ``path`` with payer and hold of ``lease``."""
    if not slots:
        return []
    fact = lease.fact
    role = Role.BORROWED if fact.tier is Tier.BORROWED else Role.ACTIVE
    if path.startswith("spare/"):
        role = Role.SPARE
    hold_ms = max(0, lease.hold_ends_ms - scribe.now_ms)
    return [LeaseDraft(path, fact.bundle, role, fact.payer, fact.tier, hold_ms, slots)]


def _promoted(scribe: Scribe, run: str, bundle: int) -> bool:
    """Put a step in the place of a lost group of the minimum; return whether it is whole again.

    A step that is one group of the very size takes over, the highest first: its slots and its payer
    stay, only what they count as changes. Where an executor still has work of the lost group on
    nodes that live, that has to stop first, and the run with it.
    """
    if bundle != 0 or (scribe.has_executor and _lives_on(scribe.view, run)):
        return False
    for path, gpus in _lost_groups(scribe.view, run):
        step = _step_of(scribe.view, run, gpus)
        if step is None:
            return False
        drafts: list[LeaseDraft] = []
        for lease in _leases(scribe.view, scribe.view.runs[run]):
            if lease.fact.comp_path in (path, path.replace("group/", "spare/")):
                end_lease(scribe, lease.fact.lease, EndReason.FAIL, end_ms=scribe.now_ms)
        for lease in step:
            end_lease(scribe, lease.fact.lease, EndReason.SHRINK, end_ms=scribe.now_ms)
            target = path if lease.fact.role is not Role.SPARE else path.replace("group", "spare")
            drafts += [
                LeaseDraft(d.comp_path, 0, d.role, d.payer, d.tier, d.hold_ms, d.slots)
                for d in _draft(scribe, lease, lease.fact.slots, target)
            ]
        first = scribe.view.runs[run].leases_ever
        write_leases(scribe, run, drafts, first, StartReason.SWAP, start_ms=scribe.now_ms)
    return True


def _lives_on(view: StateView, run: str) -> bool:
    """Return whether a group of the minimum that lost slots has others on nodes that live."""
    lost = {path for path, _ in _lost_groups(view, run)}
    return any(
        lease.fact.comp_path in lost and _healthy(view, lease.fact.slots)
        for lease in _leases(view, view.runs[run])
    )


def _lost_groups(view: StateView, run: str) -> list[tuple[str, int]]:
    """Return (path, size) of the groups of the minimum that have slots on failed nodes."""
    sizes: dict[str, int] = {}
    lost: set[str] = set()
    for lease in _leases(view, view.runs[run]):
        fact = lease.fact
        if fact.bundle == 0 and fact.role is not Role.SPARE:
            sizes[fact.comp_path] = sizes.get(fact.comp_path, 0) + lease.gpus
            if _healthy(view, fact.slots) != fact.slots:
                lost.add(fact.comp_path)
    return [(path, size) for path, size in sizes.items() if path in lost]


def _step_of(view: StateView, run: str, gpus: int) -> list[Lease] | None:
    """Return the leases of the highest whole step that is one group of ``gpus``."""
    steps: dict[int, list[Lease]] = {}
    for lease in _leases(view, view.runs[run]):
        if lease.fact.bundle:
            steps.setdefault(lease.fact.bundle, []).append(lease)
    for number in sorted(steps, reverse=True):
        leases = steps[number]
        working = [lease for lease in leases if lease.fact.role is not Role.SPARE]
        whole = all(
            lease.ending is None and _healthy(view, lease.fact.slots) == lease.fact.slots
            for lease in leases
        )
        one_group = len({lease.fact.comp_path for lease in working}) == 1
        if whole and one_group and sum(lease.gpus for lease in working) == gpus:
            return leases
    return None


def _drop_spares(scribe: Scribe, run: str, nodes: set[str], reason: EndReason) -> None:
    """End spares on ``nodes``, on which nothing runs; what is left of them stays a spare."""
    view = scribe.view
    drafts: list[LeaseDraft] = []
    for lease in _leases(view, view.runs[run]):
        kept = tuple(slot for slot in lease.fact.slots if slot[0] not in nodes)
        if lease.fact.role is Role.SPARE and lease.ending is None and kept != lease.fact.slots:
            end_lease(scribe, lease.fact.lease, reason, end_ms=scribe.now_ms)
            drafts += _draft(scribe, lease, kept, lease.fact.comp_path)
    first = scribe.view.runs[run].leases_ever
    write_leases(scribe, run, drafts, first, StartReason.SWAP, start_ms=scribe.now_ms)
