"""The optimum of a policy that does not distinguish flavors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.policy.allocation import Allocation, Unsolved, breaches
from quorate.policy.askable import answer
from quorate.policy.policies.max_min_fairness import any_flavor
from quorate.policy.problem import Problem
from quorate.policy.table import POLICIES
from tests.oracles.effort import examples

AGNOSTIC = ("max_min_fairness", "finish_time_fairness", "min_total_duration")


def problem_of(
    gpus: list[int], rates: list[list[float]], scales: list[int], steps: list[float]
) -> Problem:
    none = np.zeros(len(rates))
    return Problem(
        flavors=tuple(f"f{n}" for n in range(len(gpus))),
        gpus=np.array(gpus),
        jobs=tuple(f"j{n}" for n in range(len(rates))),
        rates=np.array(rates),
        scales=np.array(scales),
        weights=none + 1.0,
        steps_left=np.array(steps),
        ages_s=none,
        isolated_s=none,
        deadlines_s=none + np.inf,
    )


def shares(policy: str, problem: Problem) -> Allocation:
    found = answer(POLICIES[policy], problem)
    assert isinstance(found, Allocation), found
    return found


@pytest.mark.parametrize("policy", AGNOSTIC)
def test_a_fast_flavor_is_not_idle_while_a_slow_one_is_used(policy: str) -> None:
    problem = problem_of([4, 4], [[1.0, 8.0], [2.0, 9.0], [1.0, 3.0]], [1, 1, 1], [10.0, 20.0, 9.0])
    found = shares(policy, problem).shares
    assert found == pytest.approx(np.array([[0.0, 1.0]] * 3))


@pytest.mark.parametrize("policy", AGNOSTIC)
def test_every_job_has_the_same_mix_of_flavors(policy: str) -> None:
    problem = problem_of([2, 6], [[8.0, 1.0]] * 8, [1, 1, 1, 1, 1, 1, 1, 1], [100.0] * 8)
    found = shares(policy, problem).shares
    assert found == pytest.approx(np.tile([0.25, 0.75], (8, 1)))


@pytest.mark.parametrize("policy", AGNOSTIC)
def test_a_job_that_runs_on_one_flavor_alone_is_served_there(policy: str) -> None:
    problem = problem_of([2, 2], [[1.0, 5.0], [1.0, 5.0], [0.0, 5.0], [0.0, 4.0]], [1] * 4, [9] * 4)
    found = shares(policy, problem).shares
    assert found == pytest.approx(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    flavors, jobs = draw(st.integers(1, 3)), draw(st.integers(1, 7))
    gpus = [draw(st.integers(0, 6)) for _ in range(flavors)]
    gpus[0] += 1
    rate = st.sampled_from([0.0, 1.0, 2.0, 8.0])
    rates = [[draw(rate) for _ in gpus] for _ in range(jobs)]
    for row in rates:
        row[0] = row[0] or 1.0
    scales = [draw(st.sampled_from([1, 1, 2, 4])) for _ in rates]
    steps = [draw(st.sampled_from([1.0, 50.0, 1e4])) for _ in rates]
    return problem_of(gpus, rates, scales, steps)


@pytest.mark.parametrize("policy", AGNOSTIC)
@examples(0.5)
@given(problem=problems())
def test_the_objective_holds_and_nothing_is_idle_that_a_job_lacks(
    policy: str, problem: Problem
) -> None:
    found = answer(POLICIES[policy], problem)
    assert not isinstance(found, Unsolved), found
    assert breaches(problem, found) == []
    time = found.shares.sum(axis=1)
    assert (found.shares[any_flavor(problem) == 0] == 0).all(), "a job has GPUs it cannot use"
    if policy == "max_min_fairness":
        least = (problem.scales * time).min()
        assert least >= found.objective * (1 - 1e-9)
    if (problem.rates[:, problem.gpus > 0] > 0).all():
        spare = problem.gpus.sum() - problem.scales @ time
        assert spare <= 1e-6 * problem.gpus.sum() or (time >= 1 - 1e-9).all()
