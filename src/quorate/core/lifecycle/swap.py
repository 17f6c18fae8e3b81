"""Swap: lost slots are replaced by other slots of the same run.

Spares of a group replace its lost slots. A step of a malleable run can also replace a whole group
of the run's minimum, if it has the same size. The replacing slots keep their own payer and hold, so
no payer pays more than was promised already.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from quorate.core.admission.bind import LeaseDraft
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.spares import close_pledges, pledges_of
from quorate.core.lifecycle.starts import write_leases
from quorate.core.lifecycle.stops import end_lease
from quorate.core.profile.lease_ends import recall_of
from quorate.model.events import (
    EndReason,
    NodeStatus,
    Role,
    Slots,
    StartReason,
    Tier,
    lease_gpus,
)
from quorate.model.state.free_slots import lowest_slots
from quorate.model.state.records import Lease, RunRecord
from quorate.model.state.state_view import StateView


def leases_of(view: StateView, record: RunRecord) -> list[Lease]:
    """Return the open leases of a run."""
    return [view.leases[name] for name in record.leases]


def healthy(view: StateView, slots: Slots) -> Slots:
    """Return the part of ``slots`` that is not on failed nodes."""
    return tuple(
        (node, mask) for node, mask in slots if view.node_status.get(node) is not NodeStatus.FAILED
    )


def spares_of(view: StateView, run: str, path: str) -> list[Lease]:
    """Return the spare leases of the group at ``path``."""
    spare_path = path.replace("group/", "spare/")
    return [
        lease
        for lease in leases_of(view, view.runs[run])
        if lease.fact.comp_path == spare_path and lease.ending is None
    ]


def swap(
    log: DecisionLog, run: str, leases: Sequence[Lease], spares: Sequence[Lease], missing: int
) -> None:
    """Replace a group's leases: keep the healthy slots, and add ``missing`` GPUs of spares."""
    view, drafts = log.view, []
    path = leases[0].fact.comp_path
    for lease in leases:
        if healthy(view, lease.fact.slots) == lease.fact.slots:
            continue
        end_lease(log, lease.fact.lease, EndReason.FAIL, end_ms=log.now_ms)
        drafts += _go_on(log, lease, healthy(view, lease.fact.slots), lease.fact.comp_path)
    for spare in spares:
        left = healthy(view, spare.fact.slots)
        taken, kept = _divided(left, missing)
        if not taken and left == spare.fact.slots:
            continue
        missing -= lease_gpus(taken)
        reason = EndReason.SWAP if taken else EndReason.FAIL
        end_lease(log, spare.fact.lease, reason, end_ms=log.now_ms)
        drafts += _go_on(log, spare, taken, path)
        drafts += _go_on(log, spare, kept, spare.fact.comp_path)
    first = log.view.runs[run].leases_ever
    write_leases(log, run, drafts, first, StartReason.SWAP, start_ms=log.now_ms)


def _divided(slots: Slots, gpus: int) -> tuple[Slots, Slots]:
    """Return the first ``gpus`` of ``slots``, or all if there are fewer, and then the rest."""
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


def _go_on(log: DecisionLog, lease: Lease, slots: Slots, path: str) -> list[LeaseDraft]:
    """Return a lease on ``slots`` at ``path`` with the payer and the hold of ``lease``.

    Return an empty list if there are no ``slots``.
    """
    if not slots:
        return []
    fact = lease.fact
    role = Role.BORROWED if fact.tier is Tier.BORROWED else Role.ACTIVE
    if path.startswith("spare/"):
        role = Role.SPARE
    hold_ms = max(0, lease.hold_ends_ms - log.now_ms)
    return [LeaseDraft(path, fact.bundle, role, fact.payer, fact.tier, hold_ms, slots)]


def promoted(log: DecisionLog, run: str, bundle: int, waiting: Collection[str]) -> bool:
    """Replace each lost group of the minimum by a step.

    Return whether the minimum is whole again. A lost group is replaced by the highest step that is
    one group of the same size. The step keeps its slots and its payer, and becomes this group of
    the minimum. If work of the lost group still runs on other nodes, no step replaces the group:
    this work, and with it the whole run, has to stop first. Groups in ``waiting`` are not replaced,
    because their own filled spares come back.
    """
    if bundle != 0 or (log.has_executor and _lives_on(log.view, run, waiting)):
        return False
    for path, gpus in _lost_groups(log.view, run, waiting):
        step = _step_of(log.view, run, gpus)
        if step is None:
            return False
        drafts: list[LeaseDraft] = []
        # The group moves to other slots, perhaps in another domain. So the pledges for its filled
        # spares are given up.
        close_pledges(log, pledges_of(log.view, run, path))
        for lease in leases_of(log.view, log.view.runs[run]):
            if lease.fact.comp_path in (path, path.replace("group/", "spare/")):
                end_lease(log, lease.fact.lease, EndReason.FAIL, end_ms=log.now_ms)
        for lease in step:
            end_lease(log, lease.fact.lease, EndReason.SHRINK, end_ms=log.now_ms)
            target = path if lease.fact.role is not Role.SPARE else path.replace("group", "spare")
            drafts += [
                LeaseDraft(d.comp_path, 0, d.role, d.payer, d.tier, d.hold_ms, d.slots)
                for d in _go_on(log, lease, lease.fact.slots, target)
            ]
        first = log.view.runs[run].leases_ever
        write_leases(log, run, drafts, first, StartReason.SWAP, start_ms=log.now_ms)
    return True


def _lives_on(view: StateView, run: str, waiting: Collection[str]) -> bool:
    """Return whether a group of the minimum that lost slots still has slots on other nodes."""
    lost = {path for path, _ in _lost_groups(view, run, waiting)}
    return any(
        lease.fact.comp_path in lost and healthy(view, lease.fact.slots)
        for lease in leases_of(view, view.runs[run])
    )


def _lost_groups(view: StateView, run: str, waiting: Collection[str]) -> list[tuple[str, int]]:
    """Return (path, size) of the groups of the minimum that lost slots and are not ``waiting``."""
    sizes: dict[str, int] = {}
    lost: set[str] = set()
    for lease in leases_of(view, view.runs[run]):
        fact = lease.fact
        if fact.bundle == 0 and fact.role is not Role.SPARE:
            sizes[fact.comp_path] = sizes.get(fact.comp_path, 0) + lease.gpus
            if healthy(view, fact.slots) != fact.slots:
                lost.add(fact.comp_path)
    return [(path, size) for path, size in sizes.items() if path in lost - set(waiting)]


def _step_of(view: StateView, run: str, gpus: int) -> list[Lease] | None:
    """Return the leases of the highest complete step that is one group of ``gpus``, or None.

    A step whose loan is recalled is left out, because its GPUs go back to the lender when the
    notice is over.
    """
    steps: dict[int, list[Lease]] = {}
    for lease in leases_of(view, view.runs[run]):
        if lease.fact.bundle:
            steps.setdefault(lease.fact.bundle, []).append(lease)
    for number in sorted(steps, reverse=True):
        leases = steps[number]
        working = [lease for lease in leases if lease.fact.role is not Role.SPARE]
        whole = all(
            lease.ending is None
            and recall_of(view, lease) is None
            and healthy(view, lease.fact.slots) == lease.fact.slots
            for lease in leases
        )
        one_group = len({lease.fact.comp_path for lease in working}) == 1
        if whole and one_group and sum(lease.gpus for lease in working) == gpus:
            return leases
    return None
