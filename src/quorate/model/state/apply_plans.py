"""The effect of events of plans and conflicts: reservations, filled spares, the lottery.

``apply_event.py`` calls these functions. The functions can apply every event that a ledger can
have, to the owned state and to an overlay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.structs import replace

from quorate.model import events as e
from quorate.model.specs import EnvelopeId
from quorate.model.state.disruption_filling import lacking_gpu_ms
from quorate.model.state.records import (
    AnnouncedConflict,
    BackfillMark,
    ConflictRecord,
    Lottery,
    NextChain,
    PledgeRecord,
    ReservationRecord,
    RunRecord,
)
from quorate.model.state.state import State


def _lottery_committed(state: State, event: e.LotteryCommitted) -> None:
    assert not state.lottery.commitment, "a lottery is committed once"
    state.lottery = Lottery(event.commitment, event.length, event.commitment, 1)


def _lottery_sealed(state: State, event: e.LotterySealed) -> None:
    lottery = state.lottery
    if event.commitment == lottery.commitment:
        state.lottery = replace(lottery, sealed=event.sealed)
        return
    assert lottery.next_chain is None, "one chain waits at a time"
    chain = NextChain(event.commitment, event.length, event.sealed)
    state.lottery = replace(lottery, next_chain=chain)


def _backfill_noted(state: State, event: e.BackfillNoted) -> None:
    mark_backfill(state, state.runs.own(event.run), event.bundle, event.at_ms)


def mark_backfill(state: State, run: RunRecord, bundle: int, at_ms: int) -> None:
    """Record that the event which is being applied started a bundle of ``run`` as backfill."""
    if all(mark.bundle != bundle for mark in run.backfills):
        run.backfills = (*run.backfills, BackfillMark(bundle, state.seq + 1, at_ms))
        state.backfilled[run.spec.name] = None


def _loan_recalled(state: State, event: e.LoanRecalled) -> None:
    assert (event.run, event.bundle) not in state.recalls, event
    state.recalls[event.run, event.bundle] = event
    _ends_changed(state, event.run, event.bundle)


def _recall_withdrawn(state: State, event: e.RecallWithdrawn) -> None:
    del state.recalls[event.run, event.bundle]
    _ends_changed(state, event.run, event.bundle)


def _ends_changed(state: State, run: str, bundle: int) -> None:
    """Forget the expected ends of a bundle's leases, or of all leases of the run for bundle 0."""
    for name in state.runs[run].leases:
        lease = state.leases[name]
        if bundle in (0, lease.fact.bundle):
            state.end_changed(lease)


def recall_settled(state: State, run: RunRecord, bundle: int) -> None:
    """Forget the recall of a bundle if the bundle has no lease left.

    The end of bundle 0 ends all other bundles, so the recall of bundle 0 lasts until the run has no
    lease left.
    """
    key = (run.spec.name, bundle)
    if key in state.recalls and not any(
        bundle in (0, state.leases[name].fact.bundle) for name in run.leases
    ):
        del state.recalls[key]


def _spare_filled(state: State, event: e.SpareFilled) -> None:
    fact = state.leases[event.lease].fact
    assert event.pledge not in state.pledges, event
    pledge = PledgeRecord(
        event.pledge,
        fact.run,
        fact.comp_path,
        fact.bundle,
        fact.payer,
        fact.tier,
        event.slots,
        e.lease_gpus(event.slots),
        event.hold_gpu_ms,
        event.filler,
    )
    state.pledges[event.pledge] = pledge
    _set_aside(state, pledge, 1)


def _pledge_closed(state: State, event: e.PledgeClosed) -> None:
    _set_aside(state, state.pledges.pop(event.pledge), -1)


def _set_aside(state: State, pledge: PledgeRecord, sign: int) -> None:
    """Reserve GPUs and money of the payer for a filled spare (``sign`` 1), or release both (-1)."""
    if sign > 0:
        state.hold_slots(pledge.run, pledge.places)
    else:
        state.drop_slots(pledge.run, pledge.places)
    account = state.envelopes.own(pledge.payer)
    account.gpus_reserved += sign * pledge.gpus
    for key in account.caps:
        state.caps.own(key).gpus_reserved += sign * pledge.gpus
    if pledge.tier is e.Tier.BORROWED:
        account.lent_gpus_active += sign * pledge.gpus
    hold_money(state, pledge.payer, pledge.tier, sign * pledge.hold_gpu_ms)


def hold_money(state: State, payer: EnvelopeId, tier: e.Tier, gpu_ms: int) -> None:
    """Commit ``gpu_ms`` more (negative: less) of the money of a payer and of its caps."""
    account = state.envelopes.own(payer)
    account.committed_gpu_ms += gpu_ms
    state.room_index.payer_changed(payer)
    if tier is e.Tier.BORROWED:
        account.lent_committed_gpu_ms += gpu_ms
    for key in account.caps:
        state.caps.own(key).committed_gpu_ms += gpu_ms


def _hold_shares(state: State, payers: Iterable[e.Share], sign: int) -> None:
    for share in payers:
        hold_money(state, share.payer, share.tier, sign * share.gpus * share.hold_ms)


def _reservation_made(state: State, event: e.ReservationMade) -> None:
    run = state.runs.own(event.run)
    assert run.reservation is None, event
    run.reservation = event.reservation
    run.reservations_ever += 1
    if event.by_conflict:
        state.deferred.pop(event.run, None)
    _hold_shares(state, event.payers, 1)
    state.reservations[event.reservation] = ReservationRecord(
        event,
        state.seq + 1,
        e.ReservationStatus.PLANNED,
        event.slice,
        event.payers,
        event.planned_start_ms,
        event.natural_start_ms,
        event.by_conflict,
    )


def _reservation_moved(state: State, event: e.ReservationMoved) -> None:
    record = state.reservations.own(event.reservation)
    _hold_shares(state, record.payers, -1)
    _hold_shares(state, event.payers, 1)
    record.status, record.cause = event.status, event.cause
    record.slice, record.payers = event.slice, event.payers
    record.planned_start_ms = event.planned_start_ms
    record.natural_start_ms = event.natural_start_ms
    record.by_conflict = event.by_conflict
    if event.by_conflict:
        state.deferred.pop(record.made.run, None)


def _reservation_closed(state: State, event: e.ReservationClosed) -> None:
    record = state.reservations.pop(event.reservation)
    _hold_shares(state, record.payers, -1)
    run = state.runs.own(record.made.run)
    run.reservation = None
    if event.outcome is e.ReservationOutcome.ACTIVATED:
        run.via_conflict = record.conflict


def _conflict_declared(state: State, event: e.ConflictDeclared) -> None:
    assert event.conflict not in state.conflicts, event
    state.conflicts[event.conflict] = ConflictRecord(event)
    state.open_conflicts[event.conflict] = None
    if event.reservation:
        state.reservations.own(event.reservation).attempts += 1
    if event.tokens:
        # Owners of entrants get a notice of the lottery, so no event withdraws the announcement,
        # and no second notice is sent.
        state.announced.pop(event.reservation, None)


def _conflict_resolved(state: State, event: e.ConflictResolved) -> None:
    record = state.conflicts.own(event.conflict)
    assert record.resolved is None, event
    record.resolved = event
    del state.open_conflicts[event.conflict]
    if event.preimage:
        state.lottery = state.lottery.revealed(event.preimage)
    declared = record.declared
    if event.outcome is not e.ConflictOutcome.CLEARED:
        return
    if declared.reservation in state.reservations:
        reservation = state.reservations.own(declared.reservation)
        reservation.conflict = event.conflict
        _charge(state, state.runs[reservation.made.run].spec.owner, declared.scope.pool, event)
    for cut in event.cuts:
        if cut.step is e.CutStep.SPARE:
            continue
        run = state.runs.own(cut.run)
        if cut.bundle == 0:
            run.cut_ms, run.cut_by = event.at_ms, event.conflict
        else:
            run.steps_cut_by = event.conflict
        state.list_held(cut.run)


def _charge(state: State, owner: str, pool: str, event: e.ConflictResolved) -> None:
    """Charge a conflict's cost to the disruption account of the owner that called the conflict."""
    if event.lost_gpu_ms:
        lacking = lacking_gpu_ms(state, owner, pool, event.at_ms)
        state.disruption[owner, pool] = (lacking + event.lost_gpu_ms, event.at_ms)


def _conflict_announced(state: State, event: e.ConflictAnnounced) -> None:
    known = state.announced.get(event.reservation)
    runs = {} if known is None else dict(known.runs)
    for odds in event.runs:
        runs[odds.run] = odds.ppm
    state.announced[event.reservation] = AnnouncedConflict(event.due_ms, event.scope, runs)


def _conflict_withdrawn(state: State, event: e.ConflictWithdrawn) -> None:
    del state.announced[event.reservation]


def _conflict_deferred(state: State, event: e.ConflictDeferred) -> None:
    state.deferred[event.run] = event


def leave_running(state: State, run: RunRecord, event: e.RunRequeued | e.RunEnded) -> None:
    """Forget the fields that are valid only while ``run`` runs.

    If a run started by a conflict and ends before the minimum runtime, for any reason, the owner of
    the run may not call a conflict for one cool-down.
    """
    pool = state.pools[run.spec.pool]
    if (
        run.via_conflict
        and isinstance(event, e.RunEnded)
        and run.since_ms is not None
        and event.at_ms - run.since_ms < pool.least_runtime_ms
    ):
        state.barred[run.spec.owner] = event.at_ms + pool.pause_ms
    run.via_conflict, run.backfills = "", ()
    state.backfilled.pop(run.spec.name, None)
    for key in [key for key in state.recalls if key[0] == run.spec.name]:
        del state.recalls[key]


PLANS: Final[dict[type, Callable[[State, Any], None]]] = {
    e.LotteryCommitted: _lottery_committed,
    e.LotterySealed: _lottery_sealed,
    e.BackfillNoted: _backfill_noted,
    e.LoanRecalled: _loan_recalled,
    e.RecallWithdrawn: _recall_withdrawn,
    e.SpareFilled: _spare_filled,
    e.PledgeClosed: _pledge_closed,
    e.ReservationMade: _reservation_made,
    e.ReservationMoved: _reservation_moved,
    e.ReservationClosed: _reservation_closed,
    e.ConflictDeclared: _conflict_declared,
    e.ConflictResolved: _conflict_resolved,
    e.ConflictDeferred: _conflict_deferred,
    e.ConflictAnnounced: _conflict_announced,
    e.ConflictWithdrawn: _conflict_withdrawn,
}
