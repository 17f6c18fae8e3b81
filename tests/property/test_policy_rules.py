"""Policies that are rules: their properties on any problem, and oracles that try everything."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quorate.policy.allocation import (
    ALONE,
    Allocation,
    Method,
    Unsolved,
    UnsolvedCode,
    breaches,
    job_rates,
)
from quorate.policy.files.cluster_file import Cluster
from quorate.policy.files.jobs_file import JobState, problem_of
from quorate.policy.measures import measures
from quorate.policy.policies.allox import ALLOX, allox
from quorate.policy.policies.equal_shares import EQUAL_SHARES, isolated, proportional
from quorate.policy.policies.fifo import FIFO, GAIN_MIN, fifo, fifo_packed, fifo_perf
from quorate.policy.policies.gandiva import GANDIVA, gandiva
from quorate.policy.policy_type import Policy
from quorate.policy.problem import Problem
from quorate.policy.solvers.assignment import assign
from quorate.policy.solvers.chance import Chance
from tests.oracles.effort import examples
from tests.oracles.rate_tables import problems

RULES = (*FIFO, *EQUAL_SHARES, *GANDIVA, *ALLOX)
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def solved(found: Allocation | Unsolved) -> Allocation:
    """Return the allocation; a problem without one is skipped."""
    assume(isinstance(found, Allocation))
    assert isinstance(found, Allocation)
    return found


@every_rule
@examples(0.5)
@given(problems())
def test_an_answer_keeps_every_constraint_and_is_always_the_same(
    rule: Policy, problem: Problem
) -> None:
    found = rule.solve(problem)
    if isinstance(found, Unsolved):
        allowed = {UnsolvedCode.NO_GPUS}
        if rule.name == "allox":
            allowed |= {UnsolvedCode.NOT_APPLICABLE, UnsolvedCode.NEVER_RUNS}
        assert found.code in allowed
        assert found.remedy
        return
    assert breaches(problem, found) == []
    jobs, _ = problem.shape
    assert found.first[:jobs].tolist() == list(range(jobs))
    assert (found.second[:jobs] == ALONE).all()
    assert rule.reads_pairs or len(found.shares) == jobs
    again = rule.solve(problem)
    assert isinstance(again, Allocation)
    assert np.array_equal(found.shares, again.shares)
    assert (found.objective, found.method) == (again.objective, again.method)


@every_rule
def test_nothing_to_share_is_refused(rule: Policy) -> None:
    nobody = Problem(
        flavors=("a",),
        gpus=np.array([1]),
        jobs=(),
        rates=np.zeros((0, 1)),
        scales=np.array([], dtype=np.int64),
        weights=np.array([]),
        steps_left=np.array([]),
        ages_s=np.array([]),
        isolated_s=np.array([]),
        deadlines_s=np.array([]),
    )
    found = rule.solve(nobody)
    assert isinstance(found, Unsolved)
    assert found.code is UnsolvedCode.NO_JOBS


@examples(0.5)
@given(problems())
def test_equal_shares_are_as_large_as_they_can_be(problem: Problem) -> None:
    found = solved(isolated(problem))
    gpus = found.shares * problem.scales[:, None]
    time = found.shares.sum(axis=1)
    # A job without its whole time has an equal part of every flavor.
    equal = problem.gpus / len(problem.jobs)
    for job in range(len(problem.jobs)):
        assert time[job] == pytest.approx(1) or gpus[job] == pytest.approx(equal)
    same = solved(proportional(problem))
    assert same.shares == pytest.approx(np.broadcast_to(same.shares[0], same.shares.shape))
    used = problem.scales @ same.shares
    assert same.shares[0].sum() == pytest.approx(1) or used == pytest.approx(problem.gpus)


@examples(0.5)
@given(problems())
def test_nobody_overtakes_and_nobody_stands_still(problem: Problem) -> None:
    for rule in (fifo, fifo_perf):
        found = solved(rule(problem))
        runs = found.shares.sum(axis=1) > 0
        rates = job_rates(problem, found)
        assert (rates[runs] > 0).all()
        assert found.objective == runs.sum()
        free = problem.gpus.copy()
        for job in range(len(problem.jobs)):
            has_room = free >= problem.scales[job]
            if not has_room.any():
                assert not runs[job:].any(), "somebody overtakes"
                break
            # Only jobs without a rate on any flavor with room are skipped.
            assert runs[job] == (has_room & (problem.rates[job] > 0)).any()
            free -= problem.scales[job] * found.shares[job].astype(np.int64)


@examples(0.5)
@given(problems())
def test_the_fastest_flavor_with_room_is_taken(problem: Problem) -> None:
    found = solved(fifo_perf(problem))
    free = problem.gpus.copy()
    for job in np.flatnonzero(found.shares.sum(axis=1)):
        taken = int(np.argmax(found.shares[job]))
        fits = [
            (-problem.rates[job, flavor], problem.flavors[flavor])
            for flavor in range(len(problem.flavors))
            if free[flavor] >= problem.scales[job] and problem.rates[job, flavor] > 0
        ]
        assert (-problem.rates[job, taken], problem.flavors[taken]) == min(fits)
        free[taken] -= problem.scales[job]


@examples(0.5)
@given(problems())
def test_those_that_share_gain_and_take_no_gpu_from_others(problem: Problem) -> None:
    found, without = solved(fifo_packed(problem)), solved(fifo_perf(problem))
    assert problem.scales[found.first] @ found.shares == pytest.approx(
        problem.scales @ without.shares
    )
    assert found.objective >= without.objective
    assert problem.pairs is not None or len(found.shares) == len(problem.jobs)
    for row in range(len(problem.jobs), len(found.shares)):
        one, other = int(found.first[row]), int(found.second[row])
        flavor = int(np.argmax(found.shares[row]))
        assert problem.pairs is not None
        pair = np.flatnonzero((problem.pairs.first == one) & (problem.pairs.second == other))
        both = problem.pairs.rates[pair[0], flavor]
        assert (both / problem.rates[[one, other], flavor]).sum() > GAIN_MIN
        assert without.shares[one, flavor] == 1.0
        assert not without.shares[other].any()


@examples(0.5)
@given(problems(), st.integers(0, 2**32 - 1))
def test_pairs_by_chance_are_pairs_of_the_problem(problem: Problem, seed: int) -> None:
    found = solved(gandiva(problem, seed=seed))
    jobs = len(problem.jobs)
    pairs = list(zip(found.first[jobs:].tolist(), found.second[jobs:].tolist(), strict=True))
    listed = set()
    if problem.pairs is not None:
        listed = set(zip(problem.pairs.first.tolist(), problem.pairs.second.tolist(), strict=True))
    assert set(pairs) <= listed
    members = [job for pair in pairs for job in pair]
    assert len(members) == len(set(members))
    assert all(not found.shares[job].any() for job in members)
    if problem.scales.sum() <= problem.gpus.sum():
        assert not pairs
        assert np.array_equal(found.shares, solved(isolated(problem)).shares)


@pytest.mark.heavy
@examples(0.5)
@given(problems(), st.integers(0, 2**32 - 1))
def test_a_drawn_flavor_has_room(problem: Problem, seed: int) -> None:
    found = solved(fifo(problem, seed=seed))
    assert breaches(problem, found) == []
    # Running jobs keep the same GPUs if the jobs behind them are removed.
    runs = int(found.objective)
    kept = slice(None, runs)
    assume(runs > 0)
    fewer = replace(
        problem,
        jobs=problem.jobs[kept],
        **{
            name: getattr(problem, name)[kept]
            for name in (
                "rates",
                "scales",
                "weights",
                "steps_left",
                "ages_s",
                "isolated_s",
                "deadlines_s",
            )
        },
        pairs=None,
        entities=(),
        entity_of=None,
    )
    again = solved(fifo(fewer, seed=seed))
    assert np.array_equal(again.shares, found.shares[kept])


def test_a_job_draws_its_flavor_whoever_is_before_it() -> None:
    names = [f"job-{number}" for number in range(40)]
    flavors = tuple("abcd")
    drawn: dict[str, int] = {}
    for some in (names, names[::-1], names[7:]):
        asked = problem_of(
            Cluster(flavors=flavors, gpus=(40,) * 4),
            [JobState(name=name) for name in some],
            np.ones((len(some), 4)),
        )
        found = fifo(asked)
        assert isinstance(found, Allocation)
        for name, shares in zip(some, found.shares, strict=True):
            assert drawn.setdefault(name, int(shares.argmax())) == shares.argmax()
    assert set(drawn.values()) == {0, 1, 2, 3}


@given(
    st.integers(1, 4).flatmap(
        lambda rows: st.tuples(st.just(rows), st.integers(rows, 5), st.booleans(), st.randoms())
    )
)
def test_an_assignment_costs_least(drawn: tuple[int, int, bool, random.Random]) -> None:
    rows, columns, tied, chance = drawn
    cells = [0.0, 1.0, 2.0, math.inf] if tied else [chance.random() for _ in range(rows * columns)]
    costs = np.array([[chance.choice(cells) for _ in range(columns)] for _ in range(rows)])
    least = min(
        sum(costs[row, column] for row, column in enumerate(chosen))
        for chosen in permutations(range(columns), rows)
    )
    found = assign(costs)
    if found is None:
        assert least == math.inf
        return
    assert len(set(found.tolist())) == rows
    assert costs[np.arange(rows), found].sum() == pytest.approx(least)


def _least_total_s(problem: Problem) -> float:
    """Return the least sum of ends of all plans: every job on every GPU, the shortest first."""
    gpus = np.repeat(np.arange(len(problem.flavors)), problem.gpus)
    best = math.inf
    for chosen in product(range(len(gpus)), repeat=len(problem.jobs)):
        total = float(problem.ages_s.sum())
        for gpu in set(chosen):
            took = sorted(
                math.inf
                if problem.rates[job, gpus[gpu]] == 0
                else problem.steps_left[job] / problem.rates[job, gpus[gpu]]
                for job, place in enumerate(chosen)
                if place == gpu
            )
            total += sum((len(took) - k) * seconds for k, seconds in enumerate(took))
        best = min(best, total)
    return best


@pytest.mark.heavy
@examples(0.3)
@given(problems(scale_max=1))
def test_the_plan_ends_jobs_as_early_as_any(problem: Problem) -> None:
    small = replace(problem, gpus=np.minimum(problem.gpus, [2, 1, *[0] * 6][: len(problem.gpus)]))
    assume(small.gpus.sum() ** len(small.jobs) <= 1000)
    found = solved(allox(small))
    assert found.method is Method.ASSIGNMENT
    assert found.objective == pytest.approx(_least_total_s(small))
    assert found.gap == 0
    assert (job_rates(small, found)[found.shares.sum(axis=1) > 0] > 0).all()


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(2, 60), max_size=20))
def test_chance_is_the_one_the_results_were_published_with(seed: int, counts: list[int]) -> None:
    ours, theirs = Chance(seed), random.Random(seed)
    for count in counts:
        assert ours.two_of(count) == tuple(theirs.sample(range(count), 2))
        assert ours.below(count) == theirs.randrange(count)


@pytest.mark.parametrize("rule", [*FIFO, *EQUAL_SHARES, *GANDIVA], ids=lambda rule: rule.name)
@examples(0.3)
@given(problems())
def test_measures_are_those_of_the_definitions(rule: Policy, problem: Problem) -> None:
    found = solved(rule.solve(problem))
    rates = job_rates(problem, found)
    measured = measures(problem, found)
    mixed = problem.rates @ (problem.gpus / problem.gpus.sum())
    relative = [
        0.0
        if mixed[job] == 0
        else rates[job] * problem.scales[job] / problem.weights[job] / mixed[job]
        for job in range(len(problem.jobs))
    ]
    assert measured.least_relative_rate == pytest.approx(min(relative))
    ends = [
        0.0 if left == 0 else math.inf if rate == 0 else left / rate
        for left, rate in zip(problem.steps_left, rates, strict=True)
    ]
    assert measured.makespan_s == pytest.approx(max(ends))
    assert measured.rate_sum == pytest.approx(rates.sum())
    assert (measured.gpus_used <= problem.gpus * (1 + 1e-9)).all()
