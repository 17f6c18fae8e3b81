"""What every policy needs before it can answer: jobs, GPUs, and whatever it reads."""

from __future__ import annotations

import numpy as np

from quorate.policy.allocation import Unsolved, UnsolvedCode
from quorate.policy.problem import Problem


def without_anything(problem: Problem) -> Unsolved | None:
    """Return the refusal of a problem that has no jobs or no GPUs."""
    if not problem.jobs:
        return Unsolved(
            code=UnsolvedCode.NO_JOBS,
            subject="jobs",
            message="there are no jobs",
            remedy="ask with at least one job",
        )
    if not problem.gpus.sum():
        return Unsolved(
            code=UnsolvedCode.NO_GPUS,
            subject="cluster",
            message="there are no GPUs",
            remedy="ask with at least one GPU",
        )
    return None


def without_steps(problem: Problem) -> Unsolved | None:
    """Return the refusal of a problem in which the steps that a job has left are not known."""
    unknown = np.flatnonzero(np.isnan(problem.steps_left))
    if not len(unknown):
        return None
    return Unsolved(
        code=UnsolvedCode.NOT_APPLICABLE,
        subject=problem.jobs[unknown[0]],
        message=f"job {problem.jobs[unknown[0]]}: nobody says how many steps it has left",
        remedy="add num_steps_remaining, or choose a policy that does not read it",
    )
