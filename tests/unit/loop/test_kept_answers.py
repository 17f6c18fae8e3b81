"""Cached answers of policies: a policy is called again only when its problem has changed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from quorate.loop.rounds.kept_answers import KeptAnswers, asks_the_same
from quorate.loop.rounds.round_problem import PoolPolicy
from quorate.loop.rounds.round_snapshot import steady
from quorate.policy.allocation import Allocation, Unsolved, solver_failed
from quorate.policy.askable import answer
from quorate.policy.problem import Entity, Pairs, Problem
from quorate.policy.table import POLICIES

TIMELESS = POLICIES["max_min_fairness_perf"]
TIMED = POLICIES["finish_time_fairness_perf"]


def problem() -> Problem:
    """Return two jobs on two flavors."""
    return Problem(
        flavors=("a", "b"),
        gpus=np.array([1, 1]),
        jobs=("one", "two"),
        rates=np.array([[2.0, 1.0], [1.0, 1.0]]),
        scales=np.array([1, 1]),
        weights=np.array([1.0, 1.0]),
        steps_left=np.array([100.0, 100.0]),
        ages_s=np.array([0.0, 0.0]),
        isolated_s=np.array([0.0, 0.0]),
        deadlines_s=np.array([np.inf, np.inf]),
    )


@dataclass
class Calls:
    """Answers and counts how often."""

    count: int = 0
    kept: KeptAnswers = field(init=False)

    def __post_init__(self) -> None:
        self.kept = KeptAnswers(solve=self._solve)

    def _solve(self, policy: PoolPolicy, asked: Problem) -> Allocation | Unsolved:
        self.count += 1
        return answer(policy, asked)


def test_an_equal_problem_is_solved_once_however_far_its_jobs_have_come() -> None:
    calls = Calls()
    first = calls.kept.of("pool", TIMELESS, problem())
    later = replace(problem(), steps_left=np.array([7.0, 3.0]), ages_s=np.array([9.0, 9.0]))
    assert calls.kept.of("pool", TIMELESS, later) is first
    assert calls.count == 1


def test_a_policy_that_reads_progress_is_called_every_time() -> None:
    calls = Calls()
    calls.kept.of("pool", TIMED, problem())
    calls.kept.of("pool", TIMED, problem())
    assert calls.count == 2


def test_pools_and_policies_have_answers_of_their_own() -> None:
    calls = Calls()
    other = POLICIES["max_min_fairness"]
    calls.kept.of("pool", TIMELESS, problem())
    calls.kept.of("other", TIMELESS, problem())
    calls.kept.of("pool", other, problem())
    calls.kept.of("pool", TIMELESS, problem())
    assert calls.count == 4


PAIRS = Pairs(first=np.array([0]), second=np.array([1]), rates=np.ones((1, 2, 2)))


@pytest.mark.parametrize(
    "changed",
    [
        replace(problem(), gpus=np.array([1, 2])),
        replace(problem(), flavors=("a", "c")),
        replace(problem(), jobs=("one", "three")),
        replace(problem(), rates=np.array([[2.0, 1.0], [1.0, 1.5]])),
        replace(problem(), scales=np.array([1, 2])),
        replace(problem(), weights=np.array([1.0, 2.0])),
        replace(problem(), costs=np.array([1.0, 2.0])),
        replace(problem(), entities=(Entity(name="x"),), entity_of=np.array([0, 0])),
        replace(problem(), pairs=PAIRS),
        replace(problem(), work_max=5),
    ],
)
def test_whatever_a_policy_may_read_makes_another_problem(changed: Problem) -> None:
    assert asks_the_same(changed, replace(changed))
    assert not asks_the_same(problem(), changed)
    assert not asks_the_same(changed, problem())


def test_pairs_are_compared_by_what_they_are() -> None:
    one = replace(problem(), pairs=PAIRS)
    other = replace(problem(), pairs=replace(PAIRS, rates=np.full((1, 2, 2), 0.5)))
    assert asks_the_same(one, replace(problem(), pairs=replace(PAIRS)))
    assert not asks_the_same(one, other)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=lambda each: each.name)
def test_a_policy_that_says_it_reads_no_progress_answers_alike_whatever_it_is(
    policy: PoolPolicy,
) -> None:
    if policy.reads_progress:
        return
    asked = replace(problem(), costs=np.array([2.0, 1.0]), pairs=PAIRS)
    later = replace(
        asked,
        steps_left=np.array([1.0, 5_000.0]),
        ages_s=np.array([50.0, 1.0]),
        isolated_s=np.array([3.0, 70.0]),
        deadlines_s=np.array([10.0, 20.0]),
    )
    one, other = answer(policy, asked), answer(policy, later)
    assert isinstance(one, Allocation)
    assert isinstance(other, Allocation)
    assert np.array_equal(one.shares, other.shares)


@pytest.mark.parametrize(
    ("rates", "used", "found"),
    [
        ((100, 200), (100, 200), (100, 200)),
        ((105, 190), (100, 200), (100, 200)),
        ((106, 189), (100, 200), (106, 189)),
        ((94, 200), (100, 0), (94, 200)),
        ((0, 200), (100, 200), (0, 200)),
    ],
)
def test_a_rate_that_has_hardly_changed_is_the_one_of_the_last_round(
    rates: tuple[int, ...], used: tuple[int, ...], found: tuple[int, ...]
) -> None:
    assert steady(rates, used) == found


@pytest.mark.parametrize(
    ("rates", "used", "found"),
    [
        ((1_003, 1_997), (1_000, 2_000), (1_000, 2_000)),
        ((1_004, 1_996), (1_000, 2_000), (1_004, 1_996)),
        ((12, 0), (10, 2), (12, 0)),
    ],
)
def test_a_rate_that_has_changed_by_rounding_only_is_the_one_of_the_last_round(
    rates: tuple[int, ...], used: tuple[int, ...], found: tuple[int, ...]
) -> None:
    assert steady(rates, used, change_max=3) == found


def test_a_solver_that_failed_is_called_again() -> None:
    """The cause of its failure, such as a lack of memory, may be over."""
    answers = iter([solver_failed("no memory", "ask again"), answer(TIMELESS, problem())])
    kept = KeptAnswers(solve=lambda *_: next(answers))
    assert isinstance(kept.of("pool", TIMELESS, problem()), Unsolved)
    assert isinstance(kept.of("pool", TIMELESS, problem()), Allocation)
