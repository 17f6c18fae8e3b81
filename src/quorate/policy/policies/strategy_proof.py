"""The allocation in which no job gains by overstating or understating its rates.

The policy first maximises the product of all normalised rates. A normalised rate is the job's rate
times its scale, divided by its weight and by its rate on an equal share of every flavor. Then each
job's shares are multiplied by a discount of at most 1. To get the discount of a job, the policy
computes the product of the other jobs' rates twice, with the job and without it; the discount is
the first product divided by the second. (This is the partial allocation mechanism of Cole,
Gkatzelis and Goel, 2013; Gavel, section 4.4.) The GPU time that the discounts free stays unused,
which is the price of strategy-proofness.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from quorate.policy.allocation import Allocation, Method, Unsolved, UnsolvedCode, alone
from quorate.policy.allocation_space import unsolvable
from quorate.policy.policy_type import Policy
from quorate.policy.problem import Floats, Ints, Problem
from quorate.policy.solvers.nash import largest_product, products_without

PROVED: Final = 1e-7
"""An answer is returned only if the mean logarithm of its rates is at most this far from the
optimum."""
NOTHING: Final = 1e-12
"""A smaller share is a rounding error of the interior-point method, and is set to 0."""
CELLS_MAX: Final = 2_000_000
"""The most numbers that a batch of problems, which are solved side by side, may have."""


def strategy_proof(problem: Problem) -> Allocation | Unsolved:
    """Return the allocation with the largest product of rates, reduced by the discounts.

    The objective is the geometric mean before the discounts. If several allocations are optimal,
    their middle is taken, so that equal jobs get equal shares.
    """
    refused = unsolvable(problem)
    if refused is not None:
        return refused
    has_gpus = problem.gpus > 0
    gpus = problem.gpus[has_gpus].astype(np.float64)
    equal = problem.rates @ problem.gpus / problem.gpus.sum()
    rates = problem.rates[:, has_gpus] / equal[:, None]
    jobs = len(problem.jobs)
    kinds, kind_of = _kinds(problem)
    asked = np.ones((len(kinds), jobs))
    asked[np.arange(len(kinds)), kinds] = 0.0
    shares, logs, prices, missing = _solved(rates, problem.scales.astype(np.float64), gpus, asked)
    if missing > PROVED:
        return _failed(missing)
    gone = np.where(asked > 0, logs[0] - logs[1:], 0.0)
    discounts = np.minimum(np.exp(gone.sum(axis=1)), 1.0)[kind_of]
    objective = float(np.exp(np.mean(logs[0] + np.log(problem.scales / problem.weights))))
    whole = np.zeros(problem.rates.shape)
    whole[:, has_gpus] = np.where((rates > 0) & (shares > NOTHING), shares, 0.0)
    worth = np.zeros(len(problem.gpus))
    worth[has_gpus] = objective * prices / jobs
    found = alone(
        whole * discounts[:, None],
        objective=objective,
        bound=objective * float(np.exp(missing)),
        method=Method.NEWTON,
    )
    return replace(found, prices=worth, discounts=discounts)


def _kinds(problem: Problem) -> tuple[Ints, Ints]:
    """Return one job of each kind, and the kind of each job.

    Equal jobs are of one kind: it makes no difference which one of them is left out.
    """
    rows = np.column_stack([problem.rates, problem.scales])
    _, first, kind_of = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, kind_of.reshape(-1)


def _solved(
    rates: Floats, scales: Floats, gpus: Floats, asked: Floats
) -> tuple[Floats, Floats, Floats, float]:
    """Return shares, the logarithms of the rates in all problems, prices, and the largest error.

    The first problem has all jobs; its shares and its prices are returned. ``asked`` has the jobs
    of each further problem.
    """
    whole, start = largest_product(rates, scales, gpus)
    at_once = max(1, CELLS_MAX // (rates.size * len(gpus)))
    parts = [
        products_without(rates, scales, gpus, asked[begin : begin + at_once], start)
        for begin in range(0, len(asked), at_once)
    ]
    of_others = np.concatenate([part.rates for part in parts])
    logs = np.log(np.concatenate([whole.rates, np.where(asked > 0, of_others, 1.0)]))
    missing = float(max(part.missing.max() for part in (whole, *parts)))
    return whole.shares[0], logs, whole.prices[0], missing


def _failed(missing: float) -> Unsolved:
    return Unsolved(
        code=UnsolvedCode.SOLVER_FAILED,
        subject="solver",
        message=f"the largest product is known only up to {missing:.1e}",
        remedy="give rates that are less far apart",
    )


STRATEGY_PROOF: Final = (
    Policy(
        name="max_min_fairness_strategy_proof",
        goal="no job gains by misstating its rates",
        solve=strategy_proof,
        metric="geometric mean of scale x rate / (weight x rate on an equal share), undiscounted",
        # The problem is solved again without each of the jobs, so a thousand jobs take twelve
        # seconds.
        jobs_max=250,
        reads_progress=False,
    ),
)
