"""Checks of four properties of a policy, for jobs with equal claims.

Jobs are new, take one GPU each, have the same weight and no deadline. Jobs may differ in their
number of steps, and in their rates on each flavor, alone and beside each other job. Only policies
that let two jobs share GPUs get the rates of pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

from quorate.policy.allocation import Allocation, job_rates
from quorate.policy.allocation_space import added, program, space_of
from quorate.policy.measures import isolated_shares
from quorate.policy.problem import Floats, Pairs, Problem
from quorate.policy.solvers.lp import Solution, solve
from quorate.policy.table import POLICIES
from tests.oracles.filling import some_pairs

NEARLY: Final = 1e-6


class Property(StrEnum):
    """A property of a policy."""

    SHARING = "sharing-incentive"
    ENVY = "envy-freeness"
    PARETO = "pareto-efficiency"
    HONESTY = "strategy-proofness"


def solved(policy: str, problem: Problem) -> Allocation:
    """Return the answer of a policy to a solvable problem."""
    found = POLICIES[policy].solve(problem)
    assert isinstance(found, Allocation), (policy, found)
    return found


def loss(policy: str, problem: Problem, asked: Property) -> float:
    """Return how far the answer of ``policy`` misses the property ``asked``.

    The result is relative to the present or possible rates of jobs, and above 0 if the property
    does not hold here. Strategy-proofness needs a lie: see ``gain_by_lie``.
    """
    found = solved(policy, problem)
    rates = job_rates(problem, found)
    match asked:
        case Property.SHARING:
            alone = np.einsum("mj,mj->m", problem.rates, isolated_shares(problem))
            return float((1.0 - rates / alone).max())
        case Property.ENVY:
            as_others = _in_place_of_others(problem, found)
            envied = (as_others - rates[:, None]) / np.maximum(as_others, NEARLY)
            return float(envied.max())
        case Property.PARETO:
            return _wasted(problem, rates)
        case Property.HONESTY:
            raise AssertionError("a lie is needed")


def _in_place_of_others(problem: Problem, found: Allocation) -> Floats:
    """Return each job's rate (row) with the shares of each other job (column), partners included.

    If the other job shares GPUs with this job, this job would be its own partner. So it keeps its
    own place there, beside the other job.
    """
    jobs = len(problem.jobs)
    as_others: Floats = problem.rates @ found.shares[:jobs].T
    beside = _beside(problem)
    for row in range(jobs, len(found.shares)):
        both = (int(found.first[row]), int(found.second[row]))
        for place, partner in (both, both[::-1]):
            for job in range(jobs):
                other = place if job == partner else partner
                if (job, other) in beside:
                    as_others[job, place] += float(beside[job, other] @ found.shares[row])
    return as_others


def _beside(problem: Problem) -> dict[tuple[int, int], Floats]:
    """Return the rates of a job beside another, by flavor, for each two that may share GPUs."""
    found: dict[tuple[int, int], Floats] = {}
    pairs = problem.pairs
    for row in range(0 if pairs is None else len(pairs)):
        assert pairs is not None
        one, other = int(pairs.first[row]), int(pairs.second[row])
        can = (pairs.rates[row] > 0).all(axis=1)
        found[one, other] = pairs.rates[row, :, 0] * can
        found[other, one] = pairs.rates[row, :, 1] * can
    return found


def gain_by_lie(policy: str, problem: Problem, job: int, said: list[float]) -> float:
    """Return the gain of ``job`` if it states the rates ``said``, as a part of its honest rate."""
    lied = solved(policy, _as_told(problem, job, said))
    honest = float(job_rates(problem, solved(policy, problem))[job])
    gained = float(job_rates(problem, lied)[job])
    return (gained - honest) / max(honest, 1e-3)


def _as_told(problem: Problem, job: int, said: list[float]) -> Problem:
    """Return the problem in which ``job`` states these rates, and rates in pairs in proportion."""
    told = problem.rates.copy()
    told[job] = said
    pairs = problem.pairs
    if pairs is not None:
        times = told[job] / np.where(problem.rates[job] > 0, problem.rates[job], 1.0)
        rates = pairs.rates.copy()
        for side, members in enumerate((pairs.first, pairs.second)):
            rates[members == job, :, side] *= times
        pairs = replace(pairs, rates=rates)
    return replace(problem, rates=told, pairs=pairs)


def _wasted(problem: Problem, rates: Floats) -> float:
    """Return the sum of the rates that jobs could gain without making any other job slower.

    Each gain is relative to the fastest rate of its job.
    """
    space = space_of(problem, paired=True)
    unit = space.fastest()
    gains = added(space.columns, space.rates / unit[space.jobs], len(space.rows))
    asked = program(space, gains)
    low = np.concatenate([rates * (1 - 1e-9), asked.row_low[len(rates) :]])
    answer = solve(replace(asked, row_low=low))
    assert isinstance(answer, Solution), answer
    return answer.objective - float((rates / unit).sum())


@st.composite
def alike(draw: st.DrawFn, *, jobs_max: int = 4, paired: bool = False) -> Problem:
    """Draw jobs with equal claims; each has a rate above 0 on a flavor with GPUs."""
    flavors, jobs = draw(st.integers(1, 3)), draw(st.integers(1, jobs_max))
    gpus = draw(st.lists(st.integers(0, 3), min_size=flavors, max_size=flavors).filter(any))
    rows = [
        draw(st.lists(st.integers(0, 4), min_size=flavors, max_size=flavors)) for _ in range(jobs)
    ]
    for row in rows:
        if not any(rate and count for rate, count in zip(row, gpus, strict=True)):
            row[gpus.index(max(gpus))] = 1
    steps = [draw(st.sampled_from([100.0, 100.0, 400.0])) for _ in range(jobs)]
    costs = [draw(st.sampled_from([1.0, 2.0, 4.0])) for _ in range(flavors)]
    problem = entitled_alike({"rates": rows, "gpus": gpus, "steps": steps, "costs": costs})
    return replace(problem, pairs=draw(some_pairs(rows, [1] * jobs))) if paired else problem


def entitled_alike(shown: Mapping[str, Any]) -> Problem:
    """Return the problem that ``shown`` writes out; its ``pairs`` are (first, second, rates)."""
    rates, gpus = shown["rates"], shown["gpus"]
    jobs, pairs = len(rates), shown.get("pairs", [])
    return Problem(
        flavors=tuple(f"f{k}" for k in range(len(gpus))),
        gpus=np.array(gpus, dtype=np.int64),
        jobs=tuple(f"j{k}" for k in range(jobs)),
        rates=np.array(rates, dtype=np.float64),
        scales=np.ones(jobs, dtype=np.int64),
        weights=np.ones(jobs),
        steps_left=np.array(shown["steps"], dtype=np.float64),
        ages_s=np.zeros(jobs),
        isolated_s=np.zeros(jobs),
        deadlines_s=np.full(jobs, np.inf),
        costs=np.array(shown["costs"], dtype=np.float64),
        pairs=None
        if not pairs
        else Pairs(
            first=np.array([first for first, _, _ in pairs]),
            second=np.array([second for _, second, _ in pairs]),
            rates=np.array([together for _, _, together in pairs], dtype=np.float64),
        ),
    )
