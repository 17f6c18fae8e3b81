"""Gavel's programs for an interior-point solver, as baselines of Quorate's policies.

The programs are written for cvxpy and ECOS in Gavel's form, as far as the form affects the time:
one matrix of shares, a term for each job, dense tables of pairs, and a search over makespans. Both
packages are optional; without them, no baseline is measured.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from quorate.policy.policies.finish_time_fairness import isolated_rates
from quorate.policy.policies.max_min_fairness import proportional_rates
from quorate.policy.problem import Floats, Problem

ABSENT = "none: cvxpy and ecos are not installed (uv sync --group gavel)"
MAKESPAN_FROM_S, MAKESPAN_TO_S = 100.0, 1_000_000.0
CLOSE = 1.05
"""The published search stops when the ratio of its two ends is this close to 1."""

Peer = Callable[[Problem], float]


def is_there() -> bool:
    """Return whether the packages of the baseline are installed."""
    return find_spec("cvxpy") is not None and find_spec("ecos") is not None


def warm_up(problem: Problem) -> None:
    """Solve a problem once, so that loading and compiling is not measured."""
    if is_there():
        max_min(problem)


def max_min(problem: Problem) -> float:
    """Return the least normalised rate, computed by Gavel's program."""
    cp, x, limits = _shares(problem)
    worth = problem.scales / (problem.weights * proportional_rates(problem))
    return _solve(
        cp.Maximize(cp.min(cp.sum(cp.multiply(problem.rates * worth[:, None], x), axis=1))), limits
    )


def finish_time(problem: Problem) -> float:
    """Return the largest delay; the program has one term for each job."""
    cp, x, limits = _shares(problem)
    alone_s = problem.steps_left / isolated_rates(problem, len(problem.jobs))
    delays = [
        (
            problem.ages_s[row]
            + problem.steps_left[row] * cp.inv_pos(cp.sum(cp.multiply(problem.rates[row], x[row])))
        )
        / alone_s[row]
        for row in range(len(problem.jobs))
    ]
    return _solve(cp.Minimize(cp.max(cp.hstack(delays))), limits)


def makespan(problem: Problem) -> float:
    """Return a feasible makespan, by a search that stops within 5 % of the least."""
    low, high = MAKESPAN_FROM_S, MAKESPAN_TO_S
    while not _can_end(problem, high):
        low, high = high, high * 10
    while high > CLOSE * low:
        middle = (low + high) / 2
        if _can_end(problem, middle):
            high = middle
        else:
            low = middle
    return high


def packed_max_min(problem: Problem) -> float:
    """Return the least normalised rate with pairs; each job has a dense row of all shares."""
    cp = _cvxpy()
    pairs = problem.pairs
    assert pairs is not None
    jobs, flavors = problem.shape
    rates = np.zeros((jobs, jobs + len(pairs), flavors))
    takes = np.zeros((jobs, jobs + len(pairs), flavors))
    row, pair = np.arange(jobs), jobs + np.arange(len(pairs))
    rates[row, row], takes[row, row] = problem.rates, 1.0
    both = pairs.rates * (pairs.rates > 0).all(axis=2, keepdims=True)
    for side, member in enumerate((pairs.first, pairs.second)):
        rates[member, pair], takes[member, pair] = both[:, :, side], 1.0
    x = cp.Variable((jobs + len(pairs)) * flavors)
    scales = np.concatenate((problem.scales, problem.scales[pairs.first]))
    worth = problem.scales / (problem.weights * proportional_rates(problem))
    limits = [
        x >= 0,
        takes.reshape(jobs, -1) @ x <= 1,
        np.kron(scales[None, :], np.eye(flavors)) @ x <= problem.gpus,
    ]
    return _solve(cp.Maximize(cp.min((rates.reshape(jobs, -1) * worth[:, None]) @ x)), limits)


def _cvxpy() -> Any:
    return import_module("cvxpy")


def _shares(problem: Problem) -> tuple[Any, Any, list[Any]]:
    cp = _cvxpy()
    x = cp.Variable(problem.rates.shape)
    scales: Floats = np.repeat(problem.scales[:, None], len(problem.flavors), axis=1)
    limits = [
        x >= 0,
        cp.sum(cp.multiply(scales, x), axis=0) <= problem.gpus,
        cp.sum(x, axis=1) <= 1,
    ]
    return cp, x, limits


def _can_end(problem: Problem, in_s: float) -> bool:
    cp, x, limits = _shares(problem)
    fast = cp.sum(cp.multiply(problem.rates, x), axis=1) >= problem.steps_left / in_s
    return bool(np.isfinite(_solve(cp.Maximize(1), [*limits, fast])))


def _solve(objective: Any, limits: list[Any]) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Inaccurate answers are reported with their error.
        return float(_cvxpy().Problem(objective, limits).solve(solver="ECOS"))
