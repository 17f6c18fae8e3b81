"""Columns with room for several jobs give the same result as several columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.policy.allocation import Allocation, breaches
from quorate.policy.policies.allox import PUBLISHED_MAX, allox
from quorate.policy.problem import Floats, Ints
from quorate.policy.solvers.assignment import assign
from quorate.policy.solvers.transport import assign_rooms
from tests.oracles.effort import examples
from tests.oracles.few_jobs import few_jobs


@st.composite
def tables(draw: st.DrawFn) -> tuple[Floats, Ints]:
    """Draw costs and rooms; some are impossible, many are equal."""
    rows, columns = draw(st.integers(1, 9)), draw(st.integers(1, 6))
    cost = st.integers(0, 4).map(float) | st.floats(0.0, 9.0) | st.just(np.inf)
    rooms = draw(st.lists(st.integers(0, 4), min_size=columns, max_size=columns))
    costs = draw(st.lists(cost, min_size=rows * columns, max_size=rows * columns))
    return np.array(costs).reshape(rows, columns), np.array(rooms, dtype=np.int64)


@given(tables())
def test_rooms_are_filled_at_least_cost_or_there_is_no_way(drawn: tuple[Floats, Ints]) -> None:
    costs, rooms = drawn
    found = assign_rooms(costs, rooms, np.zeros(len(rooms), dtype=np.int64))
    single = np.repeat(costs, rooms, axis=1)
    plain = assign(single) if single.shape[0] <= single.shape[1] else None
    assert (found is None) == (plain is None)
    if found is not None and plain is not None:
        rows = np.arange(len(costs))
        assert np.all(np.bincount(found, minlength=len(rooms)) <= rooms)
        assert np.isclose(costs[rows, found].sum(), single[rows, plain].sum(), rtol=1e-12)


@pytest.mark.slow
@examples(0.1)
@given(seed=st.integers(0, 2**32 - 1), is_plain=st.booleans())
def test_many_jobs_end_as_early_as_with_a_place_for_each_gpu(seed: int, *, is_plain: bool) -> None:
    chance = np.random.default_rng(seed)
    flavors = int(chance.integers(1, 4))
    jobs = PUBLISHED_MAX + int(chance.integers(1, 20))
    rates = chance.uniform(0.5, 20.0, (jobs, flavors))
    steps = chance.uniform(10.0, 1e4, jobs)
    if is_plain:  # Few kinds, and therefore many ties.
        rates, steps = np.ceil(rates / 10.0), np.ceil(steps / 2_500.0)
    rates[:, 1:][chance.random((jobs, flavors - 1)) < 0.2] = 0.0
    gpus = chance.integers(1, 60, flavors)
    asked = few_jobs(rates.tolist(), gpus.tolist())
    asked = replace(
        asked, steps_left=steps, ages_s=100.0 * chance.integers(0, 3, jobs).astype(np.float64)
    )
    found = allox(asked)
    assert isinstance(found, Allocation)
    assert breaches(asked, found) == []
    runs = found.shares > 0
    assert np.all(asked.rates[runs] > 0)
    places = [(j, k) for j, n in enumerate(gpus) for k in range(1, -(-jobs // n) + 1)]
    seconds = np.divide(steps[:, None], rates, out=np.full(rates.shape, np.inf), where=rates > 0)
    costs = np.concatenate([np.repeat(k * seconds[:, [j]], gpus[j], axis=1) for j, k in places], 1)
    columns = assign(costs)
    assert columns is not None
    least_s = costs[np.arange(jobs), columns].sum() + asked.ages_s.sum()
    assert np.isclose(found.objective, least_s, rtol=1e-12)
