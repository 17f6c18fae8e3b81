"""A pool with too many runs loses little work to cuts, and loses more without the guards."""

from __future__ import annotations

import pytest

from benchmarks.thrash import GUARDED, TARGETS, UNGUARDED, Week, live
from quorate.model.events import EndReason
from quorate.model.specs import Pool


def expect_little_lost(week: Week) -> None:
    """Check that cuts were made, lost little work, and kept the pool in use."""
    assert week.lost_percent <= TARGETS[130]
    assert week.cuts[EndReason.RANDOM_PREEMPT] > 0
    assert week.done_gpu_ms > week.capacity_gpu_ms * 3 // 4


def test_the_guarded_pool_has_the_settings_that_a_pool_has_if_none_are_made() -> None:
    assert Pool(name="default") == GUARDED


@pytest.mark.soak
def test_a_small_pool_in_which_everybody_is_funded_loses_little_to_cuts() -> None:
    guarded = live(GUARDED, 130, nodes=16, days=3)
    unguarded = live(UNGUARDED, 130, nodes=16, days=3)
    expect_little_lost(guarded)
    assert guarded.lost_percent < unguarded.lost_percent


@pytest.mark.soak
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_week_at_130_percent_of_funded_demand_loses_at_most_3_percent(seed: int) -> None:
    expect_little_lost(live(GUARDED, 130, nodes=16, days=7, seed=seed))
