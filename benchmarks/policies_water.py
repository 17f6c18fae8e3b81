"""The time of water filling with entities, compared with the published method.

There are 512 jobs of 26 kinds, in five entities of weights 1 to 5. Each of three flavors has a
twentieth of a GPU per job, so that GPUs are short. The published loop solves a cone program for
each level, and then an integer program that finds the stuck jobs. The loop is repeated here with
all its parameters, but with HiGHS instead of GLPK, which takes minutes. The loop needs cvxpy and
ECOS (the dependency group `gavel`); without them only Quorate's figure is reported.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.figure import Baseline, Effort, Figure, cpu_s, median_of
from quorate.policy.allocation import Allocation, job_rates
from quorate.policy.policies.water_filling import water_filling
from quorate.policy.problem import Entity, Floats, Problem

KINDS = 26
ENTITIES = 5
SLACK = 1.0001
"""In the published loop, a job that gains less than this counts as stuck."""
EDGE = 1e-5
"""The published distance between rising and stuck jobs, here relative to the level. With the
published absolute distance, the program has no answer for levels below 0.1, and all jobs count as
stuck."""

CHOICE_S = 20.0
"""The limit of the search for stuck jobs; if it is reached, the figure is a lower bound."""


def measure(effort: Effort) -> list[Figure]:
    """Return the time of water filling with entities, and the factor of the published method."""
    jobs = effort.of(512, 64)
    problem = instance(jobs)
    mine_s = median_of(effort.of(9, 3), lambda: cpu_s(lambda: _filled(problem)))
    larger = instance(effort.of(2_048, 128))
    larger_s = cpu_s(lambda: _filled(larger))
    unlike = unlike_instance(jobs)
    details: dict[str, float | int | str] = {
        f"ms with {len(larger.jobs)} jobs": 1e3 * larger_s,
        "ms with no two jobs alike": 1e3 * cpu_s(lambda: _filled(unlike)),
    }
    if find_spec("cvxpy") is None or find_spec("ecos") is None:
        print("cvxpy and ecos are not installed, so there is no comparison")
        return [_figure(jobs, mine_s, None, details)]
    published = Published(problem)
    theirs_s = cpu_s(published.fill)
    off = float(np.abs(published.filled / _filled(problem) - 1.0).max())
    assert off < 10 * (SLACK - 1), f"the two fillings differ by {off:.1e}"
    return [
        _figure(jobs, mine_s, theirs_s, details),
        Figure(
            name=f"water filling, {jobs} jobs, over cvxpy + ECOS + MILP",
            unit="x",
            value=theirs_s / mine_s,
            better="more",
            target=20,
            details={
                "most relative difference": off,
                "MILPs stopped": published.given_up,
                "levels": published.levels,
                "ms of its cone programs alone": 1e3 * published.cone_s,
            },
        ),
    ]


def _figure(
    jobs: int, mine_s: float, theirs_s: float | None, details: dict[str, float | int | str]
) -> Figure:
    beside = None if theirs_s is None else Baseline("cvxpy + ECOS + MILP", 1e3 * theirs_s)
    return Figure(
        name=f"water filling, {jobs} jobs, {ENTITIES} entities",
        unit="ms",
        value=1e3 * mine_s,
        better="less",
        baseline=beside,
        details=details,
    )


def instance(jobs: int) -> Problem:
    """Return a problem with scarce GPUs, and rates distributed like measured rates."""
    chance = np.random.default_rng(0)
    kinds = np.exp(chance.uniform(0.0, 5.0, (KINDS, 1)))
    kinds = kinds * np.column_stack(
        [
            np.ones(KINDS),
            chance.uniform(0.35, 1.2, KINDS),
            chance.uniform(0.08, 0.6, KINDS),
        ]
    )
    rows = np.arange(jobs)
    return Problem(
        flavors=("fast", "middling", "slow"),
        gpus=np.full(3, max(1, jobs // 20), dtype=np.int64),
        jobs=tuple(f"job{row}" for row in rows),
        rates=kinds[chance.integers(0, KINDS, jobs)],
        scales=np.ones(jobs, dtype=np.int64),
        weights=np.ones(jobs),
        steps_left=np.ones(jobs),
        ages_s=np.zeros(jobs),
        isolated_s=np.zeros(jobs),
        deadlines_s=np.full(jobs, np.inf),
        entities=tuple(Entity(name=f"e{k}", weight=float(k + 1)) for k in range(ENTITIES)),
        entity_of=chance.integers(0, ENTITIES, jobs),
    )


def unlike_instance(jobs: int) -> Problem:
    """Return ``instance`` with every rate changed by up to a tenth, so that all jobs differ."""
    problem = instance(jobs)
    chance = np.random.default_rng(1)
    return replace(problem, rates=problem.rates * chance.uniform(0.9, 1.1, problem.rates.shape))


def _filled(problem: Problem) -> Floats:
    """Return the level of each job by Quorate's water filling."""
    found = water_filling(problem, paired=False)
    assert isinstance(found, Allocation), found
    return job_rates(problem, found) / _equal(problem)


def _equal(problem: Problem) -> Floats:
    found: Floats = problem.rates @ problem.gpus / problem.gpus.sum()
    return found


class Published:
    """The published loop: a cone program for each level, and an integer program for stuck jobs."""

    def __init__(self, problem: Problem) -> None:
        self._cp: Any = import_module("cvxpy")
        self._problem = problem
        jobs = len(problem.jobs)
        self._most = 2 * float((problem.rates / _equal(problem)[:, None]).max())
        self.filled: Floats = np.zeros(jobs)
        self._stuck = np.zeros(jobs, dtype=bool)
        self._known = _filled(problem)
        self.levels, self.given_up, self.cone_s = 0, 0, 0.0

    def fill(self) -> None:
        """Raise levels until all jobs are stuck, or no further job becomes stuck."""
        with warnings.catch_warnings():
            # cvxpy suggests fewer parameters; these are the published ones.
            warnings.simplefilter("ignore")
            self._write()
            while not self._stuck.all():
                before = int(self._stuck.sum())
                self.cone_s += cpu_s(self._rise)
                self._freeze()
                self.levels += 1
                if int(self._stuck.sum()) == before:
                    return

    def _weights(self) -> Floats:
        found = np.zeros(len(self._stuck))
        of_jobs = self._problem.entity_of
        assert of_jobs is not None
        for number, entity in enumerate(self._problem.entities):
            rising = ~self._stuck & (of_jobs == number)
            weights = self._problem.weights[rising]
            found[rising] = entity.weight * weights / weights.sum()
        return found

    def _write(self) -> None:
        cp, jobs = self._cp, len(self._stuck)
        self._base, self._floor = cp.Parameter(jobs), cp.Parameter(jobs)
        self._times, self._plus, self._mask = (cp.Parameter(jobs) for _ in range(3))
        filled, limits = self._space()
        limits.append(filled >= self._floor)
        least = cp.min(cp.multiply(filled - self._base, self._times) + self._plus)
        self._level = cp.Problem(cp.Maximize(least), limits)
        filled, limits = self._space()
        self._rises = cp.Variable(jobs, boolean=True)
        limits += [
            self._most * self._rises >= filled - (SLACK - EDGE) * self._base,
            self._most * (1 - self._rises) >= SLACK * self._base - filled,
            filled >= self._floor,
            cp.multiply(self._mask, self._rises) == 0,
        ]
        self._choice = cp.Problem(cp.Maximize(cp.sum(self._rises)), limits)

    def _space(self) -> tuple[Any, list[Any]]:
        cp, problem = self._cp, self._problem
        shares = cp.Variable(problem.rates.shape)
        rates = problem.rates / _equal(problem)[:, None]
        filled = cp.sum(cp.multiply(rates, shares), axis=1)
        scales = problem.scales[:, None] * np.ones(problem.rates.shape)
        limits = [
            shares >= 0,
            cp.sum(shares, axis=1) <= 1,
            cp.sum(cp.multiply(scales, shares), axis=0) <= problem.gpus,
        ]
        return filled, limits

    def _rise(self) -> None:
        weights = self._weights()
        rising = weights > 0
        pace = weights / self._problem.scales
        self._base.value, self._floor.value = self.filled, self.filled
        self._times.value = np.where(rising, 1.0 / np.where(rising, pace, 1.0), 0.0)
        self._plus.value = np.where(rising, 0.0, self._most * len(rising))
        self._level.solve(solver="ECOS")
        self.filled = self.filled + float(self._level.value) * pace

    def _freeze(self) -> None:
        self._base.value, self._floor.value = self.filled, self.filled * (1 - 1e-6)
        self._mask.value = self._stuck.astype(np.float64)
        self._choice.solve(solver="HIGHS", time_limit=CHOICE_S)
        if self._choice.status == "optimal":
            self._stuck |= np.asarray(self._rises.value) < 1 / 2
        else:
            self.given_up += 1
            self._stuck |= self.filled >= self._known * (1 - EDGE)
