"""A pool that is asked for more than it has loses little work to cuts, and more without guards."""

from __future__ import annotations

import pytest

from benchmarks.thrash import GUARDED, TARGETS, UNGUARDED, live
from quorate.model.events import EndReason


@pytest.mark.slow
def test_a_small_pool_in_which_everybody_is_funded_loses_little_to_cuts() -> None:
    guarded = live(GUARDED, 130, nodes=16, days=3)
    unguarded = live(UNGUARDED, 130, nodes=16, days=3)
    assert guarded.lost_percent <= TARGETS[130]
    assert guarded.lost_percent < unguarded.lost_percent
    assert guarded.cuts[EndReason.RANDOM_PREEMPT] > 0
    assert guarded.done_gpu_ms > guarded.capacity_gpu_ms * 3 // 4
