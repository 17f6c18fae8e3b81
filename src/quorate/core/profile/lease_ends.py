"""Expected ends: when running work is expected to be gone.

A run is expected to take as long as it said; hand-over, swap and growth do not begin it anew. One
that is overdue climbs a ladder of fixed rungs, each a quarter of its time so far after the last and
one hold quantum at least: the longer it has overstayed, the less its word is worth. The rungs do
not depend on when they are asked for, so the same state always gives the same answer.
"""

from __future__ import annotations

from quorate.core.admission.holds import expected_ms
from quorate.model.amounts import HOLD_QUANTUM_MS
from quorate.model.events import LoanRecalled
from quorate.model.state.records import Lease, RunRecord
from quorate.model.state.state_view import StateView


def rung_ms(from_ms: int, end_ms: int, now_ms: int) -> int:
    """Return the first rung at or after ``now_ms`` of what began at ``from_ms``.

    ``end_ms``, its word, is the lowest. Looks at one rung for every quarter that it is late by.
    """
    while end_ms < now_ms:
        end_ms += max(HOLD_QUANTUM_MS, (end_ms - from_ms) // 4)
    return end_ms


def declared_end_ms(view: StateView, record: RunRecord) -> int:
    """Return when a running run ends by its own word, be that past or to come."""
    assert record.since_ms is not None, record
    return record.since_ms + expected_ms(record.spec, view.pools[record.spec.pool])


def said_end_ms(view: StateView, lease: Lease) -> int:
    """Return when ``lease`` would end if all went as was said, be that past or to come.

    One that is told to stop has its grace, one that is recalled its notice, and both are expected
    no later than without that.
    """
    end_ms = declared_end_ms(view, view.runs[lease.fact.run])
    if lease.ending is not None:
        return min(end_ms, lease.ending.deadline_ms)
    recall = recall_of(view, lease)
    return end_ms if recall is None else min(end_ms, recall.due_ms)


def recall_of(view: StateView, lease: Lease) -> LoanRecalled | None:
    """Return the recall by which ``lease`` has to go: of its bundle, or of its run's first one."""
    recalls = view.recalls
    if not recalls:
        return None
    run, bundle = lease.fact.run, lease.fact.bundle
    found = [known for key in {(run, 0), (run, bundle)} if (known := recalls.get(key)) is not None]
    return min(found, key=lambda known: known.due_ms, default=None)


def run_end_ms(view: StateView, record: RunRecord, now_ms: int) -> int:
    """Return when a running run is expected to end, told at ``now_ms``; never before that."""
    assert record.since_ms is not None, record
    return rung_ms(record.since_ms, declared_end_ms(view, record), now_ms)


def lease_end_ms(view: StateView, lease: Lease, now_ms: int) -> int:
    """Return when ``lease`` is expected to end: with its run, or when it was told to go."""
    recall = None if lease.ending is not None else recall_of(view, lease)
    if lease.ending is None and recall is None:
        return run_end_ms(view, view.runs[lease.fact.run], now_ms)
    said_ms = said_end_ms(view, lease)
    if said_ms >= now_ms:
        return said_ms
    if lease.ending is not None:
        return rung_ms(lease.ending.at_ms, lease.ending.deadline_ms, now_ms)
    assert recall is not None, lease
    overdue_ms = run_end_ms(view, view.runs[lease.fact.run], now_ms)
    return min(overdue_ms, max(now_ms, recall.due_ms))


def is_overdue(view: StateView, record: RunRecord, now_ms: int) -> bool:
    """Return whether a running run has taken longer than it was expected to."""
    return declared_end_ms(view, record) < now_ms
