"""Expected ends: when running work is expected to be gone.

A run is expected to take as long as it said; hand-over, swap and growth do not begin it anew. One
that is overdue is expected to go on for a quarter of what it has taken, and for one hold quantum at
least: the longer it has overstayed, the less its word is worth.
"""

from __future__ import annotations

from quorate.core.holds import expected_ms
from quorate.model.amounts import HOLD_QUANTUM_MS
from quorate.model.records import Lease, RunRecord
from quorate.model.view import StateView


def said_end_ms(view: StateView, lease: Lease) -> int:
    """Return when ``lease`` would end if all went as was said, be that past or to come."""
    if lease.ending is not None:
        return lease.ending.deadline_ms
    record = view.runs[lease.fact.run]
    assert record.since_ms is not None, record
    return record.since_ms + expected_ms(record.spec, view.pools[record.spec.pool])


def run_end_ms(view: StateView, record: RunRecord, now_ms: int) -> int:
    """Return when a running run is expected to end, told at ``now_ms``; never before that."""
    assert record.since_ms is not None, record
    end_ms = record.since_ms + expected_ms(record.spec, view.pools[record.spec.pool])
    if end_ms >= now_ms:
        return end_ms
    return now_ms + max(HOLD_QUANTUM_MS, (now_ms - record.since_ms) // 4)


def lease_end_ms(view: StateView, lease: Lease, now_ms: int) -> int:
    """Return when ``lease`` is expected to end: with its run, or when it was told to stop.

    One that was told and is late is expected any moment: nothing tells how much later it will be.
    """
    if lease.ending is not None:
        late = now_ms > lease.ending.deadline_ms
        return now_ms + HOLD_QUANTUM_MS if late else lease.ending.deadline_ms
    return run_end_ms(view, view.runs[lease.fact.run], now_ms)


def is_overdue(view: StateView, record: RunRecord, now_ms: int) -> bool:
    """Return whether a running run has taken longer than it was expected to."""
    assert record.since_ms is not None, record
    return record.since_ms + expected_ms(record.spec, view.pools[record.spec.pool]) < now_ms
