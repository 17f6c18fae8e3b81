"""The middle of the feasible region, compared with points around it, and the published search."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.model.job_types import JobType
from quorate.policy.problem import Floats, Ints
from quorate.policy.solvers.center import center, has_inside
from quorate.sim.published_makespan import LONGEST_S, PublishedMakespan, near_least_s
from quorate.sim.round_simulation import Moment
from tests.oracles.effort import examples

JOBS = st.lists(
    st.tuples(st.sampled_from((1, 2, 4, 8)), st.floats(0.0, 0.999), st.floats(1.0, 1e7)),
    min_size=1,
    max_size=12,
)
GPUS = st.lists(st.integers(1, 40), min_size=1, max_size=4).map(np.array)


def product(shares: Floats, times: Floats, scales: Ints, gpus: Ints) -> float:
    """Return the logarithm that is largest at the middle; minus infinity outside the region."""
    had = shares.sum(axis=1)
    left = np.concatenate((shares.ravel(), 1.0 - had, had - times, gpus - scales @ shares))
    return float(np.log(left).sum()) if left.min() > 0 else -np.inf


@examples(0.5)
@given(drawn=JOBS, gpus=GPUS, seed=st.integers(0, 2**32 - 1))
def test_no_shares_nearby_have_a_greater_product(
    drawn: list[tuple[int, float, float]], gpus: Ints, seed: int
) -> None:
    scales, chance = np.array([scale for scale, _, _ in drawn]), np.random.default_rng(seed)
    times = np.array([time for _, time, _ in drawn])
    times *= min(1.0, 0.999 * float(gpus.sum()) / max(float(scales @ times), 1e-9))
    found = center(times, scales, gpus)
    best = product(found, times, scales, gpus)
    assert np.isfinite(best)
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(10):
            other = found * np.exp(size * chance.standard_normal(found.shape))
            assert product(other, times, scales, gpus) <= best + 1e-9


@examples(0.5)
@given(drawn=JOBS, gpus=GPUS)
def test_the_search_ends_at_a_feasible_makespan_near_one_that_is_not(
    drawn: list[tuple[int, float, float]], gpus: Ints
) -> None:
    scales = np.array([scale for scale, _, _ in drawn])
    alone_s = np.array([alone_s for _, _, alone_s in drawn])
    found_s = near_least_s(alone_s, scales, gpus)
    # All jobs end no sooner than the longest job, and than all GPUs can do all work.
    least_s = max(float(alone_s.max()), float(scales @ alone_s) / float(gpus.sum()))
    assert has_inside(alone_s / found_s, scales, gpus)
    bound = 1.05
    if any(top_s / 1.05 < least_s <= top_s for top_s in (LONGEST_S, 10 * LONGEST_S)):
        bound *= 1.05  # The search ends below this makespan without trying it.
    assert found_s <= max(bound * 1.000001 * least_s, 105.0)


def test_a_search_that_begins_anew_may_end_farther_from_the_least() -> None:
    """It tries values up to 1e7, which is feasible, without 1e7 itself, and continues there."""
    one = np.array([1])
    found_s = near_least_s(np.array([9_718_750.0]), one, one)
    assert 1.05 * 9_718_750 < found_s < 1.05 * 1e7


def test_there_is_no_middle_where_a_job_needs_all_its_time() -> None:
    assert not has_inside(np.array([1.0, 0.1]), np.array([1, 1]), np.array([4]))
    assert not has_inside(np.array([0.5, 0.5]), np.array([2, 2]), np.array([2]))
    with pytest.raises(AssertionError, match="no interior"):
        center(np.array([1.0]), np.array([1]), np.array([4]))


def test_a_job_that_moves_nowhere_has_no_share_and_others_count_by_their_first_flavor() -> None:
    rates = {("0", "fast"): 2.0, ("0", "slow"): 0.5, ("1", "slow"): 1.0}
    policy = PublishedMakespan(
        {"fast": 1, "slow": 2},
        {name: JobType("m", 1) for name in "012"},
        lambda row, flavor: (rates.get((row[0], flavor), 0.0),),
    )
    moment = Moment(at_s=0.0, steps_left={"0": 8e5, "1": 4e5, "2": 1.0}, ages_s={})
    found = policy(moment)
    # Both take 400,000 s alone, each on its first flavor, so that they have the same shares.
    assert found[("0",)] == pytest.approx(found[("1",)])
    assert found[("2",)] == {"fast": 0.0, "slow": 0.0}
