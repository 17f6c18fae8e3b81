"""The largest sum of rates, on problems that can be solved by hand, and refused problems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quorate.policy.allocation import Allocation, Unsolved, UnsolvedCode, job_rates
from quorate.policy.problem import Problem
from quorate.policy.table import POLICIES
from tests.oracles.few_jobs import few_jobs

SUM = "max_sum_throughput_perf"
FOR_MONEY = "max_sum_throughput_normalized_by_cost_perf"
IN_TIME = "max_sum_throughput_normalized_by_cost_perf_SLOs"


def _solved(name: str, problem: Problem) -> Allocation:
    found = POLICIES[name].solve(problem)
    assert isinstance(found, Allocation), found
    return found


def _priced(problem: Problem, *costs: float) -> Problem:
    return replace(problem, costs=np.array(costs))


def test_the_faster_job_has_everything() -> None:
    found = _solved(SUM, few_jobs([[1], [3]], [1]))
    assert found.shares.tolist() == [[0.0], [1.0]]
    assert found.objective == 3.0


def test_a_cheap_flavor_is_worth_being_slow_on() -> None:
    found = _solved(FOR_MONEY, _priced(few_jobs([[4, 3]], [1, 1]), 4.0, 1.0))
    assert found.shares.tolist() == [[0.0, 1.0]]
    assert found.objective == 3.0


def test_a_deadline_is_kept_although_it_costs_steps() -> None:
    problem = _priced(few_jobs([[1], [3]], [1]), 1.0)
    problem = replace(problem, deadlines_s=np.array([200.0, np.inf]))
    found = _solved(IN_TIME, problem)
    np.testing.assert_allclose(job_rates(problem, found), [0.5, 1.5], rtol=1e-6)
    assert found.dropped == ()


def test_of_deadlines_that_cannot_all_be_kept_the_fewest_are_dropped_and_named() -> None:
    # j0 alone would use the GPU; j1 and j2 can share it, and two deadlines are better than one.
    problem = _priced(few_jobs([[1], [1], [1]], [1]), 1.0)
    found = _solved(IN_TIME, replace(problem, deadlines_s=np.array([100.0, 200.0, 200.0])))
    assert found.dropped == (0,)


def test_of_as_many_deadlines_those_are_kept_that_leave_most() -> None:
    # Either deadline can be kept; the faster job has the larger rate.
    problem = _priced(few_jobs([[1], [3]], [1]), 1.0)
    problem = replace(problem, steps_left=np.array([100.0, 300.0]))
    found = _solved(IN_TIME, replace(problem, deadlines_s=np.array([100.0, 100.0])))
    assert found.dropped == (0,)


def test_a_deadline_that_has_gone_by_is_dropped_and_a_finished_job_has_none() -> None:
    problem = _priced(few_jobs([[1], [1]], [2]), 1.0)
    problem = replace(problem, steps_left=np.array([100.0, 0.0]))
    found = _solved(IN_TIME, replace(problem, deadlines_s=np.array([-5.0, -5.0])))
    assert found.dropped == (0,)


def test_a_job_that_runs_nowhere_is_given_nothing() -> None:
    assert _solved(SUM, few_jobs([[0], [2]], [1])).shares.tolist() == [[0.0], [1.0]]


@pytest.mark.parametrize(
    ("name", "problem", "code", "subject"),
    [
        (SUM, few_jobs([], [1]), UnsolvedCode.NO_JOBS, "jobs"),
        (SUM, few_jobs([[1]], [0]), UnsolvedCode.NO_GPUS, "cluster"),
        (FOR_MONEY, few_jobs([[1]], [1]), UnsolvedCode.NOT_APPLICABLE, "costs"),
        (
            IN_TIME,
            _priced(few_jobs([[1, 1]], [1, 1]), 1.0, 0.0),
            UnsolvedCode.NOT_APPLICABLE,
            "f1",
        ),
    ],
)
def test_it_refuses_and_names_what_is_in_the_way(
    name: str, problem: Problem, code: UnsolvedCode, subject: str
) -> None:
    found = POLICIES[name].solve(problem)
    assert isinstance(found, Unsolved)
    assert (found.code, found.subject) == (code, subject)
