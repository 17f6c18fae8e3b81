"""The figures of one outcome: durations and waits of runs, use of GPUs, shares of owners.

Figures of runs (completion times, waits, fairness, deadlines, preemptions) include only runs that
are measured and were submitted in the window. Figures of the fleet (makespan, cost, utilisation,
shares, queue, idle GPUs) cover the window and include all runs, because runs that are not measured
used GPUs too. Percentiles are by nearest rank, so each is the value of some run. Times are in
seconds, computed from whole milliseconds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from quorate.core.accounting.wait_causes import WaitCause
from quorate.model.amounts import HOUR_MS, SECOND_MS
from quorate.sim.outcome import Outcome, SimulatedRun
from quorate.sim.report.fragments import idle_while_wanted
from quorate.sim.report.timelines import (
    Cumulated,
    area,
    busy,
    capacity,
    demanded,
    edges_of,
    waiting,
)

SIZES: Final = ((1, 1), (2, 4), (5, 8), (9, 16), (17, 64))
"""The bounds of the classes of runs by their GPUs; still larger runs are in one further class."""
SHARE_PARTS: Final = 100
"""The number of parts of the window in which shares are compared with targets."""
_DONE: Final = 1e-9
"""The part of its steps that a complete run may lack, because rates are floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The measured time: from ``from_ms`` to ``to_ms``. The time before is warm-up."""

    from_ms: int
    to_ms: int

    def __post_init__(self) -> None:
        assert self.from_ms <= self.to_ms, self


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The distribution of a figure over runs."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerShare:
    """An owner's part of the used GPU time, and the owner's target."""

    gpu_hours: float
    share: float
    target: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The figures of one outcome. A distribution over no runs is None.

    ``finish_time_fairness`` is the time of a run from submission to end, divided by its fair time.
    The fair time is the run's duration when it works alone. If more GPUs were requested than
    existed during the run's life, the fair time is multiplied by the ratio of requested to existing
    GPUs. ``idle_while_wanted`` is the part of the capacity that was idle while a waiting run asked
    for no more GPUs than were idle; each flavor is examined separately. ``share_gap`` is the mean
    distance of shares from their targets over time, from 0 to 1; None if no owner has a target.
    ``cost_unit`` is as in the outcome. ``estimated`` are the fields that are estimates.
    """

    name: str
    seed: int
    runs: int
    completed: int
    jct_s: Spread | None
    jct_by_size_s: Mapping[str, Spread]
    jct_by_owner_s: Mapping[str, Spread]
    makespan_s: float
    utilisation: float
    utilisation_by_flavor: Mapping[str, float]
    wait_s: Spread | None
    waits_by_cause_s: Mapping[WaitCause, float]
    finish_time_fairness: Spread | None
    shares: Mapping[str, OwnerShare]
    share_gap: float | None
    slo_runs: int
    slo_violations: int
    cost: float
    cost_unit: str
    preemptions: int
    lost_gpu_hours: float
    draws: int
    idle_while_wanted: float
    queue_mean: float
    estimated: tuple[str, ...]


def whole(outcome: Outcome, *, warm_up: float = 0.0) -> Window:
    """Return the window of all of ``outcome``, without the warm-up at its beginning.

    ``warm_up`` is the length of the warm-up, as a part of the whole time: from 0 to below 1.
    """
    assert 0 <= warm_up < 1, warm_up
    span_ms = outcome.ended_ms - outcome.started_ms
    return Window(from_ms=outcome.started_ms + int(span_ms * warm_up), to_ms=outcome.ended_ms)


def metrics_of(outcome: Outcome, window: Window | None = None) -> Metrics:
    """Return the figures of ``outcome`` in ``window``; None means the whole outcome."""
    window = whole(outcome) if window is None else window
    every = [r for r in outcome.runs if window.from_ms <= r.submitted_ms <= window.to_ms]
    measured = outcome.measured
    runs = every if measured is None else [run for run in every if run.name in measured]
    done = [run for run in runs if is_complete(run)]
    flavors = sorted({step.flavor for step in outcome.capacity})
    due = [run for run in runs if run.deadline_ms is not None]
    causes: Counter[WaitCause] = Counter()
    for run in runs:
        causes.update(run.waits_ms)
    queue_ms = area(waiting(outcome), window.from_ms, window.to_ms)
    return Metrics(
        name=outcome.name,
        seed=outcome.seed,
        runs=len(runs),
        completed=len(done),
        jct_s=spread_of(_jct_s(run) for run in done),
        jct_by_size_s=_by(done, lambda run: size_class(run.gpus), [size_class(n) for n in _EACH]),
        jct_by_owner_s=_by(done, lambda run: run.owner, sorted({run.owner for run in done})),
        makespan_s=_makespan_s([run for run in every if is_complete(run)]),
        utilisation=_utilisation(outcome, window, None),
        utilisation_by_flavor={each: _utilisation(outcome, window, each) for each in flavors},
        wait_s=spread_of(sum(run.waits_ms.values()) / SECOND_MS for run in runs),
        waits_by_cause_s={each: causes[each] / SECOND_MS for each in WaitCause if causes[each]},
        finish_time_fairness=spread_of(fairness_of(outcome, done).values()),
        shares=shares_of(outcome, window),
        share_gap=_share_gap(outcome, window),
        slo_runs=len(due),
        slo_violations=sum(_is_late(run, outcome.ended_ms) for run in due),
        cost=math.fsum(run.cost for run in every),
        cost_unit=outcome.cost_unit,
        preemptions=sum(run.preemptions for run in runs),
        lost_gpu_hours=sum(run.lost_gpu_ms for run in runs) / HOUR_MS,
        draws=outcome.draws,
        idle_while_wanted=_ratio(idle_while_wanted(outcome, window.from_ms, window.to_ms),
                                 area(capacity(outcome), window.from_ms, window.to_ms)),
        queue_mean=_ratio(queue_ms, window.to_ms - window.from_ms),
        estimated=outcome.estimated,
    )  # fmt: skip


def is_complete(run: SimulatedRun) -> bool:
    """Return whether ``run`` ended with all of its work done."""
    return run.ended_ms is not None and run.steps_done >= run.steps_asked * (1 - _DONE)


def spread_of(values: Iterable[float]) -> Spread | None:
    """Return the distribution of ``values``; None if there are no values."""
    ranked = sorted(values)
    if not ranked:
        return None
    return Spread(
        count=len(ranked),
        mean=math.fsum(ranked) / len(ranked),
        p50=percentile(ranked, 50),
        p90=percentile(ranked, 90),
        p99=percentile(ranked, 99),
        most=ranked[-1],
    )


def percentile(ranked: Sequence[float], percent: int) -> float:
    """Return a percentile of the ascending values ``ranked``, by nearest rank."""
    return ranked[max(0, -(-percent * len(ranked) // 100) - 1)]


def size_class(gpus: int) -> str:
    """Return the class of a run with ``gpus`` GPUs, such as ``2-4 GPUs``."""
    for low, high in SIZES:
        if gpus <= high:
            return "1 GPU" if high == 1 else f"{low}-{high} GPUs"
    return f"over {SIZES[-1][1]} GPUs"


_EACH: Final = (*(high for _, high in SIZES), SIZES[-1][1] + 1)


def fairness_of(outcome: Outcome, runs: Iterable[SimulatedRun]) -> dict[str, float]:
    """Return the finish-time fairness of each completed run of ``runs``, by name."""
    wanted, there = Cumulated.of(demanded(outcome)), Cumulated.of(capacity(outcome))
    found: dict[str, float] = {}
    for run in runs:
        assert run.ended_ms is not None, run.name
        if run.ideal_ms <= 0 or run.ended_ms <= run.submitted_ms:
            continue
        gpu_ms = there.between(run.submitted_ms, run.ended_ms)
        crowd = max(1.0, _ratio(wanted.between(run.submitted_ms, run.ended_ms), gpu_ms))
        found[run.name] = (run.ended_ms - run.submitted_ms) / (run.ideal_ms * crowd)
    return found


def shares_of(outcome: Outcome, window: Window) -> dict[str, OwnerShare]:
    """Return each owner's part of the GPU time that was used in ``window``."""
    used = {
        owner: area(busy(runs), window.from_ms, window.to_ms)
        for owner, runs in runs_by_owner(outcome).items()
    }
    for owner in outcome.shares_targets:
        used.setdefault(owner, 0)
    total = sum(used.values())
    return {
        owner: OwnerShare(
            gpu_hours=gpu_ms / HOUR_MS,
            share=_ratio(gpu_ms, total),
            target=outcome.shares_targets.get(owner),
        )
        for owner, gpu_ms in sorted(used.items())
    }


def runs_by_owner(outcome: Outcome) -> dict[str, list[SimulatedRun]]:
    """Return the runs of each owner, in the order of ``outcome``."""
    found: dict[str, list[SimulatedRun]] = {}
    for run in outcome.runs:
        found.setdefault(run.owner, []).append(run)
    return found


def _by(
    runs: Iterable[SimulatedRun], key: Callable[[SimulatedRun], str], order: Iterable[str]
) -> dict[str, Spread]:
    """Return the completion times of each group of ``runs``, in ``order``."""
    groups: dict[str, list[float]] = {name: [] for name in order}
    for run in runs:
        groups[key(run)].append(_jct_s(run))
    found = {name: spread_of(values) for name, values in groups.items()}
    return {name: spread for name, spread in found.items() if spread is not None}


def _share_gap(outcome: Outcome, window: Window) -> float | None:
    """Return the gap between the owners' shares and their targets, averaged over time.

    The window is divided into short parts. The gap in one part is half the sum of |share - target|
    over all owners.
    """
    if not outcome.shares_targets or window.to_ms <= window.from_ms:
        return None
    edges = edges_of(window.from_ms, window.to_ms, SHARE_PARTS)
    lines = {owner: Cumulated.of(busy(runs)) for owner, runs in runs_by_owner(outcome).items()}
    gaps: list[float] = []
    for from_ms, to_ms in pairwise(edges):
        used = {owner: line.between(from_ms, to_ms) for owner, line in lines.items()}
        total = sum(used.values())
        if total:
            gaps.append(
                sum(
                    abs(used.get(owner, 0) / total - target)
                    for owner, target in outcome.shares_targets.items()
                )
                / 2
            )
    return math.fsum(gaps) / len(gaps) if gaps else None


def _utilisation(outcome: Outcome, window: Window, flavor: str | None) -> float:
    used = area(busy(outcome.runs, flavor), window.from_ms, window.to_ms)
    return _ratio(used, area(capacity(outcome, flavor), window.from_ms, window.to_ms))


def _makespan_s(done: Sequence[SimulatedRun]) -> float:
    if not done:
        return 0.0
    last_ms = max(run.ended_ms for run in done if run.ended_ms is not None)
    return (last_ms - min(run.submitted_ms for run in done)) / SECOND_MS


def _jct_s(run: SimulatedRun) -> float:
    assert run.ended_ms is not None, run.name
    return (run.ended_ms - run.submitted_ms) / SECOND_MS


def _is_late(run: SimulatedRun, now_ms: int) -> bool:
    assert run.deadline_ms is not None, run.name
    return (now_ms if run.ended_ms is None else run.ended_ms) > run.deadline_ms


def _ratio(part: float, of: float) -> float:
    return part / of if of else 0.0
