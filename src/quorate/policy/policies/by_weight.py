"""The fallback if a pool's policy has no answer for a round: shares by weight alone.

Each owner gets, by its weight, a part of every flavor that any of its jobs can use. This works for
any number of jobs.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from quorate.policy.allocation import Allocation, Unsolved
from quorate.policy.askable import without_anything
from quorate.policy.policies.equal_shares import LEAST_RATE, by_rule
from quorate.policy.policy_type import Policy
from quorate.policy.problem import NO_ENTITY, Bools, Floats, Problem


def by_weight(problem: Problem) -> Allocation | Unsolved:
    """Return shares that divide each flavor, by weight, among the jobs that run on it.

    If a flavor has N GPUs and a job of s GPUs gets the part p of these, the job's share is N p / s.
    Shares are reduced if a job would have more than its whole time.
    """
    if (refusal := without_anything(problem)) is not None:
        return refusal
    shares = parts(problem, problem.rates > 0) * problem.gpus / problem.scales[:, None]
    return by_rule(problem, shares / np.maximum(1.0, shares.sum(axis=1))[:, None])


def parts(problem: Problem, wants: Bools) -> Floats:
    """Return the part of each flavor that each job gets, as an array (jobs, flavors).

    ``wants`` says which job wants which flavor. An entity gets, by its weight, a part of each
    flavor that any of its jobs wants. The entity's jobs divide this part by their own weights. The
    parts of a flavor add up to 1, or to 0 if no job wants the flavor.
    """
    weights = np.where(wants, problem.weights[:, None], 0.0)
    of = problem.entity_of
    if of is not None and problem.entities:
        worth = np.array([entity.weight for entity in problem.entities])
        own = of != NO_ENTITY
        sums = np.zeros((len(worth), wants.shape[1]))
        np.add.at(sums, of[own], weights[own])
        worths = np.divide(worth[:, None], sums, out=np.zeros(sums.shape), where=sums > 0)
        weights[own] *= worths[of[own]]
    totals = weights.sum(axis=0)
    found: Floats = np.divide(weights, totals, out=np.zeros(weights.shape), where=totals > 0)
    return found


BY_WEIGHT: Final = Policy(
    name="by_weight",
    goal="every job has a part of the GPUs of each flavor that it runs on, by its weight",
    solve=by_weight,
    metric=LEAST_RATE,
    reads_entities=True,
    reads_progress=False,
)
"""A policy for internal use: it is not a published policy, and a pool cannot select it."""
