"""Classes: which jobs are equal, and how the time of pairs of classes is divided among members."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quorate.policy.allocation import Allocation, Method, breaches, job_rates
from quorate.policy.classes import BLOCK, FEW, classes_of
from quorate.policy.policies.max_min_fairness import FAIRNESS
from quorate.policy.solvers.highest import CLASSES_MAX, highest
from tests.oracles.demands import problem

READS = ("rates", "scales", "weights")


def test_jobs_are_of_one_class_when_all_that_is_read_is_equal() -> None:
    asked = problem(
        [[2.0, 1.0], [3.0, 1.0], [2.0, 1.0], [2.0, 1.0], [2.0, 1.0]],
        [1, 1],
        scales=[1, 1, 1, 2, 1],
        weights=[1.0, 1.0, 1.0, 1.0, 5.0],
    )
    found = classes_of(asked, READS, 10)
    assert found is not None
    assert found.of.tolist() == [0, 1, 0, 2, 3]
    assert found.first.tolist() == [0, 1, 3, 4]
    assert found.counts.tolist() == [2, 1, 1, 1]


def test_what_is_not_read_tells_nobody_apart() -> None:
    asked = problem([[1.0], [1.0]], [1], steps=[1.0, 2.0])
    found = classes_of(asked, READS, 10)
    assert found is not None
    assert len(found) == 1
    apart = classes_of(asked, (*READS, "steps_left"), 10)
    assert apart is not None
    assert len(apart) == 2


def test_many_jobs_are_told_apart_as_a_sort_tells_them() -> None:
    chance = np.random.default_rng(5)
    jobs = 2 * BLOCK + 100
    kinds = chance.integers(0, 300, jobs)
    asked = replace(
        problem([[1.0, 1.0]] * jobs, [1, 1]),
        rates=np.stack((kinds.astype(np.float64), (kinds % 7).astype(np.float64)), axis=1),
        scales=1 + kinds % 2,
    )
    found = classes_of(asked, READS, 300)
    assert found is not None
    _, first, of, counts = np.unique(
        kinds, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    assert found.first.tolist() == first[order].tolist()
    assert found.counts.tolist() == counts[order].tolist()
    assert np.array_equal(order[found.of], of)


@pytest.mark.parametrize("jobs", [FEW, FEW + 1])
def test_few_jobs_are_told_apart_as_many_are(jobs: int) -> None:
    kinds = np.random.default_rng(jobs).integers(0, 9, jobs)
    of = (7 * kinds) % 9
    rates = np.stack((of // 3, of % 3), axis=1).astype(np.float64)
    found = classes_of(replace(problem([[1.0, 1.0]] * jobs, [1, 1]), rates=rates), READS, 9)
    assert found is not None
    assert len(found) == 9
    assert np.array_equal(kinds[found.first][found.of], kinds)
    assert np.array_equal(found.first, np.sort([kinds.tolist().index(k) for k in range(9)]))
    assert np.array_equal(found.counts, np.bincount(found.of))
    assert classes_of(replace(problem([[1.0, 1.0]] * jobs, [1, 1]), rates=rates), READS, 8) is None


@pytest.mark.parametrize("jobs", [20, BLOCK + 10])
def test_too_many_classes_are_none(jobs: int) -> None:
    asked = replace(problem([[1.0]] * jobs, [1]), rates=np.arange(1.0, jobs + 1.0).reshape(jobs, 1))
    assert classes_of(asked, READS, 19) is None


@pytest.mark.parametrize(("many", "few"), [(1, 1), (2, 1), (3, 2), (5, 3), (4, 4)])
def test_members_of_two_classes_meet_for_equal_times(many: int, few: int) -> None:
    rates = [[1.0]] * many + [[2.0]] * few
    pairs = {}
    for a in range(many + few):
        for b in range(a + 1, many + few):
            is_mixed = a < many <= b
            pairs[a, b] = [[1.0, 2.0]] if is_mixed else [[0.0, 0.0]]
    asked = problem(rates, [1], pairs=pairs)
    found = highest(asked, FAIRNESS, frozenset({Method.CLASSES}))
    plain = highest(asked, FAIRNESS, frozenset({Method.LINEAR_PROGRAM}))
    assert isinstance(found, Allocation)
    assert isinstance(plain, Allocation)
    assert found.method is Method.CLASSES
    assert found.objective == pytest.approx(plain.objective)
    rates_found = job_rates(asked, found)
    assert rates_found[:many] == pytest.approx(rates_found[0])
    assert rates_found[many:] == pytest.approx(rates_found[-1])
    assert breaches(asked, found) == []


@pytest.mark.parametrize("members", [1, 2, 3, 4, 7])
def test_a_class_of_two_or_more_pairs_with_itself(members: int) -> None:
    pairs = {(a, b): [[0.8, 0.8]] for a in range(members) for b in range(a + 1, members)}
    asked = problem([[1.0]] * members, [1], pairs=pairs)
    found = highest(asked, FAIRNESS, frozenset({Method.CLASSES}))
    assert isinstance(found, Allocation)
    assert found.objective == pytest.approx(1.0 if members == 1 else 1.6 / members)
    assert job_rates(asked, found) == pytest.approx(found.objective)


def test_pairs_that_tell_equal_jobs_apart_are_solved_job_by_job() -> None:
    asked = problem(
        [[1.0]] * 3, [1], pairs={(0, 1): [[0.9, 0.9]], (0, 2): [[0.5, 0.5]], (1, 2): [[0.9, 0.9]]}
    )
    found = highest(asked, FAIRNESS, frozenset({Method.CLASSES}))
    assert isinstance(found, Allocation)
    assert found.method is Method.LINEAR_PROGRAM


def test_a_pair_that_is_missing_tells_equal_jobs_apart() -> None:
    asked = problem([[1.0]] * 3, [1], pairs={(0, 1): [[0.9, 0.9]], (1, 2): [[0.9, 0.9]]})
    found = highest(asked, FAIRNESS, frozenset({Method.CLASSES}))
    assert isinstance(found, Allocation)
    assert found.method is Method.LINEAR_PROGRAM


def test_the_way_is_chosen_by_what_is_asked() -> None:
    chance = np.random.default_rng(1)
    some = problem([[2.0, 1.0]] * 400, [20, 20])
    different = replace(some, rates=chance.lognormal(0.0, 1.0, (400, 2)))
    few = problem(chance.lognormal(0.0, 1.0, (9, 2)).tolist(), [2, 2])
    assert CLASSES_MAX > 400
    for asked, method in (
        (some, Method.CLASSES),
        (different, Method.PRICES),
        (few, Method.LINEAR_PROGRAM),
    ):
        found = highest(asked, FAIRNESS)
        assert isinstance(found, Allocation)
        assert found.method is method
