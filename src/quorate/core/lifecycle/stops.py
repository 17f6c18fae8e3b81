"""Stops: one event records that a lease begins to stop, and a later event that it has ended.

There are two events because work needs time to checkpoint. The slots become free with the second
event. With an executor, a stop writes the first event, and the executor's confirmation leads to the
second. Without an executor no work runs, and both events are written together.
"""

from __future__ import annotations

from quorate.core.decision_log import DecisionLog
from quorate.model.events import (
    EndReason,
    LeaseEnded,
    LeaseEnding,
    NodeStatus,
    Outcome,
    ReservationClosed,
    ReservationOutcome,
    RunEnded,
    RunRequeued,
    RunStopping,
)
from quorate.model.state.records import Lease, RunRecord
from quorate.model.state.state_view import StateView


def stop_run(  # noqa: PLR0913 - a stop has this many parts
    log: DecisionLog,
    record: RunRecord,
    reason: EndReason,
    outcome: Outcome | None,
    *,
    end_ms: int | None = None,
    note: str = "",
    detail: str = "",
) -> None:
    """Stop every lease of the run.

    Afterwards the run is over with ``outcome``, or waits again if ``outcome`` is None. ``end_ms``
    is the instant up to which the run is charged if no executor has to confirm the stop. ``detail``
    is recorded with the reason in the events of every lease.
    """
    if record.stopping is not None and (outcome is None or record.stopping.outcome is not None):
        # The run is already stopping. Its first reason is kept; only a final outcome replaces it.
        return
    if outcome is None and record.spec.rounds is not None:
        # A run in rounds is running from its first round to its end, even while it has no GPUs.
        for name in tuple(record.leases):
            stop_lease(log, name, reason, end_ms=end_ms, detail=detail)
        return
    works_under = leases_under(log.view, record)
    if works_under and log.has_executor:
        log.write(
            RunStopping(
                at_ms=log.now_ms,
                actor=log.actor,
                run=record.spec.name,
                outcome=outcome,
                reason=reason,
                note=note,
            )
        )
    if works_under and not record.leases:
        # The leases belong to another run, which continues in a later round.
        reason, detail = EndReason.ROUND_END, f"{record.spec.name}, which shared it, is over"
    for name in works_under:
        stop_lease(log, name, reason, end_ms=end_ms, detail=detail)
    record = log.view.runs[record.spec.name]
    if not leases_under(log.view, record):
        finish(log, record.spec.name, reason, outcome, note)


def cancel_run(log: DecisionLog, record: RunRecord, note: str, *, now: bool) -> None:
    """Stop a run, so that it does not start again.

    If ``now`` is set, the run's work gets no grace, even if the run is already stopping. If another
    run shares the run's leases, they keep their grace, because the other run needs it.
    """
    now = now and not is_shared(log.view, record)
    stopping = [name for name in record.leases if log.view.leases[name].ending is not None]
    end_ms = log.now_ms if now else None
    stop_run(log, record, EndReason.CANCELLED, Outcome.CANCELLED, end_ms=end_ms, note=note)
    for name in stopping if now else ():
        _hasten(log, name, log.view.runs[record.spec.name].stopping)


def _hasten(log: DecisionLog, name: str, stopping: RunStopping | None) -> None:
    """Move the deadline of a stopping lease to now, and record why its run stops."""
    lease = log.view.leases[name]
    assert lease.ending is not None, name
    assert stopping is not None, name
    if lease.ending.deadline_ms > log.now_ms:
        log.write(
            LeaseEnding(
                at_ms=log.now_ms,
                actor=log.actor,
                lease=name,
                reason=stopping.reason,
                deadline_ms=log.now_ms,
            )
        )


def leases_under(view: StateView, record: RunRecord) -> tuple[str, ...]:
    """Return the leases under which a run works: its own, or its partner's if it shares GPUs.

    If two runs share GPUs, the slots become free only when both runs have ended.
    """
    known = view.in_rounds.get(record.spec.name)
    if known is None or not known.lease:
        return tuple(record.leases)
    return tuple(view.runs[view.leases[known.lease].fact.run].leases)


def is_shared(view: StateView, record: RunRecord) -> bool:
    """Return whether another run works under the same leases."""
    names = leases_under(view, record)
    return any(view.leases[name].fact.partner is not None for name in names)


def stop_bundle(  # noqa: PLR0913 - a stop has this many parts
    log: DecisionLog,
    run: str,
    bundle: int,
    reason: EndReason,
    *,
    end_ms: int | None = None,
    detail: str = "",
) -> None:
    """Stop one bundle; if it is the first bundle, stop the whole run, which then waits again."""
    record = log.view.runs[run]
    if bundle == 0:
        stop_run(log, record, reason, None, end_ms=end_ms, detail=detail)
        return
    for name in tuple(record.leases):
        if log.view.leases[name].fact.bundle == bundle:
            stop_lease(log, name, reason, end_ms=end_ms, detail=detail)


def stop_lease(
    log: DecisionLog, name: str, reason: EndReason, *, end_ms: int | None = None, detail: str = ""
) -> None:
    """Stop a lease within its grace, or by ``end_ms`` if it is given.

    Without an executor the lease ends at once. A lease that is already stopping is left unchanged.
    """
    lease = log.view.leases[name]
    if lease.ending is not None:
        return
    gone_ms = None if end_ms is None else max(end_ms, lease.fact.start_ms)
    log.write(
        LeaseEnding(
            at_ms=log.now_ms,
            actor=log.actor,
            lease=name,
            reason=reason,
            deadline_ms=log.now_ms + lease.grace_ms if gone_ms is None else gone_ms,
            detail=detail,
        )
    )
    if not log.has_executor or _is_fenced(log.view, lease):
        gone_ms = log.now_ms if gone_ms is None else gone_ms
        end_lease(log, name, reason, end_ms=gone_ms, detail=detail)


def _is_fenced(view: StateView, lease: Lease) -> bool:
    """Return whether all nodes of ``lease`` have failed, so that none of its processes is left."""
    return all(view.node_status.get(node) is NodeStatus.FAILED for node, _ in lease.fact.slots)


def confirm(log: DecisionLog, lease: Lease) -> None:
    """Write that a stopping lease has ended, and the consequences for its run.

    The lease is charged up to now, but never for more than its hold. If the work stops after the
    hold has ended, the lease keeps its slots until the work stops, and its payer is charged only
    for the hold.
    """
    assert lease.ending is not None, lease
    fact = lease.fact
    end_ms = max(fact.start_ms, min(log.now_ms, lease.hold_ends_ms))
    ending = lease.ending
    end_lease(log, fact.lease, ending.reason, end_ms=end_ms, detail=ending.detail)
    for name in (fact.run,) if fact.partner is None else (fact.run, fact.partner):
        record = log.view.runs[name]
        stopping = record.stopping
        if stopping is not None and not leases_under(log.view, record):
            finish(log, name, stopping.reason, stopping.outcome, stopping.note)


def end_lease(
    log: DecisionLog, name: str, reason: EndReason, *, end_ms: int, detail: str = ""
) -> None:
    """Write that a lease has ended, charged up to ``end_ms``."""
    log.write(
        LeaseEnded(
            at_ms=log.now_ms,
            actor=log.actor,
            lease=name,
            reason=reason,
            end_ms=end_ms,
            detail=detail,
        )
    )


def finish(
    log: DecisionLog, run: str, reason: EndReason, outcome: Outcome | None, note: str
) -> None:
    """Write that a run without leases is over, or that it waits again."""
    if outcome is None:
        log.write(RunRequeued(at_ms=log.now_ms, actor=log.actor, run=run, reason=reason))
    else:
        reservation = log.view.runs[run].reservation if log.any_reservation else None
        if reservation is not None:
            log.write(
                ReservationClosed(
                    at_ms=log.now_ms,
                    actor=log.actor,
                    reservation=reservation,
                    outcome=ReservationOutcome.CANCELLED,
                )
            )
        log.write(RunEnded(at_ms=log.now_ms, actor=log.actor, run=run, outcome=outcome, note=note))
