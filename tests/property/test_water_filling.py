"""Water filling: the lowest job first, and no job is raised at the cost of a lower one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.policy.allocation import Allocation, Method, breaches, job_rates
from quorate.policy.allocation_space import program
from quorate.policy.classes import members_of
from quorate.policy.policies.water_filling import Filled, fill, water_filling
from quorate.policy.problem import Entity, EntityRule, Floats, Problem
from quorate.policy.solvers.filling import groups_of
from quorate.policy.solvers.lp import Solution, solve
from tests.oracles.effort import examples
from tests.oracles.filling import best_of, normalised, problems, slowly_filled

pytestmark = pytest.mark.slow


def _filled(problem: Problem, *, paired: bool = False) -> tuple[Allocation, Floats]:
    found = water_filling(problem, paired=paired)
    assert isinstance(found, Allocation), found
    assert breaches(problem, found) == []
    return found, job_rates(problem, found) / (problem.rates @ problem.gpus / problem.gpus.sum())


@given(problem=problems(entities_max=3))
def test_it_fills_as_far_as_one_program_for_each_level_and_job(problem: Problem) -> None:
    _, filled = _filled(problem)
    np.testing.assert_allclose(filled, slowly_filled(problem, paired=False), rtol=1e-6, atol=1e-6)


@given(problem=problems(entities_max=3))
def test_it_fills_as_far_where_prices_say_where_to_begin(problem: Problem) -> None:
    found = fill(normalised(problem, paired=False), groups_of(problem), many=1)
    assert isinstance(found, Filled), found
    np.testing.assert_allclose(
        found.filled, slowly_filled(problem, paired=False), rtol=1e-6, atol=1e-6
    )


@examples(0.2)
@given(
    drawn=problems(entities_max=3),
    seed=st.integers(0, 2**32),
    apart=st.sampled_from([0.0, 1e-9, 1e-6, 1e-3, 0.3]),
)
def test_many_jobs_are_filled_as_far_from_near_as_from_nothing(
    drawn: Problem, seed: int, apart: float
) -> None:
    """Jobs that are equal or nearly equal: all choose the same flavor at any prices."""
    many = _repeated(drawn, 10)
    chance = np.random.default_rng(seed)
    problem = replace(many, rates=many.rates * np.exp(apart * chance.random(many.rates.shape)))
    space, groups = normalised(problem, paired=False), groups_of(problem)
    near, plain = fill(space, groups, many=1), fill(space, groups, many=len(problem.jobs) + 1)
    assert isinstance(near, Filled)
    assert isinstance(plain, Filled)
    np.testing.assert_allclose(near.filled, plain.filled, rtol=1e-5, atol=1e-5)


@examples(0.5)
@given(problem=problems(jobs_max=3, entities_max=3), times=st.integers(2, 4))
def test_it_fills_equal_jobs_alike_and_as_far_as_one_by_one(problem: Problem, times: int) -> None:
    many = _repeated(problem, times)
    found, filled = _filled(many)
    np.testing.assert_allclose(filled, slowly_filled(many, paired=False), rtol=1e-6, atol=1e-6)
    if EntityRule.FIFO not in {entity.rule for entity in problem.entities}:
        assert found.method is Method.CLASSES
        np.testing.assert_array_equal(
            found.shares[: len(problem.jobs)], found.shares[-len(problem.jobs) :]
        )


@examples(0.5)
@given(problem=problems(paired=True, entities_max=2))
def test_it_fills_pairs_as_far_as_the_slow_way(problem: Problem) -> None:
    _, filled = _filled(problem, paired=True)
    np.testing.assert_allclose(filled, slowly_filled(problem, paired=True), rtol=1e-6, atol=1e-6)


@examples(0.5)
@given(problem=problems(paired=True))
def test_no_job_can_be_raised_without_lowering_one_that_is_not_better_off(
    problem: Problem,
) -> None:
    for paired in (False, True):
        _, filled = _filled(problem, paired=paired)
        space = normalised(problem, paired=paired)
        level = filled * problem.scales / problem.weights
        for job in range(len(problem.jobs)):
            not_better = level <= level[job] * (1 + 1e-9)
            kept = np.where(not_better, filled * (1 - 1e-9), 0.0)
            assert best_of(space, job, kept) <= filled[job] * (1 + 1e-6) + 1e-6


@given(problem=problems(paired=True))
def test_its_objective_is_proved_and_is_the_least_level(problem: Problem) -> None:
    for paired in (False, True):
        found, filled = _filled(problem, paired=paired)
        assert found.gap <= 1e-7
        least = (filled * problem.scales / problem.weights).min()
        assert abs(found.objective - least) <= 1e-9 * least


@examples(0.5)
@given(problem=problems())
def test_its_objective_is_that_of_one_program_for_the_least_level(problem: Problem) -> None:
    found, _ = _filled(problem)
    space = normalised(problem, paired=False)
    gains = np.zeros(len(space.rows) + 1)
    gains[-1] = 1.0
    answer = solve(program(space, gains, more=(-problem.weights / problem.scales,)))
    assert isinstance(answer, Solution)
    assert abs(found.objective - answer.objective) <= 1e-6 * answer.objective


@given(problem=problems(jobs_max=7).filter(lambda problem: len(problem.jobs) > 1))
def test_a_job_added_raises_nobody(problem: Problem) -> None:
    _, among_more = _filled(problem)
    _, among_fewer = _filled(members_of(problem, np.arange(len(problem.jobs) - 1)))
    assert np.all(among_more[:-1] <= among_fewer * (1 + 1e-6))


@examples(0.5)
@given(problem=problems(entities_max=3), factor=st.sampled_from([0.125, 3.0, 1000.0]))
def test_it_is_the_same_in_any_unit_of_rates_and_of_weights(
    problem: Problem, factor: float
) -> None:
    found, filled = _filled(problem)
    heavier = tuple(replace(entity, weight=entity.weight * factor) for entity in problem.entities)
    other = replace(
        problem,
        rates=problem.rates * factor,
        weights=problem.weights * factor,
        entities=heavier,
    )
    again, filled_again = _filled(other)
    np.testing.assert_allclose(filled_again, filled, rtol=1e-6, atol=1e-9)
    assert abs(again.objective * factor - found.objective) <= 1e-6 * found.objective


@given(
    gpus=st.integers(1, 6),
    splits=st.lists(
        st.lists(st.sampled_from([1.0, 2.0, 7.0]), min_size=3, max_size=3), min_size=2, max_size=2
    ),
)
def test_what_an_entity_has_does_not_depend_on_how_its_weight_is_split(
    gpus: int, splits: list[list[float]]
) -> None:
    """On one flavor: on several, a job with a high rate needs other GPUs than a slow one."""
    totals = []
    for split in splits:
        problem = _of_entities([1.0, 1.0, 3.0, 1.0, *split], gpus)
        _, filled = _filled(problem)
        totals.append([filled[:4].sum(), filled[4:].sum()])
    np.testing.assert_allclose(totals[0], totals[1], rtol=1e-6)


@examples(0.3)
@given(problem=problems(entities_max=3))
def test_without_rates_everybody_is_filled_by_time_alone(problem: Problem) -> None:
    flat = replace(problem, rates=(problem.rates > 0).astype(np.float64))
    found = water_filling(problem, paired=False, agnostic=True)
    assert isinstance(found, Allocation)
    assert breaches(problem, found) == []
    same = water_filling(flat, paired=False, agnostic=True)
    assert isinstance(same, Allocation)
    np.testing.assert_array_equal(found.shares, same.shares)


def _repeated(problem: Problem, times: int) -> Problem:
    """Return the problem with its list of jobs repeated ``times`` times."""
    rows = np.tile(np.arange(len(problem.jobs)), times)
    return replace(
        members_of(problem, rows),
        jobs=tuple(f"j{k}" for k in range(len(rows))),
        entities=problem.entities,
        entity_of=None if problem.entity_of is None else problem.entity_of[rows],
    )


def _of_entities(weights: list[float], gpus: int) -> Problem:
    """Return two entities on one flavor: weight 1 with four jobs, weight 2 with the rest."""
    jobs = len(weights)
    return Problem(
        flavors=("f",),
        gpus=np.array([gpus], dtype=np.int64),
        jobs=tuple(f"j{k}" for k in range(jobs)),
        rates=np.ones((jobs, 1)),
        scales=np.ones(jobs, dtype=np.int64),
        weights=np.array(weights),
        steps_left=np.ones(jobs),
        ages_s=np.zeros(jobs),
        isolated_s=np.zeros(jobs),
        deadlines_s=np.full(jobs, np.inf),
        entities=(Entity(name="a", weight=1.0), Entity(name="b", weight=2.0)),
        entity_of=np.array([0] * 4 + [1] * (jobs - 4), dtype=np.int64),
    )
