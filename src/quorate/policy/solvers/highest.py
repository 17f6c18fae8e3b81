"""Finds the highest level that all jobs of a problem can reach, by the fastest method.

With few classes of equal jobs, a linear program of the classes is fastest. With many different
jobs, the price method is fastest. With few jobs, or if equal jobs differ in their pairs, the plain
linear program is fastest. The plain linear program is also used if the price method runs out of
passes. A test checks that all three methods find the same level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from quorate.policy.allocation import (
    ALONE,
    Allocation,
    Method,
    Unsolved,
    UnsolvedCode,
    solver_failed,
)
from quorate.policy.askable import without_anything
from quorate.policy.class_demand import (
    PairShares,
    demand_of,
    demand_of_classes,
    pairs_of_jobs,
    pairs_of_members,
)
from quorate.policy.classes import Classes, classes_of, members_of
from quorate.policy.problem import Floats, Problem
from quorate.policy.solvers.levels import Demand, Levelled, Needs
from quorate.policy.solvers.lp import Status
from quorate.policy.solvers.plain_program import level_by_program
from quorate.policy.solvers.prices import level_by_prices

CLASSES_MAX: Final = 1_000
"""The search for classes ends if there are more classes than this."""
PAIRED_CLASSES_MAX: Final = 120
"""If there are more classes than this, a linear program of their pairs would be too large."""
PROGRAM_MAX: Final = 300
"""Up to this many rows, the linear program is faster than the price method."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """The aim of a policy that raises a level: the job fields that it reads, and jobs' needs.

    ``needs`` gets the number of all jobs, and a problem with all jobs or with one member of each
    class. ``worth`` returns the worth of one unit of each job's rate. If ``worth`` is given, the
    result has the largest total worth among the allocations that reach the highest level.
    """

    reads: tuple[str, ...]
    needs: Callable[[Problem, int], Needs]
    worth: Callable[[Problem], Floats] | None = None

    def worth_of(self, problem: Problem, demand: Demand) -> Floats | None:
        """Return the worth of each row of ``demand``. ``problem`` has one job of each row."""
        if self.worth is None:
            return None
        # The worth of a class is the worth of all its members, because its load is the GPUs of all
        # members.
        worth: Floats = self.worth(problem) * (demand.loads / problem.scales)
        return worth


def highest(
    problem: Problem, aim: Aim, ways: frozenset[Method] | None = None
) -> Allocation | Unsolved:
    """Return shares at the highest level that all jobs can reach; this level is the objective.

    ``ways`` has the methods to try; None means all. The plain linear program may be tried in any
    case. Pairs are used if ``problem`` has any.
    """
    refusal = without_anything(problem)
    if refusal is not None:
        return refusal
    is_packed = problem.pairs is not None and len(problem.pairs) > 0
    if ways is None or Method.CLASSES in ways:
        classes = classes_of(problem, aim.reads, PAIRED_CLASSES_MAX if is_packed else CLASSES_MAX)
        is_worth_it = ways is not None or (
            classes is not None and 2 * len(classes) <= len(problem.jobs)
        )
        if classes is not None and is_worth_it:
            demand = demand_of_classes(problem, classes)
            if demand is not None:
                return _by_classes(problem, aim, classes, demand)
    idle = _idle(problem)
    if idle is not None:
        return idle
    needs = aim.needs(problem, len(problem.jobs))
    demand = demand_of(problem)
    is_small = len(problem.jobs) <= PROGRAM_MAX and ways is None
    if not is_packed and not is_small and (ways is None or Method.PRICES in ways):
        found = level_by_prices(demand, needs)
        if found is not None:
            return _allocation(found, found.shares, None, Method.PRICES)
    return _by_program(demand, needs, aim.worth_of(problem, demand))


def _by_program(demand: Demand, needs: Needs, worth: Floats | None) -> Allocation | Unsolved:
    found = level_by_program(demand, needs, worth)
    if isinstance(found, Status):
        return _failed(found)
    rows = len(demand.rates)
    pairs = None if demand.together is None else pairs_of_jobs(demand.together, found.shares[rows:])
    return _allocation(found, found.shares[:rows], pairs, Method.LINEAR_PROGRAM)


def _by_classes(
    problem: Problem, aim: Aim, classes: Classes, demand: Demand
) -> Allocation | Unsolved:
    some = members_of(problem, classes.first)
    idle = _idle(some)
    if idle is not None:
        return idle
    needs = aim.needs(some, len(problem.jobs))
    found = None
    if demand.together is None and len(classes) > PROGRAM_MAX:
        found = level_by_prices(demand, needs)
    if found is None:
        solved = level_by_program(demand, needs, aim.worth_of(some, demand))
        if isinstance(solved, Status):
            return _failed(solved)
        found = solved
    rows = len(classes)
    pairs = None
    if demand.together is not None:
        pairs = pairs_of_members(demand.together, classes, found.shares[rows:])
    # With millions of jobs, ``take`` is ten times as fast as indexing.
    shares = found.shares.take(classes.of, axis=0, mode="clip")
    return _allocation(found, shares, pairs, Method.CLASSES)


def _allocation(
    found: Levelled, shares: Floats, pairs: PairShares | None, method: Method
) -> Allocation:
    first = np.arange(len(shares))
    second = np.full(len(shares), ALONE)
    if pairs is not None:
        first = np.concatenate((first, pairs.first))
        second = np.concatenate((second, pairs.second))
        shares = np.concatenate((shares, pairs.shares))
    return Allocation(
        first=first,
        second=second,
        shares=shares,
        objective=found.level,
        bound=found.bound,
        method=method,
        prices=found.prices,
    )


def _idle(problem: Problem) -> Unsolved | None:
    """Return a refusal that names the first job without progress on any flavor, or None."""
    moves = (problem.rates[:, problem.gpus > 0] > 0).any(axis=1)
    if moves.all():
        return None
    job = problem.jobs[int(np.argmin(moves))]
    return Unsolved(
        code=UnsolvedCode.NEVER_RUNS,
        subject=job,
        message=f"job {job} runs on no flavor that has GPUs, so no common level is possible",
        remedy="leave the job out, or give a rate above 0 on a flavor that has GPUs",
        jobs=problem.names(np.logical_not(moves)),
    )


def _failed(status: Status) -> Unsolved:
    return solver_failed(
        f"the linear program has the status {status}",
        "look for rates, weights or remaining steps that differ by many orders of magnitude",
    )


def turned(allocation: Allocation, objective: Callable[[float], float], slope: float) -> Allocation:
    """Return the allocation with the policy's objective in place of the level.

    ``slope`` is the change of the objective per unit of the level.
    """
    prices = allocation.prices
    return replace(
        allocation,
        objective=objective(allocation.objective),
        bound=objective(allocation.bound),
        prices=None if prices is None else prices * slope + 0.0,  # Adding 0.0 turns -0.0 into 0.0.
    )
