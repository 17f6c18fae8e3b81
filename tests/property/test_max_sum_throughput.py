"""The largest sum of rates, compared with a plain program, with as many deadlines as possible."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.policy.allocation import Allocation, breaches, job_rates
from quorate.policy.allocation_space import added, program, space_of
from quorate.policy.policies.max_sum_throughput import max_sum
from quorate.policy.problem import Floats, Problem
from quorate.policy.solvers.lp import Solution, solve
from tests.oracles.effort import examples
from tests.oracles.filling import problems

pytestmark = pytest.mark.slow


@st.composite
def _due(draw: st.DrawFn) -> Problem:
    """Draw a problem in which most jobs have deadlines, some of which are too near."""
    problem = draw(problems(paired=True))
    count = len(problem.jobs)
    deadlines = st.sampled_from([20.0, 40.0, 80.0, 120.0, 400.0, 0.0, float("inf")])
    return replace(problem, deadlines_s=np.array([draw(deadlines) for _ in range(count)]))


def _gain(problem: Problem, needed: Floats, *, paired: bool) -> float | None:
    """Return the largest gain with at least these rates; None if the rates are impossible."""
    space = space_of(problem, paired=paired)
    assert problem.costs is not None
    gains = added(space.columns, space.rates, len(space.rows)) / problem.costs[space.flavors]
    asked = program(space, gains)
    low = np.concatenate([needed * (1 - 1e-9), asked.row_low[len(needed) :]])
    answer = solve(replace(asked, row_low=low))
    return answer.objective if isinstance(answer, Solution) else None


@examples(0.5)
@given(problem=_due())
def test_as_many_deadlines_are_kept_as_in_any_choice_and_the_best_of_those(
    problem: Problem,
) -> None:
    for paired in (False, True):
        found = max_sum(problem, paired=paired, by_cost=True, deadlines=True)
        assert isinstance(found, Allocation), found
        assert breaches(problem, found) == []
        due = np.flatnonzero(np.isfinite(problem.deadlines_s))
        kept = [int(job) for job in due if job not in found.dropped]
        rates = job_rates(problem, found)
        with np.errstate(divide="ignore"):
            needed = problem.steps_left / problem.deadlines_s
        assert np.all(rates[kept] >= needed[kept] * (1 - 1e-6))
        best = _best(problem, needed, [int(job) for job in due], paired=paired)
        assert best[0] == len(kept)
        assert abs(found.objective - best[1]) <= 1e-6 * max(best[1], 1.0)
        assert found.gap <= 1e-7


def _best(problem: Problem, needed: Floats, due: list[int], *, paired: bool) -> tuple[int, float]:
    """Return the largest number of kept deadlines, and the largest gain with that number."""
    for count in range(len(due), -1, -1):
        gains = []
        for chosen in combinations(due, count):
            asked = np.zeros(len(problem.jobs))
            asked[list(chosen)] = needed[list(chosen)]
            gain = _gain(problem, asked, paired=paired) if np.all(np.isfinite(asked)) else None
            gains += [] if gain is None else [gain]
        if gains:
            return count, max(gains)
    raise AssertionError("nobody has to be in time, and still it cannot be done")


@given(problem=problems())
def test_without_deadlines_nothing_is_dropped_and_the_sum_is_the_programs(
    problem: Problem,
) -> None:
    found = max_sum(problem, paired=False, by_cost=False, deadlines=False)
    assert isinstance(found, Allocation)
    assert found.dropped == ()
    flat = replace(problem, costs=np.ones(len(problem.flavors)))
    best = _gain(flat, np.zeros(len(problem.jobs)), paired=False)
    assert best is not None
    assert abs(found.objective - best) <= 1e-6 * max(best, 1.0)
    assert abs(job_rates(problem, found).sum() - found.objective) <= 1e-9 * max(best, 1.0)
