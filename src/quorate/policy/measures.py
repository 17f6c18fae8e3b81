"""Figures of an allocation, computed in the same way for every policy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quorate.policy.allocation import ALONE, Allocation, job_rates
from quorate.policy.problem import Floats, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The figures of an allocation. A figure is NaN if it is unknown.

    ``finish_time_ratio`` and ``makespan_s`` are infinite if a job makes no progress.
    """

    least_relative_rate: float
    """The least normalised rate of all jobs. A normalised rate is the job's rate times its scale,
    divided by its weight and by its rate on a proportional mix of all GPUs (Gavel, section 4.1)."""
    finish_time_ratio: float
    """The largest ratio of a job's duration to the duration that the job would have alone on an
    equal share of the GPUs (Themis)."""
    makespan_s: float
    """The time until the last job ends, if the allocation and the jobs do not change."""
    rate_sum: float
    """The steps per second of all jobs together."""
    rate_per_cost: float
    """The sum of the rates, each divided by the hourly price of a GPU of the flavor."""
    gpus_used: Floats
    """The mean number of busy GPUs of each flavor."""


def measures(problem: Problem, allocation: Allocation) -> Measures:
    """Return the figures of ``allocation``."""
    rates = job_rates(problem, allocation)
    return Measures(
        least_relative_rate=least_relative_rate(problem, rates),
        finish_time_ratio=_finish_time_ratio(problem, rates),
        makespan_s=float(np.max(_seconds(problem.steps_left, rates))),
        rate_sum=float(rates.sum()),
        rate_per_cost=_rate_per_cost(problem, allocation),
        gpus_used=problem.scales[allocation.first] @ allocation.shares,
    )


def proportional_shares(problem: Problem) -> Floats:
    """Return shares that give each job its whole time, divided among flavors by their GPUs."""
    jobs, flavors = problem.shape
    mix = problem.gpus / problem.gpus.sum()
    return np.broadcast_to(mix, (jobs, flavors)).copy()


def isolated_shares(problem: Problem) -> Floats:
    """Return shares that give each job the same part of all flavors, but at most its whole time."""
    jobs, _ = problem.shape
    shares = problem.gpus[None, :] / (jobs * problem.scales[:, None])
    return np.asarray(shares / np.maximum(1.0, shares.sum(axis=1))[:, None])


def least_relative_rate(problem: Problem, rates: Floats) -> float:
    """Return the least normalised rate of all jobs (``Measures``); 0 if a job cannot run."""
    mixed = np.einsum("mj,mj->m", problem.rates, proportional_shares(problem))
    relative = np.zeros(len(rates))
    np.divide(rates * problem.scales, problem.weights * mixed, out=relative, where=mixed > 0)
    return float(relative.min())


def _finish_time_ratio(problem: Problem, rates: Floats) -> float:
    isolated = np.einsum("mj,mj->m", problem.rates, isolated_shares(problem))
    alone_s = problem.isolated_s + _seconds(problem.steps_left, isolated)
    ends_s = problem.ages_s + _seconds(problem.steps_left, rates)
    ratios = np.full(len(rates), np.nan)
    np.divide(ends_s, alone_s, out=ratios, where=(alone_s > 0) & np.isfinite(alone_s))
    return float(np.max(ratios))


def _seconds(steps: Floats, rates: Floats) -> Floats:
    """Return the time that ``steps`` take: 0 without steps, infinite at rate 0."""
    found = np.where(steps == 0, 0.0, np.where(np.isnan(steps), np.nan, np.inf))
    np.divide(steps, rates, out=found, where=(rates > 0) & ~np.isnan(steps))
    return found


def _rate_per_cost(problem: Problem, allocation: Allocation) -> float:
    if problem.costs is None:
        return float("nan")
    jobs, _ = problem.shape
    total = float(np.sum(problem.rates * allocation.shares[:jobs] / problem.costs))
    pairs = problem.pairs
    if pairs is None:
        return total
    for row in np.flatnonzero(allocation.second != ALONE):
        here = (pairs.first == allocation.first[row]) & (pairs.second == allocation.second[row])
        both = pairs.rates[np.flatnonzero(here)[0]].sum(axis=1)
        total += float(np.sum(both * allocation.shares[row] / problem.costs))
    return total
