"""Four properties of a policy, for jobs that are entitled alike, and how they are checked.

Jobs are new, take one GPU each, have the same weight, no deadline and nobody to share GPUs with.
They may differ in how fast they are on what, and in how many steps they have.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Final

import numpy as np
from hypothesis import strategies as st

from quorate.policy.allocation import Allocation, job_rates
from quorate.policy.lp import Solution, solve
from quorate.policy.measures import isolated_shares
from quorate.policy.problem import Problem
from quorate.policy.space import added, program, space_of
from quorate.policy.table import POLICIES

NEARLY: Final = 1e-6


class Property(StrEnum):
    """What one may ask of a policy."""

    SHARING = "sharing-incentive"
    ENVY = "envy-freeness"
    PARETO = "pareto-efficiency"
    HONESTY = "strategy-proofness"


def solved(policy: str, problem: Problem) -> Allocation:
    """Return the answer of a policy to a problem that has one."""
    found = POLICIES[policy].solve(problem)
    assert isinstance(found, Allocation), (policy, found)
    return found


def loss(policy: str, problem: Problem, asked: Property) -> float:
    """Return by what part, of what it has or could have, the policy misses a property here.

    Not for honesty, which takes a lie: see ``gain_by_lie``.
    """
    found = solved(policy, problem)
    rates = job_rates(problem, found)
    match asked:
        case Property.SHARING:
            alone = np.einsum("mj,mj->m", problem.rates, isolated_shares(problem))
            return float((1.0 - rates / alone).max())
        case Property.ENVY:
            as_others = problem.rates @ found.shares.T
            return float((1.0 - rates[:, None] / np.maximum(as_others, 1e-12)).max())
        case Property.PARETO:
            return _wasted(problem, rates)
        case Property.HONESTY:
            raise AssertionError("a lie is needed")


def gain_by_lie(policy: str, problem: Problem, job: int, said: list[float]) -> float:
    """Return by what part of its honest rate ``job`` is faster for saying ``said``."""
    told = problem.rates.copy()
    told[job] = said
    lied = solved(policy, replace(problem, rates=told))
    honest = float(job_rates(problem, solved(policy, problem))[job])
    gained = float(problem.rates[job] @ lied.shares[job])
    return (gained - honest) / max(honest, 1e-3)


def _wasted(problem: Problem, rates: np.typing.NDArray[np.float64]) -> float:
    """Return what all jobs could gain, added up, with none of them slower: of their best rates."""
    space = space_of(problem, paired=False)
    unit = space.fastest()
    gains = added(space.columns, space.rates / unit[space.jobs], len(space.rows))
    asked = program(space, gains)
    low = np.concatenate([rates * (1 - 1e-9), asked.row_low[len(rates) :]])
    answer = solve(replace(asked, row_low=low))
    assert isinstance(answer, Solution), answer
    return answer.objective - float((rates / unit).sum())


@st.composite
def alike(draw: st.DrawFn, *, jobs_max: int = 4) -> Problem:
    """Draw jobs that are entitled alike; each advances on some flavor that has GPUs."""
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
    return entitled_alike(rows, gpus, steps, costs)


def entitled_alike(
    rates: list[list[int]], gpus: list[int], steps: list[float], costs: list[float]
) -> Problem:
    """Return the problem of these jobs."""
    jobs = len(rates)
    return Problem(
        flavors=tuple(f"f{k}" for k in range(len(gpus))),
        gpus=np.array(gpus, dtype=np.int64),
        jobs=tuple(f"j{k}" for k in range(jobs)),
        rates=np.array(rates, dtype=np.float64),
        scales=np.ones(jobs, dtype=np.int64),
        weights=np.ones(jobs),
        steps_left=np.array(steps),
        ages_s=np.zeros(jobs),
        isolated_s=np.zeros(jobs),
        deadlines_s=np.full(jobs, np.inf),
        costs=np.array(costs),
    )
