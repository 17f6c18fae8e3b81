"""The rest of an allocation goes to jobs that can use more, and no job loses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.policy.allocation import Method, alone, breaches
from quorate.policy.policies.leftover import topped_up, without_remainder
from quorate.policy.problem import Problem
from tests.oracles.filling import problems


@pytest.mark.heavy
@given(problem=problems(entities_max=2), data=st.data())
def test_nobody_has_less_and_nothing_is_left_that_somebody_could_use(
    problem: Problem, data: st.DataObject
) -> None:
    jobs, flavors = problem.shape
    seed = data.draw(st.integers(0, 2**32 - 1))
    drawn = np.random.default_rng(seed).random((jobs, flavors)) * (problem.rates > 0)
    fits = np.minimum(1.0, problem.gpus / np.maximum(problem.scales @ drawn, 1e-9))
    drawn *= fits / np.maximum((drawn * fits).sum(axis=1), 1.0)[:, None]
    asked = tuple(sorted(data.draw(st.sets(st.integers(0, jobs - 1), min_size=1))))
    before = replace(alone(drawn, objective=0.0, bound=0.0, method=Method.RULE), unfinished=asked)
    found = topped_up(problem, before)
    assert breaches(problem, found) == []
    assert np.all(found.shares >= before.shares)
    everybody = topped_up(problem, replace(before, unfinished=tuple(range(jobs))))
    np.testing.assert_array_equal(without_remainder(problem, before).shares, everybody.shares)
    others = np.setdiff1d(np.arange(jobs), asked)
    np.testing.assert_array_equal(found.shares[others], before.shares[others])
    spare = problem.gpus - problem.scales @ found.shares
    for job in asked:
        has_time = found.shares[job].sum() < 1 - 1e-6
        assert not (has_time and np.any((problem.rates[job] > 0) & (spare > 1e-2))), job
