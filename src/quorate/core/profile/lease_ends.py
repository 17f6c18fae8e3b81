"""Computes when running work is expected to end.

A run is expected to take its declared duration. Hand-over, swap and growth do not restart this
time. An overdue run is expected to end at the next of a fixed series of instants, called rungs. The
first rung is the declared end. The time from a rung to the next is a quarter of the time from the
run's start to the rung, and at least one hold quantum. So the longer a run is overdue, the more
time it is expected to need. The rungs do not depend on the instant at which they are computed, so
the same state always gives the same answer.
"""

from __future__ import annotations

from quorate.core.admission.holds import expected_ms
from quorate.model.amounts import HOLD_QUANTUM_MS
from quorate.model.events import LoanRecalled
from quorate.model.state.records import Lease, RunRecord
from quorate.model.state.state_view import StateView


def rung_ms(from_ms: int, end_ms: int, now_ms: int) -> int:
    """Return the rung at which work that began at ``from_ms`` is expected to end.

    The result is the declared end, ``end_ms``, if that is now or later, else the first rung after
    ``now_ms``. So overdue work is never expected to end at this very instant.
    """
    if end_ms >= now_ms:
        return end_ms
    while end_ms <= now_ms:
        end_ms += max(HOLD_QUANTUM_MS, (end_ms - from_ms) // 4)
    return end_ms


def declared_end_ms(view: StateView, record: RunRecord) -> int:
    """Return the declared end of a running run; it may be in the past."""
    assert record.since_ms is not None, record
    return record.since_ms + expected_ms(record.spec, view.pools[record.spec.pool])


def said_end_ms(view: StateView, lease: Lease) -> int:
    """Return the declared end of ``lease``; it may be in the past.

    For a stopping lease, this is its deadline. For a recalled lease, it is the end of the notice.
    But the result is never later than the declared end of the run.
    """
    end_ms = declared_end_ms(view, view.runs[lease.fact.run])
    if lease.ending is not None:
        return min(end_ms, lease.ending.deadline_ms)
    recall = recall_of(view, lease)
    return end_ms if recall is None else min(end_ms, recall.due_ms)


def recall_of(view: StateView, lease: Lease) -> LoanRecalled | None:
    """Return the recall that ends ``lease``, or None."""
    return bundle_recall(view, lease.fact.run, lease.fact.bundle)


def bundle_recall(view: StateView, run: str, bundle: int) -> LoanRecalled | None:
    """Return the recall of a bundle, or of its run's bundle 0 if that is due sooner; or None."""
    recalls = view.recalls
    if not recalls:
        return None
    found = [known for key in {(run, 0), (run, bundle)} if (known := recalls.get(key)) is not None]
    return min(found, key=lambda known: known.due_ms, default=None)


def is_told_late(view: StateView, lease: Lease) -> bool:
    """Return whether a recalled ``lease`` was stopped too late to end in time.

    The lease then ends after its notice, because it still gets its full grace. This happens if the
    service was down when the lease had to be stopped.
    """
    if lease.ending is None or not view.recalls:
        return False
    recall = recall_of(view, lease)
    return recall is not None and recall.due_ms < lease.ending.deadline_ms


def run_end_ms(view: StateView, record: RunRecord, now_ms: int) -> int:
    """Return when a running run is expected to end, at ``now_ms`` or later."""
    assert record.since_ms is not None, record
    return rung_ms(record.since_ms, declared_end_ms(view, record), now_ms)


def lease_end_ms(view: StateView, lease: Lease, now_ms: int) -> int:
    """Return when ``lease`` is expected to end: with its run, or sooner by its stop or recall.

    A stop never makes the expected end later, because firm starts may rely on the end of the run.
    """
    end_ms, ending = run_end_ms(view, view.runs[lease.fact.run], now_ms), lease.ending
    if ending is not None:
        return min(end_ms, rung_ms(ending.at_ms, ending.deadline_ms, now_ms))
    recall = recall_of(view, lease)
    return end_ms if recall is None else min(end_ms, max(now_ms, recall.due_ms))


def is_overdue(view: StateView, record: RunRecord, now_ms: int) -> bool:
    """Return whether a running run has passed its declared end."""
    return declared_end_ms(view, record) < now_ms
