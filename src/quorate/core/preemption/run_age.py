"""Computes when a run last started.

The time since then decides whether the run may be drawn, and how much work it would lose.
"""

from __future__ import annotations

from quorate.model.state.records import RunRecord
from quorate.model.state.state_view import StateView


def last_start_ms(view: StateView, record: RunRecord) -> int | None:
    """Return when a running run last started; None if it does not run.

    Hand-over, swap and growth do not count as starts. A round in which the run keeps its GPUs does
    not count as a start either.
    """
    if record.spec.rounds is None or record.since_ms is None:
        return record.since_ms
    return view.in_rounds[record.spec.name].started_ms
