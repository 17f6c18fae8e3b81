"""Water filling on problems that can be solved by hand, and refused problems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quorate.policy.allocation import Allocation, Unsolved, UnsolvedCode, breaches, job_rates
from quorate.policy.policies.water_filling import MANY, MISSED_MAX, water_filling
from quorate.policy.problem import Entity, EntityRule, Floats, Problem
from quorate.policy.solvers.lp import Solution, Standing, Status
from quorate.policy.table import POLICIES
from tests.oracles.few_jobs import few_jobs


def _rates(problem: Problem) -> list[float]:
    found = water_filling(problem, paired=False)
    assert isinstance(found, Allocation), found
    return [round(float(rate), 9) for rate in job_rates(problem, found)]


def _entities(problem: Problem, *entities: tuple[float, EntityRule], of: list[int]) -> Problem:
    return replace(
        problem,
        entities=tuple(
            Entity(name=f"e{k}", weight=weight, rule=rule)
            for k, (weight, rule) in enumerate(entities)
        ),
        entity_of=np.array(of, dtype=np.int64),
    )


def test_what_a_job_cannot_use_goes_to_those_that_can() -> None:
    # j0 can use only the one GPU of f0, which j1 leaves to it because it uses the two of f1.
    assert _rates(few_jobs([[1, 0], [1, 1], [0, 1]], [1, 2])) == [1.0, 1.0, 1.0]


def test_weights_divide_and_scales_count_gpus() -> None:
    assert _rates(few_jobs([[1], [1]], [1], weights=[1, 3])) == [0.25, 0.75]
    assert _rates(few_jobs([[1], [1]], [1], scales=[1, 2])) == [0.5, 0.25]


def test_a_job_that_is_at_its_fastest_passes_its_part_on() -> None:
    assert _rates(few_jobs([[1], [1], [1]], [2], weights=[5, 1, 1])) == [1.0, 0.5, 0.5]


def test_an_entity_divides_its_share_by_weight() -> None:
    problem = few_jobs([[1]] * 3, [1], weights=[1, 1, 3])
    fair = (1.0, EntityRule.FAIRNESS)
    assert _rates(_entities(problem, fair, fair, of=[0, 1, 1])) == [0.5, 0.125, 0.375]


def test_an_entity_that_is_a_queue_gives_all_to_its_first_job_and_then_to_the_next() -> None:
    problem = few_jobs([[1]] * 4, [3])
    queue, fair = (2.0, EntityRule.FIFO), (1.0, EntityRule.FAIRNESS)
    found = _rates(_entities(problem, fair, queue, of=[0, 1, 1, 1]))
    assert found == [1.0, 1.0, 1.0, 0.0]


def test_one_more_gpu_is_worth_its_price() -> None:
    one, two = (water_filling(few_jobs([[1], [1], [1], [1]], [n]), paired=False) for n in (1, 2))
    assert isinstance(one, Allocation)
    assert isinstance(two, Allocation)
    assert one.prices is not None
    assert one.objective + one.prices[0] == pytest.approx(two.objective)


def test_without_rates_time_is_spread_over_all_gpus_alike() -> None:
    found = POLICIES["max_min_fairness_water_filling"].solve(few_jobs([[9, 1], [1, 4]], [1, 3]))
    assert isinstance(found, Allocation)
    np.testing.assert_allclose(found.shares, [[0.25, 0.75], [0.25, 0.75]])


@pytest.mark.parametrize(
    ("problem", "code", "subject"),
    [
        (few_jobs([], [1]), UnsolvedCode.NO_JOBS, "jobs"),
        (few_jobs([[1]], [0]), UnsolvedCode.NO_GPUS, "cluster"),
        (few_jobs([[1, 1], [0, 1]], [1, 0]), UnsolvedCode.NEVER_RUNS, "j1"),
        (few_jobs([[1], [1]], [1], weights=[1, 0]), UnsolvedCode.NOT_APPLICABLE, "j1"),
        (
            _entities(few_jobs([[1]], [1]), (0.0, EntityRule.FIFO), of=[0]),
            UnsolvedCode.NOT_APPLICABLE,
            "e0",
        ),
    ],
)
def test_it_refuses_and_names_who_is_in_the_way(
    problem: Problem, code: UnsolvedCode, subject: str
) -> None:
    found = water_filling(problem, paired=False)
    assert isinstance(found, Unsolved)
    assert (found.code, found.subject) == (code, subject)


def test_a_program_in_which_the_solver_gets_lost_is_begun_anew() -> None:
    rates = [
        *([1.0, 27.777777, 0.0], [0.0, 27.046783, 0.0], [10.0, 1.0, 27.777777]),
        *([0.0, 27.77739, 0.0], [0.0, 0.0, 27.777464], [27.777716, 0.0, 0.0]),
        *([27.777777, 1.0, 10.0], [27.777777, 5.0, 1.0], [0.0, 5.0, 27.587518]),
        *([0.0, 27.046783, 0.0], [0.0, 5.0, 27.777777], [27.777656, 0.0, 0.0]),
        *([1.0, 27.777464, 5.0], [0.0, 27.587518, 0.0], [1.0, 27.777777, 5.0]),
        *([0.0, 27.777777, 0.0], [27.777777, 1.0, 0.0], [16.730675, 5.0, 0.0]),
    ]
    weights = [1, 10, 10, 1e3, 1e3, 10, 1e-3, 1e-3, 1e3, 1, 1, 1, 1e-3, 1, 1, 1e-3, 10, 1e-3]
    scales = [1, 1, 4, 2, 4, 1, 1, 4, 2, 1, 1, 2, 4, 1, 1, 2, 2, 1]
    fair = EntityRule.FAIRNESS
    problem = _entities(
        few_jobs(rates, [8, 8, 8], weights=weights, scales=scales),
        *((0.4, fair), (0.4, fair), (0.1, fair), (0.1, fair)),
        of=[0, 0, 1, 0, 2, 1, 1, 1, 2, 3, 2, 1, 1, 3, 3, 2, 1, 2],
    )
    found = water_filling(problem, paired=False)
    assert isinstance(found, Allocation), found
    assert found.gap <= 1e-7


def test_what_a_solvers_rounding_leaves_over_is_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is negligible for a job's fastest rate, but 0.07 % of its time on the slow flavor."""
    problem = few_jobs([[1, 1e-4]] * 3, [1, 2], weights=[1, 2, 3])
    of_flavor = np.tile([1.0, 1e-4], 3)

    def rounded(self: Standing, row_low: Floats, steps_max: int | None = None) -> Solution | Status:
        """Return an answer that is too low by as much as on another processor."""
        answer = plain(self, row_low, steps_max)
        if isinstance(answer, Status) or -answer.objective > MISSED_MAX:
            return answer
        short = np.append(0.67 * MISSED_MAX / of_flavor, 0.0)
        return replace(answer, x=np.maximum(answer.x - short, 0.0))

    plain = Standing.solve
    exact = water_filling(problem, paired=False)
    monkeypatch.setattr(Standing, "solve", rounded)
    found = water_filling(problem, paired=False)
    assert isinstance(exact, Allocation)
    assert isinstance(found, Allocation)
    assert found.unfinished == ()
    assert breaches(problem, found) == []
    np.testing.assert_allclose(problem.scales @ found.shares, problem.gpus, rtol=1e-9)
    rates = job_rates(problem, found)
    np.testing.assert_allclose(rates, job_rates(problem, exact), atol=MISSED_MAX)


def test_prices_give_the_first_level_if_the_exact_one_takes_too_much_work() -> None:
    """The number of a solver's steps for it depends on the processor's rounding."""
    chance = np.random.default_rng(7)
    jobs = MANY + 100
    problem = replace(
        few_jobs(
            np.ones((jobs, 3)).tolist(), [20, 30, 40], weights=chance.uniform(1, 9, jobs).tolist()
        ),
        rates=np.exp(chance.uniform(0.0, 5.0, (jobs, 3))),
    )
    exact = water_filling(problem, paired=False)
    found = water_filling(replace(problem, work_max=0), paired=False)
    assert isinstance(exact, Allocation)
    assert isinstance(found, Allocation), found
    assert len(found.unfinished) == jobs
    assert exact.unfinished == ()
    assert breaches(problem, found) == []
    assert found.gap <= 1e-6
    assert found.objective == pytest.approx(exact.objective, rel=2e-6)
    np.testing.assert_allclose(problem.scales @ found.shares, problem.gpus, rtol=1e-9)
