"""Shortest first: the jobs with the least remaining time run, each on its fastest free flavor."""

from __future__ import annotations

import numpy as np

from quorate.policy.allocation import NO_BOUND, Allocation, Method, Unsolved, alone
from quorate.policy.policy_type import Policy
from quorate.policy.problem import Problem


def shortest_first(problem: Problem) -> Allocation | Unsolved:
    """Return shares: shortest jobs first, each job with room gets its whole time on one flavor."""
    left = problem.gpus.copy()
    shares = np.zeros(problem.shape)
    for job in np.argsort(problem.steps_left / problem.rates.max(axis=1), kind="stable"):
        for flavor in np.argsort(-problem.rates[job], kind="stable"):
            if problem.rates[job, flavor] > 0 and left[flavor] >= problem.scales[job]:
                shares[job, flavor] = 1.0
                left[flavor] -= problem.scales[job]
                break
    return alone(shares, objective=float(shares.sum()), bound=NO_BOUND, method=Method.RULE)


SHORTEST_FIRST = Policy(
    name="shortest_first",
    goal="the jobs with the least remaining time run, each on its fastest flavor",
    solve=shortest_first,
    metric="jobs that run",
    reads_steps=True,
)
