"""Gandiva as published with Gavel: jobs are paired at random; all pairs get equal shares."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from quorate.policy.allocation import (
    ALONE,
    NO_BOUND,
    Allocation,
    Method,
    Unsolved,
    job_rates,
)
from quorate.policy.askable import without_anything
from quorate.policy.measures import least_relative_rate
from quorate.policy.pair_index import PairIndex
from quorate.policy.policies.equal_shares import LEAST_RATE
from quorate.policy.policy_type import Policy
from quorate.policy.problem import Floats, Ints, Problem
from quorate.policy.solvers.chance import Chance


def gandiva(problem: Problem, *, seed: int = 0) -> Allocation | Unsolved:
    """Return equal parts of the GPUs for single jobs, or for pairs if not all jobs fit alone.

    There are as many draws as jobs. A draw picks two jobs. If the problem does not list the two
    jobs as a pair, for example because their scales differ, the draw has no effect. Rates are not
    read, because Gandiva pairs two jobs in order to measure their rates. So a problem should not
    list pairs that make no progress.
    """
    if (refusal := without_anything(problem)) is not None:
        return refusal
    jobs, flavors = problem.shape
    pairs: list[tuple[int, int]] = []
    if problem.scales.sum() > problem.gpus.sum():
        pairs = _drawn(problem, Chance(seed))
    paired = {job for pair in pairs for job in pair}
    alone = np.array([job for job in range(jobs) if job not in paired], dtype=np.int64)
    first = np.array([*range(jobs), *(pair[0] for pair in pairs)], dtype=np.int64)
    second = np.array([ALONE] * jobs + [pair[1] for pair in pairs], dtype=np.int64)
    rows = np.concatenate([alone, np.arange(jobs, len(first))])
    shares = np.zeros((len(first), flavors))
    shares[rows] = _equal(problem, first[rows])
    return _measured(problem, first, second, shares)


def _drawn(problem: Problem, chance: Chance) -> list[tuple[int, int]]:
    index = PairIndex(problem)
    left = list(range(len(problem.jobs)))
    pairs = []
    for _ in range(len(left)):
        if len(left) < 2:  # noqa: PLR2004 - the two of a pair
            break
        one, other = (left[place] for place in chance.two_of(len(left)))
        if index.row(one, other) is not None:
            left.remove(one)
            left.remove(other)
            pairs.append((min(one, other), max(one, other)))
    return sorted(pairs)


def _equal(problem: Problem, rows: Ints) -> Floats:
    """Return shares that give each row the same part of each flavor, but at most its whole time."""
    shares = problem.gpus[None, :] / (len(rows) * problem.scales[rows][:, None])
    return np.asarray(shares / np.maximum(1.0, shares.sum(axis=1))[:, None])


def _measured(problem: Problem, first: Ints, second: Ints, shares: Floats) -> Allocation:
    found = Allocation(
        first=first,
        second=second,
        shares=shares,
        objective=0.0,
        bound=NO_BOUND,
        method=Method.RULE,
    )
    return replace(found, objective=least_relative_rate(problem, job_rates(problem, found)))


GANDIVA: Final = (
    Policy(
        name="gandiva",
        goal="jobs paired by chance, and equal parts of the GPUs for every pair",
        solve=gandiva,
        metric=LEAST_RATE,
        reads_pairs=True,
        reads_progress=False,
    ),
)
