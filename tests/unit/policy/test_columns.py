"""A program solved with few of its columns has the optimum of the whole program."""

from __future__ import annotations

import numpy as np
import pytest

from quorate.policy.allocation import Allocation, breaches, job_rates
from quorate.policy.policies.finish_time_fairness import PROMPTNESS
from quorate.policy.solvers import lp
from quorate.policy.solvers.columns import solve_with_few
from quorate.policy.solvers.highest import highest
from quorate.policy.solvers.plain_program import PAIRS_AT_ONCE
from tests.oracles.demands import problem


def program(seed: int, *, rows: int = 12, columns: int = 300) -> lp.Program:
    chance = np.random.default_rng(seed)
    values = chance.uniform(0.1, 1.0, (rows, columns)) * (chance.random((rows, columns)) < 0.4)
    values[0] += 0.05
    row, column = np.nonzero(values)
    return lp.Program(
        gains=chance.uniform(0.0, 1.0, columns),
        low=np.zeros(columns),
        high=np.full(columns, lp.INFINITE),
        starts=np.concatenate(([0], np.cumsum(np.bincount(row, minlength=rows)))),
        columns=column,
        values=values[row, column],
        row_low=np.full(rows, -lp.INFINITE),
        row_high=chance.uniform(1.0, 3.0, rows),
    )


@pytest.mark.parametrize("seed", range(8))
def test_few_columns_reach_the_optimum_of_all(seed: int) -> None:
    asked = program(seed)
    few = np.array([3, 1, 4])
    rows = len(asked.row_low)
    start = lp.basis(np.zeros(3, dtype=bool), np.ones(rows, dtype=bool), low=np.zeros(rows, bool))
    whole, found = lp.solve(asked), solve_with_few(asked, few, start)
    assert isinstance(whole, lp.Solution)
    assert isinstance(found, lp.Solution)
    assert found.objective == pytest.approx(whole.objective, rel=1e-9)
    assert float(asked.gains @ found.x) == pytest.approx(whole.objective, rel=1e-9)
    assert found.row_prices == pytest.approx(whole.row_prices, abs=1e-7)


def test_a_program_without_an_optimum_is_said_to_have_none() -> None:
    asked = program(1, rows=1, columns=2)
    endless = lp.Program(
        gains=asked.gains,
        low=asked.low,
        high=asked.high,
        starts=np.array([0, 0]),
        columns=np.zeros(0, dtype=np.int64),
        values=np.zeros(0),
        row_low=asked.row_low,
        row_high=asked.row_high,
    )
    start = lp.basis(np.zeros(1, dtype=bool), np.ones(1, dtype=bool), low=np.zeros(1, bool))
    assert isinstance(solve_with_few(endless, np.array([0]), start), lp.Status)


def test_pairs_of_many_different_jobs_are_solved_by_those_that_matter() -> None:
    chance = np.random.default_rng(2)
    jobs = 50
    rates = chance.lognormal(1.0, 0.5, (jobs, 2))
    pairs = {}
    for a in range(jobs):
        for b in range(a + 1, jobs):
            kept = chance.uniform(0.3, 0.9, (2, 2))
            pairs[a, b] = (np.stack((rates[a], rates[b]), axis=1) * kept).tolist()
    assert 2 * len(pairs) > PAIRS_AT_ONCE
    asked = problem(
        rates.tolist(), [5, 5], steps=chance.uniform(1e3, 1e5, jobs).tolist(), pairs=pairs
    )
    found = highest(asked, PROMPTNESS)
    assert isinstance(found, Allocation)
    assert breaches(asked, found) == []
    assert found.gap <= 1e-7
    reached = PROMPTNESS.needs(asked, jobs).reached(job_rates(asked, found))
    assert reached == pytest.approx(found.objective, rel=1e-9)
    assert len(found.shares) > jobs
