"""Makespan: the last job ends as early as possible (Gavel, section 4.2).

The makespan is the time until the last job ends. Every job gets a rate in proportion to its
remaining steps, with the highest possible factor. One linear program finds this factor, and the
makespan is its inverse. The published policy searches for the makespan, and stops within 5 % of the
least; this module finds the least.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from quorate.policy.allocation import Allocation, Method, Unsolved, alone
from quorate.policy.policies.even_mix import evenly_mixed
from quorate.policy.policy_type import Policy
from quorate.policy.problem import Floats, Problem
from quorate.policy.solvers.highest import Aim, highest, turned
from quorate.policy.solvers.levels import Linear


def _needs(problem: Problem, _jobs: int) -> Linear:
    return Linear(floor=np.zeros(len(problem.jobs)), growth=problem.steps_left)


SPEED: Final = Aim(reads=("rates", "scales", "steps_left"), needs=_needs)


def _packed(problem: Problem) -> Allocation | Unsolved:
    if len(problem.jobs) and not np.any(problem.steps_left > 0):
        return alone(np.zeros(problem.shape), objective=0.0, bound=0.0, method=Method.RULE)
    found = highest(problem, SPEED)
    if isinstance(found, Unsolved):
        return found
    return turned(found, lambda level: 1.0 / level, -1.0 / found.objective**2)


def _perf(problem: Problem) -> Allocation | Unsolved:
    return _packed(replace(problem, pairs=None))


def _agnostic(problem: Problem) -> Allocation | Unsolved:
    found = _perf(replace(problem, rates=reference_rates(problem)))
    return found if isinstance(found, Unsolved) else evenly_mixed(problem, found)


def reference_rates(problem: Problem) -> Floats:
    """Return rates by which each job is as fast on all its flavors as on the first of these.

    The published policy uses the rate on one named flavor for all flavors, even for flavors on
    which a job cannot run. So jobs get GPUs that they cannot use.
    """
    moves = problem.rates > 0
    first = moves.argmax(axis=1)[:, None]
    rates: Floats = np.where(moves, np.take_along_axis(problem.rates, first, axis=1), 0.0)
    return rates


MIN_TOTAL_DURATION: Final = (
    Policy(
        name="min_total_duration",
        goal="the last job ends as early as possible, as if all flavors were as fast as the first",
        solve=_agnostic,
        metric="makespan_s",
        is_least=True,
        reads_steps=True,
        is_for_the_last=True,
    ),
    Policy(
        name="min_total_duration_perf",
        goal="the last job ends as early as possible",
        solve=_perf,
        metric="makespan_s",
        is_least=True,
        reads_steps=True,
        is_for_the_last=True,
    ),
    Policy(
        name="min_total_duration_packed",
        goal="like min_total_duration_perf, but two jobs may share GPUs",
        solve=_packed,
        metric="makespan_s",
        is_least=True,
        reads_steps=True,
        is_for_the_last=True,
        reads_pairs=True,
        jobs_max=700,
    ),
)
