"""Within the bounds of pools, every policy gives a valid answer to every problem."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.loop.rounds.round_problem import FLAVORS_APART, SECONDS_MAX, SECONDS_MIN
from quorate.model.rounds_bounds import COST_MAX, COST_MIN, RATE_MAX, WEIGHT_MAX, WEIGHT_MIN
from quorate.policy.allocation import Allocation, Unsolved, UnsolvedCode, job_rates
from quorate.policy.askable import answer
from quorate.policy.policy_type import Policy
from quorate.policy.problem import Entity, Floats, Pairs, Problem
from quorate.policy.solvers.filling import groups_of, paces
from quorate.policy.table import POLICIES
from tests.oracles.effort import examples, few_of

TARGET_MIN: Final = 1e-6
"""The smallest part of a pool that an owner can have."""
JOBS_MAX: Final = 30


@st.composite
def extremes(draw: st.DrawFn, *, single: bool) -> Problem:
    """Draw a pool with any permitted values of runs, many of them at the bounds.

    ``single``: all jobs have one GPU.
    """
    chance = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    jobs, flavors = draw(st.integers(1, JOBS_MAX)), draw(st.integers(1, 5))
    return _extreme(chance, jobs, flavors, draw(st.integers(1, min(4, jobs))), single=single)


def _extreme(
    chance: np.random.Generator, jobs: int, flavors: int, owners: int, *, single: bool
) -> Problem:
    of = np.concatenate((np.arange(owners), chance.integers(0, owners, jobs - owners)))
    rates = _between(chance, 1.0 / FLAVORS_APART, 1.0, (jobs, flavors))
    rates[:, 0] = 1.0
    rates[:, 1:][chance.random((jobs, flavors - 1)) < 0.1] = 0.0
    fastest = _between(chance, 1e-4, RATE_MAX, (jobs, 1))
    weights = _between(chance, WEIGHT_MIN, WEIGHT_MAX, (jobs,))
    return Problem(
        flavors=tuple(f"f{k}" for k in range(flavors)),
        gpus=chance.choice([1, 3, 8, 100, 1_000], flavors),
        jobs=tuple(f"j{k}" for k in range(jobs)),
        rates=fastest * rates,
        scales=np.ones(jobs, np.int64) if single else chance.choice([1, 1, 2, 8], jobs),
        weights=weights,
        steps_left=fastest[:, 0] * _between(chance, SECONDS_MIN, SECONDS_MAX, (jobs,)),
        ages_s=_between(chance, 1.0, SECONDS_MAX, (jobs,)) * chance.integers(0, 2, jobs),
        isolated_s=_between(chance, 1.0, SECONDS_MAX, (jobs,)) * chance.integers(0, 2, jobs),
        deadlines_s=np.where(
            chance.random(jobs) < 1 / 2, np.inf, _between(chance, 1.0, SECONDS_MAX, (jobs,))
        ),
        entities=tuple(
            Entity(name=f"o{k}", weight=float(weight))
            for k, weight in enumerate(_between(chance, TARGET_MIN, 1.0, (owners,)))
        ),
        entity_of=of,
    )


def _between(
    chance: np.random.Generator, least: float, most: float, shape: tuple[int, ...]
) -> Floats:
    """Return numbers of any size within these bounds, two of every five at a bound."""
    found = np.exp(chance.uniform(np.log(least), np.log(most), shape))
    kind = chance.random(shape)
    return np.where(kind < 0.2, least, np.where(kind < 0.4, most, found))


def _asked(policy: Policy, drawn: Problem) -> Problem:
    """Return ``drawn`` in the form in which a pool passes it to the policy."""
    of, weights = drawn.entity_of, drawn.weights
    assert of is not None
    if not policy.reads_entities:
        owners = np.array([entity.weight for entity in drawn.entities])
        weights = owners[of] * weights / np.bincount(of, weights=weights)[of]
    pairs = None
    if policy.reads_pairs:
        first, second = np.triu_indices(len(drawn.jobs), 1)
        kept = (of[first] == of[second]) & (drawn.scales[first] == drawn.scales[second])
        first, second = first[kept], second[kept]
        together = 0.75 * np.stack((drawn.rates[first], drawn.rates[second]), axis=2)
        pairs = Pairs(first=first, second=second, rates=together) if len(first) else None
    costs = None
    if policy.reads_costs:
        chance = np.random.default_rng(len(drawn.jobs))
        costs = _between(chance, COST_MIN, COST_MAX, drawn.gpus.shape)
    return replace(drawn, weights=weights, pairs=pairs, costs=costs)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(POLICIES))
@examples(0.3)
@given(data=st.data())
def test_no_policy_is_without_an_answer_within_the_bounds(name: str, data: st.DataObject) -> None:
    policy = POLICIES[name]
    problem = _asked(policy, data.draw(extremes(single=name == "allox")))
    found = answer(policy, problem)
    assert isinstance(found, Allocation), found


@pytest.mark.slow
@pytest.mark.parametrize("seed", few_of(range(4), 1))
def test_water_filling_has_an_answer_where_many_jobs_are_far_apart(seed: int) -> None:
    policy = POLICIES["max_min_fairness_water_filling_perf"]
    drawn = _extreme(np.random.default_rng(seed), 400, 3, 10, single=True)
    problem = replace(_asked(policy, drawn), gpus=np.array([60, 60, 60]))
    found = answer(policy, problem)
    assert isinstance(found, Allocation), found
    # The answer reports jobs that lose by rounding.
    assert len(found.unfinished) < len(problem.jobs) / 10
    bounded = answer(policy, replace(problem, work_max=4_000_000))
    assert isinstance(bounded, Allocation), bounded
    assert len(bounded.unfinished) > len(problem.jobs) / 10
    # No job is below the first level by more than a negligible part.
    pace = paces(problem, groups_of(problem))
    first = found.bound * pace * (problem.rates @ problem.gpus / problem.gpus.sum())
    for each in (found, bounded):
        is_told = pace > 1e-8
        assert np.all((job_rates(problem, each) >= (1 - 1e-6) * first)[is_told])
        assert (problem.scales @ each.shares / problem.gpus).min() >= 1 - 1e-6


def test_water_filling_that_may_do_too_little_for_its_first_level_says_so() -> None:
    policy = POLICIES["max_min_fairness_water_filling_perf"]
    problem = _asked(policy, _extreme(np.random.default_rng(1), 100, 3, 4, single=True))
    found = answer(policy, replace(problem, work_max=300))
    assert isinstance(found, Unsolved)
    assert found.code is UnsolvedCode.TOO_MUCH_WORK
    assert found.message == "computing the first level of 100 kinds of jobs takes too much work"


@pytest.mark.soak
@pytest.mark.slow
def test_what_is_left_out_goes_by_work_and_not_by_the_number_of_jobs() -> None:
    """Many jobs on few GPUs take less work than few jobs on enough GPUs, always the same amount."""
    many, few = _left_out(6_000, 300), _left_out(900, 900)
    assert few > 0
    assert many / 6_000 < few / 900 / 10


def _left_out(jobs: int, gpus: int) -> int:
    """Return how many jobs a bounded filling does not finish, which is always the same."""
    policy = POLICIES["max_min_fairness_water_filling_perf"]
    chance = np.random.default_rng(3)
    drawn = _asked(policy, _extreme(chance, jobs, 3, 10, single=True))
    problem = replace(
        drawn,
        rates=chance.uniform(1.0, 10.0, (jobs, 3)),
        weights=chance.uniform(0.5, 2.0, jobs),
        gpus=np.full(3, gpus // 3),
        work_max=40_000_000,
    )
    found, again = answer(policy, problem), answer(policy, problem)
    assert isinstance(found, Allocation), found
    assert isinstance(again, Allocation), again
    assert np.array_equal(found.shares, again.shares)
    assert found.unfinished == again.unfinished
    return len(found.unfinished)
