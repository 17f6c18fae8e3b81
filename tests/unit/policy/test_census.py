"""Jobs counted by kind: the same shares as job by job, whoever comes and goes."""

from __future__ import annotations

import numpy as np
import pytest

from quorate.policy.allocation import Allocation, Unsolved, UnsolvedCode
from quorate.policy.census import Census, Kind
from quorate.policy.highest import highest
from quorate.policy.max_min_fairness import FAIRNESS
from tests.oracles.demands import problem

FAST = Kind(rates=(4.0, 1.0))
WIDE = Kind(rates=(3.0, 2.0), scale=4)
HEAVY = Kind(rates=(4.0, 1.0), weight=5.0)


def census(*kinds: Kind) -> Census:
    found = Census(("a", "b"), np.array([3, 5]))
    for kind in kinds:
        found.add(kind)
    return found


def level(counted: Census) -> float:
    found = counted.solve(FAIRNESS)
    assert isinstance(found, Allocation)
    jobs = [kind for kind, count in counted.counts.items() for _ in range(count)]
    plain = highest(
        problem(
            [list(kind.rates) for kind in jobs],
            [3, 5],
            scales=[kind.scale for kind in jobs],
            weights=[kind.weight for kind in jobs],
        ),
        FAIRNESS,
    )
    assert isinstance(plain, Allocation)
    assert found.objective == pytest.approx(plain.objective)
    return found.objective


def test_shares_follow_who_comes_and_goes() -> None:
    counted = census(FAST, FAST, WIDE, HEAVY)
    before = level(counted)
    for _ in range(5):
        counted.add(WIDE)
        after = level(counted)
        assert after <= before * (1 + 1e-9)
        before = after
    counted.remove(HEAVY)
    assert level(counted) > before
    assert HEAVY not in counted.counts


def test_one_more_of_a_kind_that_is_there_goes_on_from_the_last_answer() -> None:
    counted = census(FAST, WIDE)
    level(counted)
    kept = []
    for kind in (FAST, HEAVY, WIDE):
        counted.add(kind)
        kept.append(counted._basis is not None)
        level(counted)
    assert kept == [True, False, True]


def test_nobody_is_a_refusal() -> None:
    found = census().solve(FAIRNESS)
    assert isinstance(found, Unsolved)
    assert found.code is UnsolvedCode.NO_JOBS


def test_a_kind_that_never_runs_is_named() -> None:
    found = census(FAST, Kind(rates=(0.0, 0.0))).solve(FAIRNESS)
    assert isinstance(found, Unsolved)
    assert found.code is UnsolvedCode.NEVER_RUNS
    assert found.subject == "kind 1"
