"""Why a waiting run has no firm start, in words."""

from __future__ import annotations

from quorate.core.follow import waits_for_upstream
from quorate.core.held_back import held_back
from quorate.core.planning.forecast import Foreseen, PlanState
from quorate.model.refusal import RefusalCode, sentence
from quorate.model.specs import Run
from quorate.model.view import StateView


def parked_words(view: StateView, run: Run, foreseen: Foreseen, now_ms: int) -> str:
    """Return why ``run``, which waits, has no firm start."""
    waits = waits_for_upstream(view, run)
    if waits is not None:
        return f"it is planned once it need not wait for others: {sentence(waits)}"
    held = held_back(view, run.name, now_ms)
    if held is not None:
        return f"it is planned once it is not held back: {sentence(held)}"
    known = view.runs[run.name].refusal
    if foreseen.entry is None and known is not None and known.code is RefusalCode.WAITING_FOR_QUOTA:
        return f"it is tried when the quota of {known.subject} has headroom"
    if foreseen.state is PlanState.NONE:
        return "waiting alone will not help; see the remedies below"
    depth = view.pools[run.pool].reservation_depth
    if foreseen.state is PlanState.NOT_BEFORE:
        return f"the first {depth} waiting runs of pool {run.pool} are planned; it is not one yet"
    return "it follows the queue until its start is near enough to become firm"
