"""Max-min fairness: the worst-off job is as well off as possible (Gavel, section 4.1).

The measure of a job is (scale x rate) / (weight x rate with the same part of every flavor). Several
allocations can be best for the worst-off job. Of these, the policy takes the one with the largest
sum of the measures. Otherwise GPUs could be idle, or jobs could be on slow GPUs, although no job
gains by this.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from quorate.policy.allocation import Allocation, Unsolved
from quorate.policy.policies.even_mix import evenly_mixed
from quorate.policy.policy_type import Policy
from quorate.policy.problem import Floats, Problem
from quorate.policy.solvers.highest import Aim, highest
from quorate.policy.solvers.levels import Linear


def proportional_rates(problem: Problem) -> Floats:
    """Return each job's rate if its time is divided among flavors by their numbers of GPUs.

    The sum is computed flavor by flavor, so that the rates of equal jobs are equal to the last bit.
    """
    total = float(problem.gpus.sum())
    rates = np.zeros(len(problem.rates))
    for column, gpus in zip(problem.rates.T, problem.gpus, strict=True):
        rates += column * (float(gpus) / total)
    return rates


def fair_needs(problem: Problem, _jobs: int) -> Linear:
    """Return the rate that each job needs: level * weight * proportional rate / scale."""
    growth = problem.weights * proportional_rates(problem) / problem.scales
    return Linear(floor=np.zeros(len(growth)), growth=growth)


def _share_needs(problem: Problem, _jobs: int) -> Linear:
    growth = problem.weights / problem.scales
    return Linear(floor=np.zeros(len(growth)), growth=growth)


def _fair_worth(problem: Problem) -> Floats:
    growth = fair_needs(problem, len(problem.jobs)).growth
    worth: Floats = np.divide(1.0, growth, out=np.zeros(len(growth)), where=growth > 0)
    return worth


FAIRNESS: Final = Aim(reads=("rates", "scales", "weights"), needs=fair_needs)
EFFICIENCY: Final = replace(FAIRNESS, worth=_fair_worth)
"""Like ``FAIRNESS``, but of several best allocations the one with most total worth is taken."""
EQUALITY: Final = Aim(reads=("rates", "scales", "weights"), needs=_share_needs)
"""Like ``FAIRNESS``, but a share of time is worth the same on every flavor."""


def any_flavor(problem: Problem) -> Floats:
    """Return a rate of 1 on each flavor on which a job makes progress, and 0 on the others.

    The published policy uses a rate of 1 on all flavors, and so gives jobs GPUs on which they make
    no progress.
    """
    return (problem.rates > 0).astype(np.float64)


def _packed(problem: Problem) -> Allocation | Unsolved:
    return highest(problem, EFFICIENCY)


def _perf(problem: Problem) -> Allocation | Unsolved:
    return highest(replace(problem, pairs=None), EFFICIENCY)


def as_solved(problem: Problem) -> Allocation | Unsolved:
    """Return that best allocation which the solver finds first, as the published policy does."""
    return highest(problem, FAIRNESS)


def _agnostic(problem: Problem) -> Allocation | Unsolved:
    found = highest(replace(problem, rates=any_flavor(problem), pairs=None), EQUALITY)
    return found if isinstance(found, Unsolved) else evenly_mixed(problem, found)


MAX_MIN: Final = (
    Policy(
        name="max_min_fairness",
        goal="an equal part of the GPUs for every job, by weight, whatever their flavor",
        solve=_agnostic,
        metric="least share",
        reads_progress=False,
    ),
    Policy(
        name="max_min_fairness_perf",
        goal="makes the job that is worst off as fast as possible, by weight",
        solve=_perf,
        metric="least normalised rate",
        reads_progress=False,
    ),
    Policy(
        name="max_min_fairness_packed",
        goal="like max_min_fairness_perf, but two jobs may share GPUs",
        solve=_packed,
        metric="least normalised rate",
        reads_pairs=True,
        jobs_max=3_000,
        reads_progress=False,
    ),
)
