"""Spares: slots that a run keeps in addition to its work, and the pledges for filled spares.

A pledge reserves the GPUs and GPU-hours of a filled spare on the spare's payer. There is one pledge
for each GPU: as soon as the run that fills the spare has left this slot, a spare starts on the slot
again. A pledge is given up if the spare can no longer be used, and the run that fills it continues.
A spare can no longer be used in these cases: its run is over or has lost the group, the node has
failed, or the payer's window has closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from quorate.core.admission.bind import LeaseDraft
from quorate.core.admission.payers import family_payers
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.starts import write_leases
from quorate.core.lifecycle.stops import end_lease
from quorate.model.events import (
    EndReason,
    NodeStatus,
    PledgeClosed,
    Role,
    Slots,
    StartReason,
    Tier,
    lease_gpus,
)
from quorate.model.selector import matches
from quorate.model.state.durations import grace_ms
from quorate.model.state.records import EnvelopeAccount, Lease, Phase, PledgeRecord
from quorate.model.state.state_view import StateView


def part_with(log: DecisionLog, name: str, slots: Slots, reason: EndReason) -> None:
    """End a spare, and start a new one on those of its slots that are not in ``slots``.

    No work runs on a spare, so it ends at once. The new spare leaves out slots on failed nodes,
    because the failure of a node may not have been handled yet.
    """
    view = log.view
    lease = view.leases[name]
    fact, lost = lease.fact, dict(slots)
    end_lease(log, name, reason, end_ms=log.now_ms)
    left = ((node, mask & ~lost.get(node, 0)) for node, mask in fact.slots)
    kept = tuple(
        (node, mask)
        for node, mask in left
        if mask and view.node_status.get(node) is not NodeStatus.FAILED
    )
    if kept:
        hold_ms = max(0, lease.hold_ends_ms - log.now_ms)
        draft = LeaseDraft(
            fact.comp_path, fact.bundle, Role.SPARE, fact.payer, fact.tier, hold_ms, kept
        )
        _start(log, fact.run, draft, StartReason.SWAP)


def _start(log: DecisionLog, run: str, draft: LeaseDraft, reason: StartReason) -> None:
    first = log.view.runs[run].leases_ever
    write_leases(log, run, [draft], first, reason, start_ms=log.now_ms)


# --- Pledges --------------------------------------------------------------------------------------


def holder(view: StateView, pledge: PledgeRecord) -> Lease | None:
    """Return the filler's open lease on the slots of ``pledge``; None if there is none."""
    for node, mask in pledge.slots:
        for name in view.node_leases.get(node, ()):
            lease = view.leases[name]
            if any(place == node and mask & held for place, held in lease.fact.slots):
                return lease
    return None


def pledges_of(view: StateView, run: str, path: str) -> list[PledgeRecord]:
    """Return the pledges of the group at ``path`` of ``run``, in the order of their names."""
    spare_path = path.replace("group/", "spare/")
    return sorted(
        (c for c in view.pledges.values() if c.run == run and c.comp_path == spare_path),
        key=lambda pledge: pledge.pledge,
    )


def close_pledges(log: DecisionLog, pledges: Iterable[PledgeRecord]) -> None:
    """Give up ``pledges``, so that their room and money are free for other runs."""
    for pledge in pledges:
        log.write(PledgeClosed(at_ms=log.now_ms, actor=log.actor, pledge=pledge.pledge))


def pledges_due_ms(view: StateView) -> int | None:
    """Return the first instant at which a pledge is given up because its payer's window closes."""
    payers = {pledge.payer for pledge in view.pledges.values()}
    return min((view.envelopes[payer].spec.end_ms for payer in payers), default=None)


def return_spares(log: DecisionLog) -> bool:
    """Start spares again whose fillers have ended, and give up pledges that are of no use.

    A filler is a run that fills a spare. Return whether any pledge ended.
    """
    view = log.view
    if not view.pledges:
        return False
    homes: dict[tuple[str, str, int], set[str]] = {}
    gone: list[PledgeRecord] = []
    back: dict[tuple[object, ...], list[PledgeRecord]] = {}
    for name in sorted(view.pledges):
        pledge = view.pledges[name]
        key = (pledge.run, pledge.comp_path, pledge.bundle)
        if key not in homes:
            homes[key] = _homes(view, *key)
        if not _has_use(view, pledge, homes[key], log.now_ms):
            gone.append(pledge)
        elif (lease := holder(view, pledge)) is None:
            per_gpu = pledge.hold_gpu_ms // pledge.gpus
            back.setdefault((*key, pledge.payer, pledge.tier, per_gpu), []).append(pledge)
        elif lease.fact.run != pledge.filler:
            gone.append(pledge)
    close_pledges(log, gone)
    for pledges in back.values():
        _return(log, pledges)
    return bool(gone or back)


def _homes(view: StateView, run: str, path: str, bundle: int) -> set[str]:
    """Return the domains of the group that the spares at ``path`` belong to.

    The result is empty if the group has ended, or if the run waits, is stopping or is over. In
    these cases the run has no use for spares.
    """
    record = view.runs[run]
    if record.phase is not Phase.RUNNING or record.stopping is not None:
        return set()
    group = path.replace("spare/", "group/")
    leases = (view.leases[name] for name in record.leases)
    return {
        view.nodes[node].spec.domain_key
        for lease in leases
        if lease.fact.comp_path == group and lease.fact.bundle == bundle and lease.ending is None
        for node, _ in lease.fact.slots
    }


def _has_use(view: StateView, pledge: PledgeRecord, homes: set[str], now_ms: int) -> bool:
    """Return whether the run could use the spare if the spare came back now."""
    return view.envelopes[pledge.payer].spec.end_ms > now_ms and all(
        view.nodes[node].spec.domain_key in homes
        and view.node_status.get(node) is not NodeStatus.FAILED
        for node, _ in pledge.slots
    )


def _return(log: DecisionLog, pledges: Sequence[PledgeRecord]) -> None:
    """End ``pledges``, which differ only in their slots; start a spare on their usable slots."""
    view, now_ms = log.view, log.now_ms
    able = [c for c in pledges if may_come_back(view, c, now_ms, has_executor=log.has_executor)]
    able = able[: _borrowable(view, pledges[0])]
    close_pledges(log, pledges)
    if not able:
        return
    first = able[0]
    masks: dict[str, int] = {}
    for pledge in able:
        for node, mask in pledge.slots:
            masks[node] = masks.get(node, 0) | mask
    draft = LeaseDraft(
        first.comp_path,
        first.bundle,
        Role.SPARE,
        first.payer,
        first.tier,
        _hold_ms(view, first, now_ms),
        tuple(masks.items()),
    )
    _start(log, first.run, draft, StartReason.START)


def _hold_ms(view: StateView, pledge: PledgeRecord, now_ms: int) -> int:
    """Return for how long a spare that comes back now is paid in advance.

    This time ends at the latest when the payer's window ends.
    """
    end_ms = view.envelopes[pledge.payer].spec.end_ms
    return min(pledge.hold_gpu_ms // pledge.gpus, end_ms - now_ms)


def may_come_back(
    view: StateView, pledge: PledgeRecord, now_ms: int, *, has_executor: bool
) -> bool:
    """Return whether the slots of ``pledge`` can be used and its payer still pays for them.

    Room and money were kept for the spare, so only later changes are checked. A node may no longer
    be ready. The envelope may have been retired, may have a lower limit, or its window may close
    soon.
    """
    run = view.runs[pledge.run].spec
    account = view.envelopes[pledge.payer]
    outlast_ms = grace_ms(run, view.pools[run.pool]) if has_executor else 0
    if _hold_ms(view, pledge, now_ms) <= outlast_ms or account.retired:
        return False
    for node, _ in pledge.slots:
        spec = view.nodes[node].spec
        if node in view.node_status or spec.flavor != account.spec.flavor:
            return False
        if not matches(account.spec.selector, spec.location):
            return False
    opened = account.spec.start_ms <= now_ms or account.spec.allow_admission
    return opened and _would_be_asked(view, pledge) and not any(_over(view, account))


def _would_be_asked(view: StateView, pledge: PledgeRecord) -> bool:
    """Return whether the payer would still be tried for a start of the run."""
    run, account = view.runs[pledge.run].spec, view.envelopes[pledge.payer]
    if pledge.tier is Tier.BORROWED:
        return run.funding.allow_borrow and account.spec.lending.admits(run.owner)
    payers = family_payers(view, run.owner, account.spec.flavor)
    return (pledge.payer, pledge.tier) in payers


def _over(view: StateView, account: EnvelopeAccount) -> Iterator[bool]:
    """Yield, for each limit, whether the payer has promised more than the limit allows."""
    spec, lending = account.spec, account.spec.lending
    yield account.gpus_active + account.gpus_reserved > spec.concurrency
    yield account.committed_gpu_ms > spec.gpu_ms_granted
    if lending.concurrency_max is not None:
        yield account.lent_gpus_active > lending.concurrency_max
    if lending.gpu_ms_max is not None:
        yield account.lent_committed_gpu_ms > lending.gpu_ms_max
    for key in account.caps:
        cap = view.caps[key]
        if cap.spec.concurrency_max is not None:
            yield cap.gpus_active + cap.gpus_reserved > cap.spec.concurrency_max
        if cap.spec.gpu_ms_max is not None:
            yield cap.committed_gpu_ms > cap.spec.gpu_ms_max


def _borrowable(view: StateView, pledge: PledgeRecord) -> int | None:
    """Return for how many pledges like ``pledge`` the run may still borrow; None: no limit.

    The run may have borrowed for other slots while its spares were filled.
    """
    record = view.runs[pledge.run]
    most = record.spec.funding.borrow_gpus_max
    if pledge.tier is not Tier.BORROWED or most is None:
        return None
    leases = (view.leases[name] for name in record.leases)
    borrowed = sum(
        lease_gpus(lease.fact.slots) for lease in leases if lease.fact.tier is Tier.BORROWED
    )
    return max(0, most - borrowed) // pledge.gpus
