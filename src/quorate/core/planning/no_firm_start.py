"""Texts that say why a waiting run has no firm start."""

from __future__ import annotations

from quorate.core.lifecycle.follow import waits_for_upstream
from quorate.core.lifecycle.held_back import held_back
from quorate.core.planning.foresight import Foreseen, LongWalk, PlanState
from quorate.model.refusal import Refusal, RefusalCode, sentence
from quorate.model.specs import Run
from quorate.model.state.state_view import StateView


def parked_words(
    view: StateView, run: Run, foreseen: Foreseen, now_ms: int, *, has_remedies: bool
) -> str:
    """Return why the waiting ``run`` has no firm start.

    If ``has_remedies``, the text refers to the remedies that the caller shows below it.
    """
    waits = waits_for_upstream(view, run)
    if waits is not None:
        return f"it is planned once it no longer waits for other runs: {sentence(waits)}"
    held = held_back(view, view.runs[run.name], now_ms)
    if held is not None:
        return f"it is planned once it is no longer held back: {sentence(held)}"
    known = view.runs[run.name].refusal
    if foreseen.entry is None and known is not None and known.code is RefusalCode.WAITING_FOR_QUOTA:
        return f"it is tried when the quota of {known.subject} has headroom"
    if foreseen.state is PlanState.NONE:
        helps = "see the remedies below" if has_remedies else _missing(run, known)
        return f"waiting alone will not help; {helps}"
    if foreseen.long_walk is None and foreseen.state is not PlanState.NOT_BEFORE:
        return "its planned start changes with the queue until it is near enough to become firm"
    depth = view.pools[run.pool].reservation_depth
    planned = f"the first {depth} waiting runs of pool {run.pool} are planned"
    return f"{planned}; {_walk_words(foreseen.long_walk)}"


def _missing(run: Run, refusal: Refusal | None) -> str:
    """Return the advice for a run that has no remedies."""
    match None if refusal is None else refusal.code:
        case RefusalCode.NO_ENVELOPE:
            flavors = " or ".join(run.flavors)
            return (
                f"{run.owner} has no envelope for {flavors} there: ask an admin for one (quorate "
                "apply -f, with a Budget), or let the run borrow (spec.funding.allowBorrow)"
            )
        case RefusalCode.NO_NODES:
            return "correct its flavor or selector, or name another pool: quorate get nodes"
        case _:
            return "neither will any single change that was tried"


def _walk_words(walk: LongWalk | None) -> str:
    """Return how many runs the walk for this answer planned, as a text."""
    if walk is None:
        return "this run is not yet among them"
    if walk.has_reached:
        return f"for this answer all {walk.runs - 1:,} runs before it were planned, too"
    return (
        f"for this answer {walk.runs:,} runs were planned, the maximum, and this run is behind them"
    )
