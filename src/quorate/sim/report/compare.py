"""Compares outcomes by paired differences over seeds, with bootstrap intervals.

Two policies are compared on the same seeds, so that a seed is equally easy or hard for both.
Figures leave out the warm-up and the time after the last submission. No policy is called better if
the interval of the difference contains 0.

Intervals are 95 % bootstrap intervals of the mean difference. With few values, plain percentiles
give intervals that are too narrow. So the percentile levels are widened by the ratio of Student's t
to the normal distribution (expanded percentiles: T. Hesterberg, The American Statistician 69:4,
2015). With fewer than ``BOOTSTRAP_SEEDS`` seeds this is not enough: a resample never has a value
beyond the measured values, so if all values had one sign, the interval would always exclude 0. In
this case the interval is extended to include the paired t interval. Each interval is for one
figure, without correction for the number of figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random
from statistics import NormalDist, stdev
from typing import Final

from quorate.sim.outcome import Outcome
from quorate.sim.report.metrics import Metrics, Spread, Window, metrics_of

SEEDS_MIN: Final = 5
"""The least number of seeds of a comparison."""
WARM_UP: Final = 0.1
"""The default length of the warm-up, as a part of the time from the first to the last submission.
Figures leave out the jobs that were submitted in the warm-up."""
RESAMPLES: Final = 10_000
BOOTSTRAP_SEEDS: Final = 10
"""The least number of seeds for which the bootstrap interval alone is wide enough."""
NEGLIGIBLE: Final = 1e-5
"""A difference below this part of the figure is treated as rounding, because work is in whole
milliseconds."""
_T_975: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t at 97.5 % for 1 to 30 degrees of freedom."""


class CannotCompareError(ValueError):
    """The outcomes cannot be compared; the message has the reason and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure by which outcomes are compared; ``read`` returns None if an outcome lacks it.

    ``sign`` is 1 if less is better, and -1 if more is better.
    """

    key: str
    title: str
    sign: int
    read: Callable[[Metrics], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The mean over seeds by which ``second`` exceeds ``first`` in one figure.

    ``better`` names the policy that the interval shows to be better; None if the interval contains
    0.
    """

    figure: Figure
    first: str
    second: str
    mean: float
    low: float
    high: float
    by_seed: Mapping[int, float]
    better: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The figures of policies over the same seeds, and the differences of each pair of policies."""

    names: tuple[str, ...]
    seeds: tuple[int, ...]
    metrics: Mapping[tuple[str, int], Metrics]
    differences: tuple[Difference, ...]

    def mean_of(self, figure: Figure, name: str) -> float | None:
        """Return the mean of a figure over the seeds; None if the figure is missing for a seed."""
        values = [figure.read(self.metrics[name, seed]) for seed in self.seeds]
        known = [value for value in values if value is not None]
        return math.fsum(known) / len(known) if len(known) == len(values) else None


def _of(spread: Spread | None, read: Callable[[Spread], float]) -> float | None:
    return None if spread is None else read(spread)


FIGURES: Final = (
    Figure(key="jct_mean_s", title="JCT, mean (s)", sign=1,
           read=lambda m: _of(m.jct_s, lambda s: s.mean)),
    Figure(key="jct_p50_s", title="JCT, P50 (s)", sign=1,
           read=lambda m: _of(m.jct_s, lambda s: s.p50)),
    Figure(key="jct_p99_s", title="JCT, P99 (s)", sign=1,
           read=lambda m: _of(m.jct_s, lambda s: s.p99)),
    Figure(key="wait_mean_s", title="wait, mean (s)", sign=1,
           read=lambda m: _of(m.wait_s, lambda s: s.mean)),
    Figure(key="unfinished", title="runs not completed", sign=1,
           read=lambda m: m.runs - m.completed),
    Figure(key="makespan_s", title="makespan (s)", sign=1, read=lambda m: m.makespan_s),
    Figure(key="utilisation", title="utilisation", sign=-1, read=lambda m: m.utilisation),
    Figure(key="finish_time_fairness_p99", title="finish-time fairness, P99", sign=1,
           read=lambda m: _of(m.finish_time_fairness, lambda s: s.p99)),
    Figure(key="share_gap", title="share against target, gap", sign=1,
           read=lambda m: m.share_gap),
    Figure(key="slo_violations", title="SLO violations", sign=1, read=lambda m: m.slo_violations),
    Figure(key="cost", title="cost", sign=1, read=lambda m: m.cost),
    Figure(key="preemptions", title="preemptions", sign=1, read=lambda m: m.preemptions),
    Figure(key="lost_gpu_hours", title="lost work (GPU-hours)", sign=1,
           read=lambda m: m.lost_gpu_hours),
    Figure(key="idle_while_wanted", title="idle while wanted", sign=1,
           read=lambda m: m.idle_while_wanted),
)  # fmt: skip


def compare(outcomes: Iterable[Outcome], *, warm_up: float = WARM_UP) -> Comparison:
    """Return the comparison of outcomes with the same seeds.

    Policies are in the order in which they first appear. Raises ``CannotCompareError`` if there are
    fewer than two names or ``SEEDS_MIN`` seeds, if a name lacks a seed that another name has, or if
    two outcomes of one seed have or measure different runs.
    """
    if not 0 <= warm_up < 1:
        raise CannotCompareError(f"warm-up must be at least 0 and below 1, got {warm_up}")
    by_key = {(each.name, each.seed): each for each in outcomes}
    names = tuple(dict.fromkeys(name for name, _ in by_key))
    seeds = tuple(sorted({seed for _, seed in by_key}))
    _check(by_key, names, seeds)
    metrics = {
        key: metrics_of(outcome, window_of(outcome, warm_up=warm_up))
        for key, outcome in by_key.items()
    }
    found: list[Difference] = []
    for first, second in combinations(names, 2):
        for figure in FIGURES:
            by_seed = _paired(metrics, figure, first, second, seeds)
            if by_seed is not None:
                size = max(abs(figure.read(metrics[key]) or 0.0) for key in metrics)
                found.append(difference(figure, first, second, by_seed, size=size))
    return Comparison(names=names, seeds=seeds, metrics=metrics, differences=tuple(found))


def window_of(outcome: Outcome, *, warm_up: float) -> Window:
    """Return the time from the first to the last submission, without the warm-up at its beginning.

    ``warm_up`` is the length of the warm-up, as a part of this time. If all runs were submitted at
    once, the window is the whole outcome.
    """
    submitted = [run.submitted_ms for run in outcome.runs]
    if not submitted or min(submitted) == max(submitted):
        return Window(from_ms=outcome.started_ms, to_ms=outcome.ended_ms)
    first_ms, last_ms = min(submitted), max(submitted)
    return Window(from_ms=first_ms + int((last_ms - first_ms) * warm_up), to_ms=last_ms)


def difference(
    figure: Figure, first: str, second: str, by_seed: Mapping[int, float], *, size: float
) -> Difference:
    """Return the mean paired difference, its interval, and the better policy.

    ``size`` is the size of the figure: a difference that is far smaller is rounding, and makes no
    policy better.
    """
    values = list(by_seed.values())
    low, high = interval(values)
    mean = math.fsum(values) / len(values)
    better = None
    if (low > 0 or high < 0) and abs(mean) > NEGLIGIBLE * size:
        better = first if (low > 0) == (figure.sign > 0) else second
    return Difference(
        figure=figure,
        first=first,
        second=second,
        mean=mean,
        low=low,
        high=high,
        by_seed=dict(by_seed),
        better=better,
    )


def interval(values: Sequence[float], *, resamples: int = RESAMPLES) -> tuple[float, float]:
    """Return the 95 % interval of the mean of ``values``; the same values give the same interval.

    The result is the bootstrap interval. For few values, the result is extended to include
    Student's t interval.
    """
    count = len(values)
    assert count > 1, values
    chance = Random(count)
    ranked = sorted(math.fsum(chance.choices(values, k=count)) / count for _ in range(resamples))
    level = NormalDist().cdf(-math.sqrt(count / (count - 1)) * _student_t(count - 1))
    index = min(int(level * resamples), resamples - 1)
    low, high = ranked[index], ranked[resamples - 1 - index]
    if count >= BOOTSTRAP_SEEDS:
        return low, high
    mean = math.fsum(values) / count
    half = _student_t(count - 1) * stdev(values) / math.sqrt(count)
    return min(low, mean - half), max(high, mean + half)


def _student_t(freedom: int) -> float:
    """Return Student's t at 97.5 %; beyond the table, from the first terms of a series."""
    if freedom <= len(_T_975):
        return _T_975[freedom - 1]
    z = NormalDist().inv_cdf(0.975)
    return z + (z**3 + z) / (4 * freedom)


def _paired(
    metrics: Mapping[tuple[str, int], Metrics],
    figure: Figure,
    first: str,
    second: str,
    seeds: Sequence[int],
) -> dict[int, float] | None:
    """Return the difference for each seed; None if a seed lacks the figure."""
    found: dict[int, float] = {}
    for seed in seeds:
        one, other = figure.read(metrics[first, seed]), figure.read(metrics[second, seed])
        if one is None or other is None:
            return None
        found[seed] = other - one
    return found


def _check(
    by_key: Mapping[tuple[str, int], Outcome], names: Sequence[str], seeds: Sequence[int]
) -> None:
    if len(names) < 2:  # noqa: PLR2004 - a comparison is of two
        raise CannotCompareError(
            f"there are outcomes of {len(names)} policies; name two or more to compare"
        )
    if len(seeds) < SEEDS_MIN:
        raise CannotCompareError(
            f"there are {len(seeds)} seeds; use at least {SEEDS_MIN}, for example --seeds 0-4"
        )
    for name in names:
        missing = [seed for seed in seeds if (name, seed) not in by_key]
        if missing:
            raise CannotCompareError(
                f"policy {name!r} has no outcome of seed {missing[0]}; simulate it with that seed"
            )
    for seed in seeds:
        first = by_key[names[0], seed]
        submitted, measured = _submissions(first), _measured(first)
        for name in names[1:]:
            which = f"seed {seed}: {names[0]!r} and {name!r}"
            if _submissions(by_key[name, seed]) != submitted:
                raise CannotCompareError(
                    f"{which} had different runs; give both the same trace or generator"
                )
            if _measured(by_key[name, seed]) != measured:
                raise CannotCompareError(
                    f"{which} measured different runs; measure the same runs of both"
                )


def _submissions(outcome: Outcome) -> dict[str, int]:
    """Return the time of each run's submission, counted from the first submission."""
    first_ms = min((run.submitted_ms for run in outcome.runs), default=0)
    return {run.name: run.submitted_ms - first_ms for run in outcome.runs}


def _measured(outcome: Outcome) -> frozenset[str]:
    """Return the names of the runs from which figures are computed."""
    names = frozenset(run.name for run in outcome.runs)
    return names if outcome.measured is None else names & outcome.measured
