"""The words for a planned start and its certainty. Pure."""

from __future__ import annotations

from typing import Final

from quorate.core.planning.foresight import EXACT_RUNS_MAX, LongWalk, PlanState
from quorate.documents.times import time_text
from quorate.model.state.records import RunRecord
from quorate.views.kinds.kind import Tree
from quorate.views.runs.instant import Moment
from quorate.views.word_forms import until

PLAN_WORDS: Final = {
    PlanState.FIRM: "firm",
    PlanState.TENTATIVE: "tentative",
    PlanState.NOT_BEFORE: "not before",
    PlanState.NONE: "none",
}


def start_words(state: PlanState, start_ms: int | None, now_ms: int) -> str:
    """Return the predicate of a sentence about a run: when it starts, and how firm the start is."""
    if start_ms is None or state is PlanState.NONE:
        return "has no planned start"
    when = until(start_ms, now_ms)
    match state:
        case PlanState.FIRM:
            return f"has a firm start {when}"
        case PlanState.TENTATIVE:
            return f"has a tentative start {when}"
        case PlanState.NOT_BEFORE:
            return f"starts not before {when}"


def plan_of(moment: Moment, record: RunRecord) -> tuple[PlanState, int | None]:
    """Return how firm the planned start of a waiting run is, and its instant."""
    if record.reservation is not None:
        start_ms = moment.view.reservations[record.reservation].planned_start_ms
        return (PlanState.NONE if start_ms is None else PlanState.FIRM), start_ms
    found = moment.plan.start_of(record)
    return found.state, None if found.entry is None else found.entry.start_ms


def plan_tree(state: PlanState, start_ms: int | None, now_ms: int) -> Tree:
    """Return for programs when a run starts, and how firm the start is."""
    return {
        "state": state.value,
        "start": None if start_ms is None else time_text(start_ms),
        "startsInMs": None if start_ms is None else max(0, start_ms - now_ms),
    }


def exact_tree(walk: LongWalk | None) -> Tree | None:
    """Return how far a start was searched beyond the planning depth; None without a search."""
    if walk is None:
        return None
    return {"reached": walk.has_reached, "runs": walk.runs, "runsMax": EXACT_RUNS_MAX}
