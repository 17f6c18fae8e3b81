"""Finish-time fairness: the largest delay of any job is as small as possible (Themis).

A job's delay is its duration divided by its duration alone on an equal part of the GPUs (Gavel,
section 4.2). The level that the policy raises is minus the delay. The rate that a job needs is a
convex function of the delay, so prices and tangents find the least delay directly, without
bisection.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from quorate.policy.allocation import Allocation, Method, Unsolved, alone
from quorate.policy.policies.even_mix import evenly_mixed, to_the_middle
from quorate.policy.policies.min_total_duration import reference_rates
from quorate.policy.policy_type import Policy
from quorate.policy.problem import Floats, Problem
from quorate.policy.solvers.highest import Aim, highest, turned


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FinishTimes:
    """The rate that each job needs to end in time: ``steps / (delay * alone_s - age_s)``.

    A job without remaining steps needs no rate, whatever the delay.
    """

    steps: Floats
    ages_s: Floats
    alone_s: Floats

    @property
    def at_rest(self) -> float:
        """Minus infinity: at every finite delay, some job needs a rate above 0."""
        return -np.inf

    def at(self, level: float) -> tuple[Floats, Floats]:
        """Return the rate that each job needs at ``level``, and the growth of this need."""
        left_s = -level * self.alone_s - self.ages_s
        left_s = np.where(self.steps > 0, left_s, 1.0)
        need = self.steps / left_s
        return need, need * self.alone_s / left_s

    def reached(self, rates: Floats) -> float:
        """Return the highest level at which no job needs more than its rate."""
        rows = self.steps > 0
        ends_s = self.ages_s[rows] + self.steps[rows] / rates[rows]
        return -float(np.max(ends_s / self.alone_s[rows]))


def isolated_rates(problem: Problem, jobs: int) -> Floats:
    """Return the rate that each job has on 1 / ``jobs`` of every flavor."""
    part = problem.gpus / (jobs * problem.scales[:, None])
    time = np.zeros(len(part))
    for column in part.T:
        time += column
    rates = np.zeros(len(part))
    for column, share in zip(problem.rates.T, part.T, strict=True):
        rates += column * share
    return rates / np.maximum(1.0, time)


def _needs(problem: Problem, jobs: int) -> FinishTimes:
    isolated = isolated_rates(problem, jobs)
    return FinishTimes(
        steps=problem.steps_left,
        ages_s=problem.ages_s,
        alone_s=problem.isolated_s + problem.steps_left / isolated,
    )


PROMPTNESS: Final = Aim(
    reads=("rates", "scales", "steps_left", "ages_s", "isolated_s"), needs=_needs
)


def _packed(problem: Problem) -> Allocation | Unsolved:
    if len(problem.jobs) and not np.any(problem.steps_left > 0):
        return alone(np.zeros(problem.shape), objective=0.0, bound=0.0, method=Method.RULE)
    found = highest(problem, PROMPTNESS)
    return found if isinstance(found, Unsolved) else turned(found, lambda level: -level, -1.0)


def _perf(problem: Problem) -> Allocation | Unsolved:
    return _packed(replace(problem, pairs=None))


def _agnostic(problem: Problem) -> Allocation | Unsolved:
    found = _perf(replace(problem, rates=reference_rates(problem)))
    return found if isinstance(found, Unsolved) else evenly_mixed(problem, found, to_the_middle)


FINISH_TIME: Final = (
    Policy(
        name="finish_time_fairness",
        goal="makes the largest delay of a job small, as if all flavors were as fast as the first",
        solve=_agnostic,
        metric="greatest delay",
        is_least=True,
        reads_steps=True,
    ),
    Policy(
        name="finish_time_fairness_perf",
        goal="makes the largest delay of a job as small as possible",
        solve=_perf,
        metric="greatest delay",
        is_least=True,
        reads_steps=True,
    ),
    Policy(
        name="finish_time_fairness_packed",
        goal="like finish_time_fairness_perf, but two jobs may share GPUs",
        solve=_packed,
        metric="greatest delay",
        is_least=True,
        reads_steps=True,
        reads_pairs=True,
        jobs_max=700,
    ),
)
