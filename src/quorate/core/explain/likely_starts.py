"""Likely starts of the first runs of the queue: P50 and P90, and the odds of their conflicts.

These parts of a forecast are cheap to compute for many runs together. No remedies are tried, and no
run beyond the depth of the plan gets a start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from quorate.core.explain.start_grounds import Seen, contest_for
from quorate.core.explain.start_odds import quantiles_of
from quorate.core.explain.state_outlook import Outlook
from quorate.core.planning.foresight import PlanState
from quorate.core.planning.start_quantiles import StartQuantiles
from quorate.core.preemption.conflict_preview import Contest
from quorate.model.state.records import Phase, ReservationRecord
from quorate.model.state.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelyStart:
    """When a waiting run starts, and how certain this start is.

    ``quantiles`` are the P50 and the P90 of the start. If the start needs a conflict, ``odds`` has,
    for each owner in the lottery, the probability that a run of this owner is drawn first.
    """

    run: str
    state: PlanState
    start_ms: int
    quantiles: StartQuantiles | None = None
    by_conflict: bool = False
    odds: tuple[tuple[str, Fraction], ...] = ()


def likely_starts(before: Outlook, runs: Sequence[str]) -> Iterator[LikelyStart]:
    """Yield the likely start of each of ``runs`` that has a planned start after all due changes.

    Three kinds of runs have no planned start: runs in rounds, runs beyond the depth of the plan,
    and runs that do not start if they only wait.
    """
    outlook = before.after_due
    state = outlook.view
    assert isinstance(state, State), "the settled state is an overlay"
    seen = Seen(state, outlook.now_ms, outlook.has_executor)
    for name in runs:
        record = state.runs[name]
        if record.phase is not Phase.PENDING or name in state.in_rounds:
            continue
        promise = None if record.reservation is None else state.reservations[record.reservation]
        foreseen = outlook.plan.planned_start_of(record)
        natural = None if foreseen is None else foreseen.entry
        start_ms = None if natural is None else natural.start_ms
        if promise is not None:
            start_ms = promise.planned_start_ms
        if start_ms is None:
            continue
        by_conflict = promise is not None and promise.by_conflict
        yield LikelyStart(
            run=name,
            state=PlanState.TENTATIVE if promise is None else PlanState.FIRM,
            start_ms=start_ms,
            quantiles=None if by_conflict else quantiles_of(outlook.plan.walk.plan, natural),
            by_conflict=by_conflict,
            odds=_odds(seen, promise),
        )


def _odds(seen: Seen, promise: ReservationRecord | None) -> tuple[tuple[str, Fraction], ...]:
    """Return the owners in the lottery for the reservation ``promise``, with their odds."""
    contest = contest_for(seen, promise, draws=1)
    if not isinstance(contest, Contest):
        return ()
    return tuple({each.owner: each.owner_odds for each in contest.entrants}.items())
