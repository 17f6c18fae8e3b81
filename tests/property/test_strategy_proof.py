"""The largest product of rates, its discounts, and that no job gains by misstating its rates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quorate.policy.allocation import Allocation, breaches, job_rates
from quorate.policy.allocation_space import added, program, space_of
from quorate.policy.policies.strategy_proof import strategy_proof
from quorate.policy.problem import Problem
from quorate.policy.solvers.lp import Solution, solve
from tests.oracles.effort import examples
from tests.oracles.filling import problems

pytestmark = pytest.mark.slow


def _solved(problem: Problem) -> Allocation:
    found = strategy_proof(problem)
    assert isinstance(found, Allocation), found
    assert breaches(problem, found) == []
    assert found.gap <= 1e-8
    return found


@examples(0.5)
@given(problem=problems())
def test_no_allocation_is_better_to_first_order(problem: Problem) -> None:
    """A concave function is largest where no direction leads up: one linear program checks this."""
    found = _solved(problem)
    assert found.discounts is not None
    rates = job_rates(problem, found) / found.discounts
    space = space_of(problem, paired=False)
    gains = added(space.columns, space.rates / rates[space.jobs], len(space.rows))
    answer = solve(program(space, gains))
    assert isinstance(answer, Solution)
    assert answer.objective <= len(problem.jobs) * (1 + 1e-6)
    level = (
        problem.scales
        * rates
        / (problem.weights * (problem.rates @ problem.gpus / problem.gpus.sum()))
    )
    assert abs(found.objective - np.exp(np.log(level).mean())) <= 1e-6 * found.objective


@examples(0.5)
@given(problem=problems())
def test_a_discount_leaves_at_least_one_part_in_e(problem: Problem) -> None:
    """Cole, Gkatzelis and Goel (2013), theorem 3.2."""
    found = _solved(problem)
    assert found.discounts is not None
    assert np.all(found.discounts >= np.exp(-1.0) * (1 - 1e-6))
    assert np.all(found.discounts <= 1.0)


@examples(0.5)
@given(problem=problems(jobs_max=4), drawn=st.data())
def test_nobody_is_faster_for_having_misstated_its_rates(
    problem: Problem, drawn: st.DataObject
) -> None:
    job = drawn.draw(st.integers(0, len(problem.jobs) - 1))
    said = drawn.draw(
        st.lists(st.integers(0, 6), min_size=len(problem.gpus), max_size=len(problem.gpus))
    )
    assume(any(rate and gpus for rate, gpus in zip(said, problem.gpus, strict=True)))
    rates = problem.rates.copy()
    rates[job] = said
    honest = job_rates(problem, _solved(problem))[job]
    misstated = job_rates(problem, _solved(replace(problem, rates=rates)))[job]
    assert misstated <= honest * (1 + 1e-6)


@examples(0.3)
@given(problem=problems(), scale=st.sampled_from([1e-3, 7.0, 1e4]))
def test_the_unit_of_a_jobs_steps_does_not_matter(problem: Problem, scale: float) -> None:
    rates = problem.rates.copy()
    rates[0] *= scale
    one, other = _solved(problem), _solved(replace(problem, rates=rates))
    np.testing.assert_allclose(one.shares, other.shares, atol=1e-6)
