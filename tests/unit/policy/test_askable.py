"""The inputs that an answer needs, and the check that rejects wrong answers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from quorate.policy.allocation import Allocation, Method, Unsolved, UnsolvedCode, alone
from quorate.policy.askable import answer
from quorate.policy.files.cluster_file import Cluster
from quorate.policy.files.jobs_file import JobState, problem_of
from quorate.policy.policy_type import Policy
from quorate.policy.problem import Pairs, Problem

TWO = problem_of(
    Cluster(flavors=("a", "b"), gpus=(1, 1)),
    [JobState(name="x"), JobState(name="y", scale=2)],
    np.ones((2, 2)),
)


def giving(share: float, objective: float = 1.0) -> Policy:
    """Return a policy that gives every job the same share of every flavor."""

    def solve(problem: Problem) -> Allocation:
        shares = np.full(problem.shape, share)
        return alone(shares, objective=objective, bound=objective, method=Method.RULE)

    return Policy(name="giving", goal="", solve=solve, metric="")


def refused(found: Allocation | Unsolved) -> Unsolved:
    assert isinstance(found, Unsolved), found
    return found


def test_a_sound_answer_is_passed_on() -> None:
    assert isinstance(answer(giving(0.25), TWO), Allocation)


@pytest.mark.parametrize(
    ("share", "objective", "subject"),
    [
        (-0.1, 1.0, "job x"),
        (0.6, 1.0, "job x"),
        (0.5, 1.0, "flavor a"),
        (0.1, math.nan, "objective"),
    ],
)
def test_an_answer_that_does_not_hold_is_a_refusal(
    share: float, objective: float, subject: str
) -> None:
    found = refused(answer(giving(share, objective), TWO))
    assert (found.code, found.subject) == (UnsolvedCode.SOLVER_FAILED, subject)
    assert "the answer of giving breaks a constraint" in found.message


def test_what_a_policy_reads_has_to_be_there() -> None:
    steps = refused(answer(replace(giving(0.1), reads_steps=True), TWO))
    assert (steps.code, steps.subject) == (UnsolvedCode.NOT_APPLICABLE, "x")
    costs = refused(answer(replace(giving(0.1), reads_costs=True), TWO))
    assert (costs.code, costs.subject) == (UnsolvedCode.NOT_APPLICABLE, "instance_costs")
    assert isinstance(
        answer(replace(giving(0.1), reads_costs=True), replace(TWO, costs=np.ones(2))), Allocation
    )


def test_nothing_to_share_is_a_refusal() -> None:
    none = replace(TWO, gpus=np.zeros(2, dtype=np.int64))
    assert refused(answer(giving(0.0), none)).code is UnsolvedCode.NO_GPUS


@pytest.mark.parametrize("field", ["gpus", "rates", "weights", "costs", "entity_of"])
def test_a_policy_cannot_change_the_problem_of_the_next_one(field: str) -> None:
    problem = replace(TWO, costs=np.ones(2), entity_of=np.zeros(2, dtype=np.int64))
    before = getattr(problem, field).copy()

    def solve(asked: Problem) -> Allocation:
        getattr(asked, field)[...] = 7
        raise AssertionError("the assignment above raises")

    with pytest.raises(ValueError, match="read-only"):
        answer(replace(giving(0.1), solve=solve), problem)
    assert (getattr(problem, field) == before).all()
    getattr(problem, field)[...] = before


def test_a_policy_cannot_change_the_pairs_of_the_next_one() -> None:
    ends = np.array([0]), np.array([1])
    pairs = Pairs(first=ends[0], second=ends[1], rates=np.ones((1, 2, 2)))

    def solve(asked: Problem) -> Allocation:
        assert asked.pairs is not None
        for values in (asked.pairs.first, asked.pairs.second, asked.pairs.rates):
            with pytest.raises(ValueError, match="read-only"):
                values[...] = 0
        return alone(np.zeros(asked.shape), objective=0.0, bound=0.0, method=Method.RULE)

    assert isinstance(
        answer(replace(giving(0), solve=solve), replace(TWO, pairs=pairs)), Allocation
    )
