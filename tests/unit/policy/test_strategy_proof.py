"""The strategy-proof allocation on problems that can be solved by hand."""

from __future__ import annotations

import numpy as np
import pytest

from quorate.policy.allocation import Allocation, Unsolved, UnsolvedCode
from quorate.policy.policies.strategy_proof import strategy_proof
from quorate.policy.problem import Problem
from tests.oracles.few_jobs import few_jobs


def _solved(problem: Problem) -> Allocation:
    found = strategy_proof(problem)
    assert isinstance(found, Allocation), found
    return found


def test_a_job_alone_has_everything_it_can_use() -> None:
    found = _solved(few_jobs([[1, 3]], [1, 1]))
    np.testing.assert_allclose(found.shares, [[0.0, 1.0]], atol=1e-9)


def test_two_equal_jobs_on_one_gpu_are_each_discounted_by_what_they_take_from_the_other() -> None:
    # Each has half of what the other would have without it, and keeps half of that half.
    found = _solved(few_jobs([[1], [1]], [1]))
    np.testing.assert_allclose(found.shares, [[0.25], [0.25]], rtol=1e-9)
    assert found.discounts == pytest.approx([0.5, 0.5])
    assert abs(found.objective - 0.5) < 1e-9


def test_jobs_that_do_not_meet_are_not_discounted() -> None:
    found = _solved(few_jobs([[1, 0], [0, 1]], [1, 1]))
    np.testing.assert_allclose(found.shares, [[1.0, 0.0], [0.0, 1.0]], atol=1e-9)


def test_equal_jobs_have_equal_shares() -> None:
    found = _solved(few_jobs([[4, 2, 1], [4, 2, 1], [6, 2, 1.5]], [1, 1, 1]))
    np.testing.assert_allclose(found.shares[0], found.shares[1], rtol=1e-6, atol=1e-9)


def test_a_job_that_runs_nowhere_is_named() -> None:
    found = strategy_proof(few_jobs([[1, 1], [0, 1]], [1, 0]))
    assert isinstance(found, Unsolved)
    assert (found.code, found.subject) == (UnsolvedCode.NEVER_RUNS, "j1")
