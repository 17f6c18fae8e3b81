"""What an allocation leaves over, given to jobs that might have more.

A policy that had to stop early has said what everybody is to have at least. GPUs that nobody is to
have would stand idle for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from quorate.policy.allocation import ALONE, FEASIBLE, Allocation
from quorate.policy.problem import Floats, Ints, Problem

PASSES_MAX: Final = 20
"""How often what is left is shared out: each time, those who have all their time stand back."""
TINY: Final = 1e-300


def topped_up(problem: Problem, found: Allocation) -> Allocation:
    """Return ``found`` with what it leaves over, by weight, among those who are unfinished in it.

    Nobody has less than before.
    """
    jobs = np.array(found.unfinished, dtype=np.int64)
    shares = found.shares.copy()
    scales, runs = problem.scales[jobs, None], problem.rates[jobs] > 0
    time, weight = _time_left(problem, found)[jobs], _weights(problem, jobs)
    for _ in range(PASSES_MAX):
        spare = np.maximum(problem.gpus - problem.scales[found.first] @ shares, 0.0)
        weights = np.where(runs & (time > FEASIBLE)[:, None], weight[:, None], 0.0)
        sums = weights.sum(axis=0)
        parts = np.divide(weights, sums, out=np.zeros(weights.shape), where=sums > 0)
        more = parts * spare / scales
        asked = more.sum(axis=1)
        more *= np.minimum(1.0, time / np.maximum(asked, FEASIBLE))[:, None]
        if more.sum() <= FEASIBLE:
            break
        shares[jobs] += more
        time = np.maximum(time - more.sum(axis=1), 0.0)
    return replace(found, shares=shares)


def _weights(problem: Problem, jobs: Ints) -> Floats:
    """Return the weights of ``jobs``: those of one entity add up to the entity's."""
    weights = problem.weights[jobs].astype(np.float64)
    of = problem.entity_of
    if of is None:
        return weights
    for number, entity in enumerate(problem.entities):
        own = of[jobs] == number
        weights[own] *= entity.weight / max(float(weights[own].sum()), TINY)
    return weights


def _time_left(problem: Problem, found: Allocation) -> Floats:
    """Return which part of its time each job has no GPUs, alone or in a pair."""
    used = np.zeros(len(problem.jobs))
    of_rows = found.shares.sum(axis=1)
    np.add.at(used, found.first, of_rows)
    is_pair = found.second != ALONE
    np.add.at(used, found.second[is_pair], of_rows[is_pair])
    left: Floats = np.maximum(1.0 - used, 0.0)
    return left
