"""Settle: extend the holds of running leases, hand bundles over, or stop them, as is due.

A hold that is about to run out is extended as long as its payer has money. If the payer has no
money left, the bundle is handed over to other payers. If no payer can pay, the bundle stops. With
an executor, the stop begins one grace period before the hold ends, so that the work has ended when
the money ends. Without an executor, no program acts between two commands. So events that were due
since the last command are written now, with the instants at which they were due.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from quorate.core.admission.holds import extension_ms
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.handover import hand_over
from quorate.core.lifecycle.sensitive_claims import end_claim
from quorate.core.lifecycle.stops import stop_bundle
from quorate.model.events import EndReason, HoldExtended, Role
from quorate.model.state.records import Lease


def settle_holds(log: DecisionLog) -> None:
    """Extend every hold that is running out, hand its bundle over, or stop the bundle."""
    due = _due(log)
    unpaid: list[tuple[int, str]] = []
    looked = 0
    while due:
        renew_ms, name = heappop(due)
        lease = log.view.leases.get(name)
        if lease is None or lease.renew_ms != renew_ms or not _is_due(log, lease):
            continue  # The lease of this entry has ended or was extended in the meantime.
        for again in _go_on(log, lease):
            known = log.view.leases[again]
            if _is_due(log, known):
                heappush(due, (known.renew_ms, again))
        if lease.ending is not None:
            unpaid.append((renew_ms, name))
        if not due and unpaid and len(log.events) > looked:
            # A hand-over may have left money for leases that are slow to stop.
            looked, due, unpaid = len(log.events), unpaid, []
            heapify(due)


def _due(log: DecisionLog) -> list[tuple[int, str]]:
    """Return a heap of the due holds as (instant of renewal, lease), earliest first."""
    view, now_ms = log.view, log.now_ms
    if not view.may_hold_be_due(now_ms, has_executor=log.has_executor):
        return []
    if log.has_executor:
        return due_holds(view.holds_due(), now_ms)
    # Without an executor a hold is due when it ends, which may be long after its instant of
    # renewal.
    ended = dict.fromkeys(name for _, name in due_holds(view.holds_ending(), now_ms))
    due = [(view.leases[name].renew_ms, name) for name in ended if name in view.leases]
    heapify(due)
    return due


def _is_due(log: DecisionLog, lease: Lease) -> bool:
    return (lease.renew_ms if log.has_executor else lease.hold_ends_ms) <= log.now_ms


def _go_on(log: DecisionLog, lease: Lease) -> Sequence[str]:
    """Extend, hand over or stop a lease; return the leases that the caller has to examine again."""
    view, fact = log.view, lease.fact
    if fact.role is Role.CLAIM:
        end_claim(log, view.runs[fact.run], end_ms=lease.hold_ends_ms)
        return ()
    until_ms = log.now_ms + (lease.grace_ms if log.has_executor else 0)
    more_ms = extension_ms(view, lease, until_ms)
    if more_ms > 0:
        log.write(
            HoldExtended(
                at_ms=log.now_ms,
                actor=log.actor,
                lease=fact.lease,
                gpu_ms=more_ms * lease.gpus,
            )
        )
        return (fact.lease,)
    if lease.ending is not None:
        return ()  # The lease is stopping already, and is charged up to the end of its hold only.
    # With an executor the hand-over takes place now, or at the end of the hold if that has passed.
    # So the old payer is charged for no more than its hold.
    at_ms = min(log.now_ms, lease.hold_ends_ms)
    handed = hand_over(log, fact.run, fact.bundle, at_ms=at_ms)
    if handed:
        return handed
    closed = lease.hold_ends_ms >= view.envelopes[fact.payer].spec.end_ms
    reason = EndReason.WINDOW_CLOSED if closed else EndReason.BUDGET_EXHAUSTED
    stop_bundle(log, fact.run, fact.bundle, reason, end_ms=lease.hold_ends_ms)
    return ()


def due_holds(heap: Sequence[tuple[int, str]], now_ms: int) -> list[tuple[int, str]]:
    """Return the entries of ``heap`` up to ``now_ms`` as a new heap; ``heap`` does not change."""
    found: list[tuple[int, str]] = []
    places = [0]
    while places:
        place = places.pop()
        if place < len(heap) and heap[place][0] <= now_ms:
            found.append(heap[place])
            places += (2 * place + 1, 2 * place + 2)
    heapify(found)
    return found
