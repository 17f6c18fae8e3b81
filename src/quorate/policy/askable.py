"""Checks a problem before a policy solves it, and checks the policy's answer."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from quorate.policy.allocation import Allocation, Unsolved, UnsolvedCode, breaches
from quorate.policy.policy_type import Solve
from quorate.policy.problem import Problem, read_only


class Asked(Protocol):
    """The properties of a policy that the function ``answer`` reads."""

    @property
    def name(self) -> str:
        """The name of the policy."""
        ...

    @property
    def solve(self) -> Solve:
        """The function that solves a problem."""
        ...

    @property
    def reads_steps(self) -> bool:
        """Whether the policy needs the number of steps that each job has left."""
        ...

    @property
    def reads_costs(self) -> bool:
        """Whether the policy needs the price of GPUs."""
        ...


def without_anything(problem: Problem) -> Unsolved | None:
    """Return the refusal of a problem that has no jobs or no GPUs."""
    if not problem.jobs:
        return Unsolved(
            code=UnsolvedCode.NO_JOBS,
            subject="jobs",
            message="there are no jobs",
            remedy="give at least one job",
        )
    if not problem.gpus.sum():
        return Unsolved(
            code=UnsolvedCode.NO_GPUS,
            subject="cluster",
            message="there are no GPUs",
            remedy="give at least one GPU",
        )
    return None


def without_steps(problem: Problem) -> Unsolved | None:
    """Return the refusal of a problem with a job whose remaining steps are not known."""
    unknown = np.flatnonzero(np.isnan(problem.steps_left))
    if not len(unknown):
        return None
    return Unsolved(
        code=UnsolvedCode.NOT_APPLICABLE,
        subject=problem.jobs[unknown[0]],
        message=f"job {problem.jobs[unknown[0]]}: its remaining steps are not given",
        remedy="add num_steps_remaining, or choose a policy that does not read it",
        jobs=problem.names(np.isnan(problem.steps_left)),
    )


def answer(policy: Asked, problem: Problem) -> Allocation | Unsolved:
    """Return the answer of ``policy``, after checking the problem and the answer.

    If the allocation breaks a constraint, return instead a refusal that names the job or the
    flavor. The policy gets arrays that cannot be changed, because other policies may get the same
    problem.
    """
    refusal = without_anything(problem)
    if refusal is None and policy.reads_steps:
        refusal = without_steps(problem)
    if refusal is None and policy.reads_costs:
        refusal = _without_costs(problem)
    if refusal is not None:
        return refusal
    found = policy.solve(read_only(problem))
    if isinstance(found, Unsolved):
        return found
    missed = first_breach(problem, found)
    if missed is None:
        return found
    return broken(missed, f"the answer of {policy.name}", "report this problem")


def first_breach(problem: Problem, found: Allocation) -> str | None:
    """Return the first fault of an answer, as ``SUBJECT: FAULT``; None if the answer is sound."""
    missed = breaches(problem, found)
    if np.isnan(found.objective):
        missed.append("objective: is not a number")
    if found.prices is not None and np.isnan(found.prices).any():
        missed.append("prices: are not numbers")
    return missed[0] if missed else None


def broken(breach: str, answer_of: str, report: str) -> Unsolved:
    """Return the refusal of an answer that has the fault ``breach``; ``report`` ends the remedy."""
    return Unsolved(
        code=UnsolvedCode.SOLVER_FAILED,
        subject=breach.partition(":")[0],
        message=f"{answer_of} breaks a constraint: {breach}",
        remedy=f"choose another policy, and {report}",
    )


def _without_costs(problem: Problem) -> Unsolved | None:
    if problem.costs is not None:
        return None
    return Unsolved(
        code=UnsolvedCode.NOT_APPLICABLE,
        subject="instance_costs",
        message="the costs of GPUs are not given",
        remedy="add instance_costs to the problem, or choose a policy that does not read them",
    )
