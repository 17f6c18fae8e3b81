"""The two shares that need no solver: the same GPUs for every job, or the same time.

Both are what other policies measure themselves against.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from quorate.policy.allocation import NO_BOUND, Allocation, Method, Unsolved, alone
from quorate.policy.askable import without_anything
from quorate.policy.measures import isolated_shares, least_relative_rate, proportional_shares
from quorate.policy.policy import Policy
from quorate.policy.problem import Floats, Problem

LEAST_RATE: Final = "least rate relative to a proportional share"


def isolated(problem: Problem) -> Allocation | Unsolved:
    """Return for every job the same part of the GPUs of each flavor.

    x = N / (M s), and a job that could fill more than its time has each flavor in proportion
    (Gavel, section 4.1: the share a job would have of an equal part of the cluster).
    """
    return without_anything(problem) or _rule(problem, isolated_shares(problem))


def proportional(problem: Problem) -> Allocation | Unsolved:
    """Return for every job the same part of its time, on the mix of flavors that the cluster has.

    The mix is the one that rates are measured against (Gavel, section 4.1); where the jobs do not
    all fit, each has as much of its time as the GPUs allow, whatever its scale.
    """
    if (refusal := without_anything(problem)) is not None:
        return refusal
    part = min(1.0, float(problem.gpus.sum() / problem.scales.sum()))
    return _rule(problem, part * proportional_shares(problem))


def by_weight(problem: Problem) -> Allocation | Unsolved:
    """Return for every job a part of the GPUs of each flavor that it runs on, by its weight.

    x = N w / (s sum of w), the sum over those who run there; nobody has more than its time. As
    ``isolated``, and owners have their parts where weights add up to theirs.
    """
    if (refusal := without_anything(problem)) is not None:
        return refusal
    weights = np.where(problem.rates > 0, problem.weights[:, None], 0.0)
    sums = weights.sum(axis=0)
    parts = np.divide(weights, sums, out=np.zeros(problem.shape), where=sums > 0)
    shares = parts * problem.gpus / problem.scales[:, None]
    return _rule(problem, shares / np.maximum(1.0, shares.sum(axis=1))[:, None])


def _rule(problem: Problem, shares: Floats) -> Allocation:
    rates = np.einsum("mj,mj->m", problem.rates, shares)
    worth = least_relative_rate(problem, rates)
    return alone(shares, objective=worth, bound=NO_BOUND, method=Method.RULE)


EQUAL_SHARES: Final = (
    Policy(
        name="isolated",
        goal="every job has the same part of the GPUs of each flavor",
        solve=isolated,
        metric=LEAST_RATE,
    ),
    Policy(
        name="proportional",
        goal="every job has the same part of its time, on the cluster's mix of flavors",
        solve=proportional,
        metric=LEAST_RATE,
    ),
)

BY_WEIGHT: Final = Policy(
    name="by_weight",
    goal="every job has a part of the GPUs of each flavor that it runs on, by its weight",
    solve=by_weight,
    metric=LEAST_RATE,
)
"""What a pool is shared by in a round for which its own policy has no answer. Nobody asks for it by
name: it is no published policy."""
