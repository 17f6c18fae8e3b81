"""An allocation: for each job and flavor, the part of its time in which the job has GPUs.

The allocation also has the value of the policy's objective, a bound on this value, and the gain
from one more GPU of each flavor. If a policy cannot solve a problem, its answer is a refusal, never
a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from quorate.policy.problem import Floats, Ints, Problem

ALONE: Final = -1
FEASIBLE: Final = 1e-9
"""The largest permitted rounding error in a constraint, relative to the constraint's limit."""

NO_BOUND: Final = float("nan")
"""The value of ``bound`` for ``Method.RULE``: a rule optimises nothing, so its allocation has no
bound."""


class Method(StrEnum):
    """How an allocation was found."""

    RULE = "rule"
    ASSIGNMENT = "assignment"
    LINEAR_PROGRAM = "linear-program"
    CLASSES = "classes"
    PRICES = "prices"
    NEWTON = "newton"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Allocation:
    """Shares of time: one row for each single job, and one row for each pair that has a share.

    ``first`` and ``second`` are the jobs of a row; ``second`` is ``ALONE`` in the row of a single
    job. The rows of all single jobs come first, in the order of the problem. ``objective`` is the
    value that the policy maximises or, with ``Policy.is_least``, minimises. ``bound`` is the best
    value that any allocation can have; for a rule it is ``NO_BOUND``. ``prices`` has, for each
    flavor, the change of the objective if there were one GPU more; a rule has no prices.
    """

    first: Ints
    second: Ints
    shares: Floats
    objective: float
    bound: float
    method: Method
    prices: Floats | None = None
    dropped: tuple[int, ...] = ()
    """The jobs whose deadlines the policy gave up, so that other jobs can meet their deadlines."""
    discounts: Floats | None = None
    """The factor by which the policy multiplied each job's shares at the end; None if the policy
    uses no such factors."""
    unfinished: tuple[int, ...] = ()
    """Jobs that could perhaps get more: to find out would take more work than ``Problem.work_max``,
    or rounding hides whether they could."""

    @property
    def gap(self) -> float:
        """The distance of the objective from its bound, relative to the bound."""
        if self.objective == self.bound:
            return 0.0
        return abs(self.bound - self.objective) / max(abs(self.bound), abs(self.objective))


class UnsolvedCode(StrEnum):
    """Why a policy returns no allocation."""

    NO_JOBS = "no-jobs"
    NO_GPUS = "no-gpus"
    NOT_APPLICABLE = "not-applicable"
    NEVER_RUNS = "never-runs"
    TOO_MUCH_WORK = "too-much-work"
    SOLVER_FAILED = "solver-failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsolved:
    """A refusal: the job or the flavor because of which there is no answer, and a remedy.

    ``jobs`` has all jobs with the same fault; without these jobs, the policy may have an answer.
    """

    code: UnsolvedCode
    subject: str
    message: str
    remedy: str
    jobs: tuple[str, ...] = ()


def solver_failed(message: str, remedy: str) -> Unsolved:
    """Return the refusal if the solver failed on a problem, or gave an invalid answer."""
    return Unsolved(
        code=UnsolvedCode.SOLVER_FAILED, subject="solver", message=message, remedy=remedy
    )


def alone(shares: Floats, *, objective: float, bound: float, method: Method) -> Allocation:
    """Return an allocation without pairs."""
    rows = np.arange(len(shares), dtype=np.int64)
    return Allocation(
        first=rows,
        second=np.full(len(shares), ALONE, dtype=np.int64),
        shares=shares,
        objective=objective,
        bound=bound,
        method=method,
    )


def run_shares(allocation: Allocation, jobs: int) -> Floats:
    """Return each job's shares, alone and in pairs together, as an array (jobs, flavors)."""
    found: Floats = np.array(allocation.shares[:jobs])
    pairs = slice(jobs, len(allocation.shares))
    if pairs.start < pairs.stop:
        np.add.at(found, allocation.first[pairs], allocation.shares[pairs])
        np.add.at(found, allocation.second[pairs], allocation.shares[pairs])
    return found


def job_rates(problem: Problem, allocation: Allocation) -> Floats:
    """Return the steps per second of each job under ``allocation``, alone and in pairs."""
    jobs, _ = problem.shape
    found: Floats = np.einsum("mj,mj->m", problem.rates, allocation.shares[:jobs])
    pairs = problem.pairs
    if pairs is None or len(allocation.shares) == jobs:
        return found
    place = {
        (int(a), int(b)): k for k, (a, b) in enumerate(zip(pairs.first, pairs.second, strict=True))
    }
    for row in range(jobs, len(allocation.shares)):
        a, b = int(allocation.first[row]), int(allocation.second[row])
        rates = pairs.rates[place[a, b]]
        found[a] += float(rates[:, 0] @ allocation.shares[row])
        found[b] += float(rates[:, 1] @ allocation.shares[row])
    return found


def paired_shares(allocation: Allocation, jobs: int) -> Floats:
    """Return the part of ``run_shares`` that jobs have in pairs, as an array (jobs, flavors)."""
    found: Floats = np.zeros_like(allocation.shares[:jobs])
    pairs = slice(jobs, len(allocation.shares))
    np.add.at(found, allocation.first[pairs], allocation.shares[pairs])
    np.add.at(found, allocation.second[pairs], allocation.shares[pairs])
    return found


def breaches(problem: Problem, allocation: Allocation) -> list[str]:
    """Return a text for each constraint that ``allocation`` breaks, except by rounding errors."""
    shares, first, second = allocation.shares, allocation.first, allocation.second
    jobs, _ = problem.shape
    found = []
    if np.any(shares < 0):
        row = int(np.argwhere(shares < 0)[0][0])
        found.append(f"job {problem.jobs[int(first[row])]}: a share is below 0")
    time = np.zeros(jobs)
    of_rows = shares.sum(axis=1)
    np.add.at(time, first, of_rows)
    paired = second != ALONE
    np.add.at(time, second[paired], of_rows[paired])
    found += [
        f"job {problem.jobs[int(m)]}: its shares add up to {time[m]:.12g}, more than 1"
        for m in np.flatnonzero(time > 1 + FEASIBLE)
    ]
    used = problem.scales[first] @ shares
    found += [
        f"flavor {problem.flavors[int(j)]}: {used[j]:.12g} GPUs are allocated, but it has "
        f"{problem.gpus[j]}"
        for j in np.flatnonzero(used > problem.gpus * (1 + FEASIBLE))
    ]
    return found
