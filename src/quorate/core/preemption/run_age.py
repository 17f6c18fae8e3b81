"""When a run last started: its age decides whether it may be drawn, and how much work it loses."""

from __future__ import annotations

from quorate.model.state.records import RunRecord
from quorate.model.state.state_view import StateView


def last_start_ms(view: StateView, record: RunRecord) -> int | None:
    """Return when a running run last started; None if it does not run.

    Hand-over, swap and growth are no start, and neither is a round in which a run keeps its GPUs.
    """
    if record.spec.rounds is None or record.since_ms is None:
        return record.since_ms
    return view.in_rounds[record.spec.name].started_ms
