"""The two equal divisions that need no solver: the same GPUs for every job, or the same time.

Other policies use both as references.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from quorate.policy.allocation import NO_BOUND, Allocation, Method, Unsolved, alone
from quorate.policy.askable import without_anything
from quorate.policy.measures import isolated_shares, least_relative_rate, proportional_shares
from quorate.policy.policy_type import Policy
from quorate.policy.problem import Floats, Problem

LEAST_RATE: Final = "least rate relative to a proportional share"


def isolated(problem: Problem) -> Allocation | Unsolved:
    """Return shares that give every job the same part of the GPUs of each flavor.

    If a flavor has N GPUs and there are M jobs, the share of a job of s GPUs is N / (M s). If the
    shares of a job exceed its whole time, they are reduced in proportion. This is the share that a
    job would have on an equal part of the cluster (Gavel, section 4.1).
    """
    return without_anything(problem) or by_rule(problem, isolated_shares(problem))


def proportional(problem: Problem) -> Allocation | Unsolved:
    """Return shares that give jobs equal parts of their time, on the cluster's mix of flavors.

    The mix has each flavor in proportion to its GPUs; normalised rates are relative to this mix
    (Gavel, section 4.1). If not all jobs fit for their whole time, all of them get the same part of
    their time, as large as possible.
    """
    if (refusal := without_anything(problem)) is not None:
        return refusal
    part = min(1.0, float(problem.gpus.sum() / problem.scales.sum()))
    return by_rule(problem, part * proportional_shares(problem))


def by_rule(problem: Problem, shares: Floats) -> Allocation:
    """Return ``shares`` as an allocation, with its objective, which was not optimised."""
    rates = np.einsum("mj,mj->m", problem.rates, shares)
    worth = least_relative_rate(problem, rates)
    return alone(shares, objective=worth, bound=NO_BOUND, method=Method.RULE)


EQUAL_SHARES: Final = (
    Policy(
        name="isolated",
        goal="every job has the same part of the GPUs of each flavor",
        solve=isolated,
        metric=LEAST_RATE,
        reads_progress=False,
    ),
    Policy(
        name="proportional",
        goal="every job has the same part of its time, on the cluster's mix of flavors",
        solve=proportional,
        metric=LEAST_RATE,
        reads_progress=False,
    ),
)
