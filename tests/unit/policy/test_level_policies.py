"""Max-min fairness, makespan and finish-time fairness in problems that can be solved by hand."""

from __future__ import annotations

import numpy as np
import pytest

from quorate.policy.allocation import Allocation, Unsolved, UnsolvedCode, job_rates
from quorate.policy.problem import Problem
from quorate.policy.table import POLICIES
from tests.oracles.demands import problem

NAMES = tuple(
    f"{family}{variant}"
    for family in ("max_min_fairness", "min_total_duration", "finish_time_fairness")
    for variant in ("", "_perf", "_packed")
)


def solve(name: str, asked: Problem) -> Allocation:
    found = POLICIES[name].solve(asked)
    assert isinstance(found, Allocation), found
    return found


@pytest.mark.parametrize("name", NAMES)
def test_no_jobs_and_no_gpus_are_refused(name: str) -> None:
    nobody = POLICIES[name].solve(problem([], [1]))
    nothing = POLICIES[name].solve(problem([[1.0]], [0]))
    assert isinstance(nobody, Unsolved)
    assert isinstance(nothing, Unsolved)
    assert (nobody.code, nothing.code) == (UnsolvedCode.NO_JOBS, UnsolvedCode.NO_GPUS)


@pytest.mark.parametrize("name", NAMES)
def test_a_job_that_runs_nowhere_is_named(name: str) -> None:
    found = POLICIES[name].solve(problem([[1.0, 1.0], [0.0, 2.0]], [1, 0]))
    assert isinstance(found, Unsolved)
    assert found.code is UnsolvedCode.NEVER_RUNS
    assert found.subject == "job-1"
    assert "job-1" in found.message


@pytest.mark.parametrize("name", NAMES)
def test_a_job_gets_no_gpus_on_which_it_stands_still(name: str) -> None:
    found = solve(name, problem([[2.0, 0.0], [2.0, 1.0], [2.0, 1.0]], [1, 1]))
    assert found.shares[0, 1] == 0.0


def test_a_weight_divides_and_a_scale_multiplies() -> None:
    found = solve("max_min_fairness_perf", problem([[1.0], [1.0]], [1], weights=[1.0, 3.0]))
    assert found.shares[:, 0] == pytest.approx([0.25, 0.75])
    # Four GPUs for a quarter of the time count as much as one GPU all the time.
    found = solve("max_min_fairness_perf", problem([[1.0], [1.0]], [2], scales=[1, 4]))
    assert found.shares[:, 0] == pytest.approx([1.0, 0.25])


def test_without_looking_at_rates_every_share_is_as_good() -> None:
    asked = problem([[3.0, 1.0], [1.0, 1.0], [1.0, 3.0], [1.0, 1.0]], [1, 1])
    found = solve("max_min_fairness", asked)
    assert found.objective == pytest.approx(0.5)
    assert solve("max_min_fairness_perf", asked).objective > 0.5


def test_the_makespan_is_when_the_last_job_ends() -> None:
    asked = problem([[2.0], [1.0]], [1], steps=[100.0, 150.0])
    found = solve("min_total_duration_perf", asked)
    assert found.objective == pytest.approx(200.0)
    assert asked.steps_left / job_rates(asked, found) == pytest.approx([200.0, 200.0])
    # The price is the change per GPU at the margin; a second GPU would halve the makespan.
    assert found.prices == pytest.approx([-200.0])


def test_a_makespan_as_if_all_flavors_were_the_first() -> None:
    asked = problem([[2.0, 1.0]] * 2, [1, 1], steps=[100.0, 100.0])
    assert solve("min_total_duration", asked).objective == pytest.approx(50.0)
    assert solve("min_total_duration_perf", asked).objective == pytest.approx(200.0 / 3)


def test_a_delay_counts_what_has_passed() -> None:
    # Alone on half a GPU it would take 200 s from its start, and 100 s of them are over.
    late = problem([[1.0], [1.0]], [1], steps=[100.0, 100.0], ages_s=[100.0, 0.0])
    found = solve("finish_time_fairness_perf", late)
    delays = (late.ages_s + late.steps_left / job_rates(late, found)) / 200.0
    assert delays == pytest.approx([found.objective] * 2)
    assert found.shares[0, 0] > found.shares[1, 0]
    assert found.prices is not None
    assert found.prices[0] < 0


def test_delays_of_equal_jobs_are_what_an_equal_part_gives() -> None:
    found = solve("finish_time_fairness_perf", problem([[3.0, 1.0]] * 4, [1, 1]))
    assert found.objective == pytest.approx(1.0)


@pytest.mark.parametrize("family", ["min_total_duration", "finish_time_fairness"])
def test_jobs_that_are_done_need_nothing(family: str) -> None:
    asked = problem([[1.0], [1.0]], [1], steps=[100.0, 100.0])
    half = solve(f"{family}_perf", asked)
    done = problem([[1.0], [1.0]], [1])
    done.steps_left[:] = (100.0, 0.0)
    found = solve(f"{family}_perf", done)
    assert found.shares[:, 0] == pytest.approx([1.0, 0.0])
    assert found.objective < half.objective
    done.steps_left[:] = 0.0
    found = solve(f"{family}_perf", done)
    assert not found.shares.any()
    assert found.objective == found.bound == 0.0


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("_packed")])
def test_two_jobs_share_a_gpu_where_that_is_faster(name: str) -> None:
    pairs = {(0, 1): [[0.9, 0.9]]}
    asked = problem([[1.0], [1.0]], [1], pairs=pairs)
    found = solve(name, asked)
    assert job_rates(asked, found) == pytest.approx([0.9, 0.9])
    assert found.first[2:].tolist() == [0]
    assert found.second[2:].tolist() == [1]
    slow = solve(name, problem([[1.0], [1.0]], [1], pairs={(0, 1): [[0.4, 0.4]]}))
    assert len(slow.shares) == 2
    assert POLICIES[name].reads_pairs


def test_a_pair_in_which_one_stands_still_is_no_pair() -> None:
    asked = problem([[1.0], [1.0]], [1], pairs={(0, 1): [[9.0, 0.0]]})
    found = solve("max_min_fairness_packed", asked)
    assert np.allclose(found.shares[:2, 0], 0.5)
    assert len(found.shares) == 2


def test_a_policy_without_pairs_does_not_use_them() -> None:
    asked = problem([[1.0], [1.0]], [1], pairs={(0, 1): [[0.9, 0.9]]})
    for name in NAMES:
        if not name.endswith("_packed"):
            assert len(solve(name, asked).shares) == 2
