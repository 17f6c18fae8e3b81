"""Three methods give the same highest level: prices, classes, and the plain program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quorate.policy.allocation import Allocation, Method, breaches, job_rates
from quorate.policy.class_demand import demand_of
from quorate.policy.classes import members_of
from quorate.policy.policies.finish_time_fairness import PROMPTNESS
from quorate.policy.policies.max_min_fairness import EFFICIENCY, EQUALITY, FAIRNESS
from quorate.policy.policies.min_total_duration import SPEED
from quorate.policy.problem import Floats, Problem
from quorate.policy.solvers import lp
from quorate.policy.solvers.highest import Aim, highest
from quorate.policy.solvers.levels import Levelled, Linear
from quorate.policy.solvers.plain_program import level_by_program
from quorate.policy.solvers.prices import level_by_prices
from quorate.policy.table import POLICIES
from tests.oracles.demands import paired_problems, problems
from tests.oracles.effort import examples

AIMS = (FAIRNESS, EFFICIENCY, EQUALITY, SPEED, PROMPTNESS)
ALIKE = 1e-6


def solved(problem: Problem, aim: Aim, *ways: Method) -> Allocation:
    """Return the answer by these methods, all of which apply to the drawn problem."""
    found = highest(problem, aim, frozenset(ways))
    assert isinstance(found, Allocation), found
    return found


def is_alike(a: float, b: float) -> bool:
    """Return whether two levels are equal up to a relative error of 1e-6."""
    return abs(a - b) <= ALIKE * max(abs(a), abs(b))


@pytest.mark.heavy
@given(problems(), st.sampled_from(AIMS))
def test_prices_classes_and_the_plain_program_agree(drawn: Problem, aim: Aim) -> None:
    plain = solved(drawn, aim, Method.LINEAR_PROGRAM)
    assert plain.method is Method.LINEAR_PROGRAM
    for way in (Method.PRICES, Method.CLASSES):
        found = solved(drawn, aim, way)
        assert is_alike(found.objective, plain.objective), way
        assert found.bound >= plain.objective - ALIKE * abs(plain.objective), way
        assert found.gap <= ALIKE, way
        assert breaches(drawn, found) == [], way


@pytest.mark.heavy
@given(problems(), st.sampled_from(AIMS))
def test_an_answer_reaches_what_it_says_and_none_stands_on_idle_flavors(
    drawn: Problem, aim: Aim
) -> None:
    for way in (Method.PRICES, Method.CLASSES, Method.LINEAR_PROGRAM):
        found = solved(drawn, aim, way)
        needs = aim.needs(drawn, len(drawn.jobs))
        reached = needs.reached(job_rates(drawn, found))
        assert is_alike(reached, found.objective), way
        assert not np.any(found.shares[:, drawn.gpus == 0]), way
        assert found.prices is not None
        assert np.all(found.prices >= 0), way


@pytest.mark.heavy
@given(problems(jobs_max=8))
def test_of_several_best_allocations_none_is_worth_more(drawn: Problem) -> None:
    needs = EFFICIENCY.needs(drawn, len(drawn.jobs))
    assert EFFICIENCY.worth is not None
    worth = EFFICIENCY.worth(drawn)[:, None] * drawn.rates * (drawn.gpus > 0)
    first = solved(drawn, FAIRNESS, Method.LINEAR_PROGRAM)
    least = first.objective * (1 - ALIKE)
    most = lp.solve(all_shares(drawn, worth, needs.at(least)[0]))
    assert isinstance(most, lp.Solution)
    for way in (Method.CLASSES, Method.LINEAR_PROGRAM):
        found = solved(drawn, EFFICIENCY, way)
        assert is_alike(found.objective, first.objective), way
        assert (worth * found.shares).sum() >= most.objective * (1 - 1e-4), way


def all_shares(drawn: Problem, worth: Floats, need: Floats) -> lp.Program:
    """Return the program of the values of all shares, as a table with all limits."""
    jobs, flavors = drawn.shape
    is_of_job = np.repeat(np.eye(jobs), flavors, axis=1)
    is_of_flavor = np.tile(np.eye(flavors), jobs)
    scales = np.repeat(drawn.scales, flavors)
    table = np.concatenate(
        (is_of_job * drawn.rates.ravel(), is_of_job, is_of_flavor * scales), dtype=np.float64
    )
    rows, columns = table.shape
    return lp.Program(
        gains=worth.ravel(),
        low=np.zeros(columns),
        high=np.full(columns, lp.INFINITE),
        starts=np.arange(0, table.size + 1, columns),
        columns=np.tile(np.arange(columns), rows),
        values=table.ravel(),
        row_low=np.concatenate((need, np.full(jobs + flavors, -lp.INFINITE))),
        row_high=np.concatenate((np.full(jobs, lp.INFINITE), np.ones(jobs), drawn.gpus)),
    )


@pytest.mark.heavy
@given(problems())
def test_prices_settle_what_the_plain_program_does(drawn: Problem) -> None:
    needs = FAIRNESS.needs(drawn, len(drawn.jobs))
    found = level_by_prices(demand_of(drawn), needs)
    plain = level_by_program(demand_of(drawn), needs)
    assert isinstance(plain, Levelled)
    if found is not None:  # The passes may be used up; then there is no result to compare.
        assert is_alike(found.level, plain.level)


@pytest.mark.heavy
@given(problems(jobs_max=8), st.data())
def test_needs_that_must_be_kept_are_kept(drawn: Problem, data: st.DataObject) -> None:
    growth = FAIRNESS.needs(drawn, len(drawn.jobs)).at(1.0)[0]
    first = level_by_program(demand_of(drawn), Linear(floor=0 * growth, growth=growth))
    assert isinstance(first, Levelled)
    held = np.array(data.draw(st.lists(st.booleans(), min_size=len(growth), max_size=len(growth))))
    assume(not held.all())
    needs = Linear(
        floor=np.where(held, 0.9 * first.level * growth, 0.0), growth=np.where(held, 0.0, growth)
    )
    plain = level_by_program(demand_of(drawn), needs)
    found = level_by_prices(demand_of(drawn), needs)
    assert isinstance(plain, Levelled)
    assert plain.level >= first.level * (1 - ALIKE)
    for answer in (plain, found):
        if answer is not None:
            rates = np.einsum("mj,mj->m", drawn.rates, answer.shares)
            assert is_alike(answer.level, plain.level)
            assert np.all(rates >= needs.at(answer.level)[0] * (1 - ALIKE))


@examples(0.6)
@given(paired_problems(), st.sampled_from(AIMS))
def test_pairs_of_classes_stand_for_pairs_of_jobs(drawn: Problem, aim: Aim) -> None:
    plain = solved(drawn, aim, Method.LINEAR_PROGRAM)
    found = solved(drawn, aim, Method.CLASSES)
    needs = aim.needs(drawn, len(drawn.jobs))
    assert is_alike(found.objective, plain.objective)
    assert is_alike(needs.reached(job_rates(drawn, found)), found.objective)
    assert breaches(drawn, found) == breaches(drawn, plain) == []
    assert np.all(found.first[len(drawn.jobs) :] < found.second[len(drawn.jobs) :])


@examples(0.6)
@given(paired_problems())
def test_to_be_allowed_to_share_makes_nobody_worse_off(drawn: Problem) -> None:
    packed = POLICIES["max_min_fairness_packed"].solve(drawn)
    apart = POLICIES["max_min_fairness_perf"].solve(drawn)
    assert isinstance(packed, Allocation)
    assert isinstance(apart, Allocation)
    assert packed.objective >= apart.objective * (1 - ALIKE)


@pytest.mark.heavy
@examples(0.4)
@given(problems(), st.sampled_from((1e-4, 0.3, 7.0, 1e5)))
def test_the_unit_in_which_rates_are_counted_does_not_matter(drawn: Problem, unit: float) -> None:
    scaled = replace(drawn, rates=drawn.rates * unit)
    for way in (Method.PRICES, Method.LINEAR_PROGRAM):
        before, after = solved(drawn, FAIRNESS, way), solved(scaled, FAIRNESS, way)
        assert is_alike(before.objective, after.objective), way
        slower = solved(scaled, SPEED, way)
        assert is_alike(solved(drawn, SPEED, way).objective * unit, slower.objective), way


@pytest.mark.heavy
@examples(0.4)
@given(problems(), st.integers(1, 5))
def test_as_many_times_the_jobs_and_gpus_are_no_other_problem(drawn: Problem, times: int) -> None:
    rows = np.tile(np.arange(len(drawn.jobs)), times)
    many = replace(members_of(drawn, rows), gpus=drawn.gpus * times)
    one, more = solved(drawn, FAIRNESS, Method.PRICES), solved(many, FAIRNESS, Method.CLASSES)
    assert is_alike(one.objective, more.objective)


@pytest.mark.heavy
@examples(0.4)
@given(problems(jobs_max=8), st.data())
def test_a_job_that_comes_never_raises_the_max_min_level(
    drawn: Problem, data: st.DataObject
) -> None:
    assume(len(drawn.jobs) > 1)
    left_out = data.draw(st.integers(0, len(drawn.jobs) - 1))
    fewer = members_of(drawn, np.delete(np.arange(len(drawn.jobs)), left_out))
    for way in (Method.PRICES, Method.CLASSES):
        before, after = solved(fewer, FAIRNESS, way), solved(drawn, FAIRNESS, way)
        assert after.objective <= before.objective * (1 + ALIKE), way


@pytest.mark.heavy
@examples(0.4)
@given(problems(jobs_max=6))
def test_a_gpu_more_is_worth_at_most_its_price(drawn: Problem) -> None:
    found = solved(drawn, SPEED, Method.PRICES)
    assert found.prices is not None
    for flavor in np.flatnonzero(drawn.gpus):
        gpus = drawn.gpus.copy()
        gpus[flavor] += 1
        more = solved(replace(drawn, gpus=gpus), SPEED, Method.LINEAR_PROGRAM)
        worth = found.bound + float(found.prices[flavor])
        assert more.objective <= worth * (1 + ALIKE)


@pytest.mark.heavy
@examples(0.4)
@given(problems())
def test_the_same_problem_has_the_same_answer(drawn: Problem) -> None:
    for way in (Method.PRICES, Method.CLASSES, Method.LINEAR_PROGRAM):
        first, again = solved(drawn, FAIRNESS, way), solved(drawn, FAIRNESS, way)
        assert np.array_equal(first.shares, again.shares), way
        assert first.objective == again.objective, way
