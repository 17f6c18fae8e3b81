"""Scores forecasts: compares the P50 and P90 of each forecast start with the actual start.

The ledger is folded block by block. For each run that has to wait, the planner of ``quorate plan``
makes one forecast, in the state after the block that accepted the run. The forecast is then
compared with the recorded start.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quorate.core.explain.start_odds import quantiles_of
from quorate.core.planning.foresight import Foresight, PlanState
from quorate.core.planning.start_quantiles import StartQuantiles
from quorate.model.amounts import SECOND_MS
from quorate.model.events import Event, LeaseStarted, Role, RunEnded, RunSubmitted
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase, RunRecord
from quorate.model.state.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredStart:
    """One forecast, and the actual start, which is None if the run has not started."""

    run: str
    owner: str
    asked_ms: int
    p50_ms: int
    p90_ms: int
    started_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastScore:
    """The score of the forecasts of a ledger.

    ``starts`` are the forecasts that can be judged: the run started, or its P90 passed without a
    start. ``undecided`` are runs that still wait and whose P90 is not before the ledger's end. A
    forecast is left out if its run ended without a start. ``unforeseen`` are runs that waited and
    had no planned start, such as runs far back in the queue. ``in_rounds`` are runs of pools that
    share in rounds: these runs have no planned start, so no other count includes them.
    ``by_p50`` and ``by_p90`` are the parts of ``starts`` in which the run had started by its P50 or
    P90. Losses are mean quantile losses in seconds, over the runs that started. Of two forecasters
    of the same waits, the better one has the lower loss.
    """

    starts: int
    by_p50: float | None
    by_p90: float | None
    loss_p50_s: float | None
    loss_p90_s: float | None
    undecided: int
    unforeseen: int
    started_at_once: int
    in_rounds: int


@dataclass(slots=True, kw_only=True)
class Unscored:
    """How many runs have no forecast, by reason.

    ``unforeseen`` counts runs that had no planned start, ``at_once`` counts runs that started
    immediately, and ``in_rounds`` counts runs of pools that share in rounds.
    """

    unforeseen: int = 0
    at_once: int = 0
    in_rounds: int = 0


def scored_starts(
    blocks: Iterable[Sequence[Event]], *, has_executor: bool, every: int = 1
) -> tuple[list[ScoredStart], Unscored, int]:
    """Return a ledger's forecasts, the counts of runs without a forecast, and the ledger's end.

    If ``every`` is n, only each n-th waiting run is forecast, because a forecast takes as long as a
    plan.
    """
    state, unscored, waiting = State(), Unscored(), 0
    asked: list[ScoredStart] = []
    started: dict[str, int] = {}
    ended: dict[str, int] = {}
    for events in blocks:
        apply_all(state, events)
        _note(events, started, ended)
        submitted = [each.run for each in events if isinstance(each, RunSubmitted)]
        new = [run.name for run in submitted if run.rounds is None]
        unscored.in_rounds += len(submitted) - len(new)
        pending = [name for name in new if state.runs[name].phase is Phase.PENDING]
        unscored.at_once += sum(name in started for name in new)
        chosen = [name for number, name in enumerate(pending) if not (waiting + number) % every]
        waiting += len(pending)
        if chosen:
            foresight = Foresight.of(state, state.at_ms, has_executor=has_executor)
            for name in chosen:
                forecast = _forecast(foresight, state, name)
                if forecast is None:
                    unscored.unforeseen += 1
                else:
                    asked.append(forecast)
    known = [_answered(each, started, ended) for each in asked]
    return [each for each in known if each is not None], unscored, state.at_ms


def forecast_score(
    blocks: Iterable[Sequence[Event]], *, has_executor: bool, every: int = 1
) -> ForecastScore:
    """Return the score of the forecasts of a ledger; see ``scored_starts``."""
    found, unscored, end_ms = scored_starts(blocks, has_executor=has_executor, every=every)
    return score_of(found, end_ms, unscored)


def score_of(
    found: Sequence[ScoredStart], end_ms: int, unscored: Unscored | None = None
) -> ForecastScore:
    """Return the score of forecasts whose starts are known up to ``end_ms``."""
    others = unscored or Unscored()
    decided = [each for each in found if each.started_ms is not None or each.p90_ms < end_ms]
    came = [(each, each.started_ms) for each in decided if each.started_ms is not None]
    return ForecastScore(
        starts=len(decided),
        by_p50=_part([at_ms <= each.p50_ms for each, at_ms in came], len(decided)),
        by_p90=_part([at_ms <= each.p90_ms for each, at_ms in came], len(decided)),
        loss_p50_s=_mean(_loss(at_ms - each.p50_ms, 1, 2) for each, at_ms in came),
        loss_p90_s=_mean(_loss(at_ms - each.p90_ms, 9, 10) for each, at_ms in came),
        undecided=len(found) - len(decided),
        unforeseen=others.unforeseen,
        started_at_once=others.at_once,
        in_rounds=others.in_rounds,
    )


def _note(events: Sequence[Event], started: dict[str, int], ended: dict[str, int]) -> None:
    for event in events:
        if isinstance(event, LeaseStarted) and event.role is not Role.SPARE:
            started.setdefault(event.run, event.start_ms)
        elif isinstance(event, RunEnded):
            ended[event.run] = event.at_ms


def _forecast(foresight: Foresight, state: State, name: str) -> ScoredStart | None:
    """Return the forecast for a run that waits; None if it has no planned start."""
    record = state.runs[name]
    quantiles = _quantiles(foresight, state, record)
    if quantiles is None:
        return None
    return ScoredStart(
        run=name,
        owner=record.spec.owner,
        asked_ms=state.at_ms,
        p50_ms=quantiles.p50_ms,
        p90_ms=quantiles.p90_ms,
        started_ms=None,
    )


def _quantiles(foresight: Foresight, state: State, record: RunRecord) -> StartQuantiles | None:
    """Return the quantiles that ``quorate plan`` shows for a run's planned start.

    Return None if the plan has no start or only a bound on the start, or if the start needs a
    conflict.
    """
    foreseen = foresight.start_of(record)
    if foreseen.state not in {PlanState.FIRM, PlanState.TENTATIVE}:
        return None
    if record.reservation is not None and state.reservations[record.reservation].by_conflict:
        return None
    return quantiles_of(foresight.walk.plan, foreseen.entry)


def _answered(
    each: ScoredStart, started: dict[str, int], ended: dict[str, int]
) -> ScoredStart | None:
    """Return a forecast with the actual start; None if the run ended without a start."""
    if each.run not in started and each.run in ended:
        return None
    return ScoredStart(
        run=each.run,
        owner=each.owner,
        asked_ms=each.asked_ms,
        p50_ms=each.p50_ms,
        p90_ms=each.p90_ms,
        started_ms=started.get(each.run),
    )


def _part(verdicts: Sequence[bool], of: int) -> float | None:
    return sum(verdicts) / of if of else None


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return math.fsum(known) / len(known) if known else None


def _loss(late_ms: int, part: int, of: int) -> float:
    """Return the loss, in seconds, of a forecast whose run started ``late_ms`` after it.

    The forecast is the quantile ``part / of`` of the start. If ``late_ms`` is negative, the run
    started early.
    """
    weight = part if late_ms > 0 else of - part
    return abs(late_ms) * weight / of / SECOND_MS
