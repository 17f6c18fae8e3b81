"""How often runs start by their P50 and P90, in simulated fleets with known durations.

On each lease, runs follow each other, as in a fleet that is always full, and are examined at one
instant: so long runs are found more often than short ones, with any part of their time elapsed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import pytest

from quorate.core.planning.start_quantiles import ExpectedRelease, Need, start_quantiles
from quorate.model.amounts import HOUR_MS
from quorate.model.state.durations import NO_HISTORY, DurationHistory, bucket_of
from quorate.testing.builders import NOW_MS
from tests.oracles.effort import few_of

STARTS = 500
STARTS_PER_HISTORY = 10
OWNERS = 6
HOURS = (1, 4, 12, 24)
WARM_UP_MS = 500 * HOUR_MS

Ratio = Callable[[Random, int], float]


def overstated(rng: Random, _owner: int) -> float:
    """Return a typical ratio: around 0.6, log-normal, with a tail to 10 times."""
    return min(10.0, rng.lognormvariate(math.log(0.6), 1.0))


def each_its_own(rng: Random, owner: int) -> float:
    """Return a ratio of owners that differ: careful ones, and wild guesses."""
    middle, spread = ((0.3, 0.3), (0.6, 1.0), (1.0, 0.1), (1.0, 0.7), (0.9, 1.2), (2.0, 0.5))[owner]
    return min(10.0, rng.lognormvariate(math.log(middle), spread))


def history(rng: Random, owner: int, runs: int, ratio: Ratio) -> DurationHistory:
    found = NO_HISTORY
    for _ in range(runs):
        declared_ms = rng.choice(HOURS) * HOUR_MS
        found = found.after(bucket_of(round(declared_ms * ratio(rng, owner)), declared_ms))
    return found


def running(rng: Random, owner: int, ratio: Ratio) -> tuple[ExpectedRelease, int]:
    """Return the running run of a lease on which runs follow each other, and its end."""
    end_ms = NOW_MS - WARM_UP_MS - round(rng.random() * 100 * HOUR_MS)
    since_ms = declared_ms = 0
    while end_ms <= NOW_MS:
        since_ms, declared_ms = end_ms, rng.choice(HOURS) * HOUR_MS
        end_ms = since_ms + max(1, round(declared_ms * ratio(rng, owner)))
    gpus = rng.choice((1, 2, 4, 8, 8, 16))
    return ExpectedRelease(f"o{owner}", since_ms, since_ms + declared_ms, gpus), end_ms


def calibration(seed: int, runs: int, ratio: Ratio) -> tuple[float, float]:
    """Return the parts of starts that have come by P50 and by P90."""
    rng = Random(seed)
    by_p50 = by_p90 = 0
    histories: dict[str, DurationHistory] = {}
    for number in range(STARTS):
        if number % STARTS_PER_HISTORY == 0:
            histories = {f"o{owner}": history(rng, owner, runs, ratio) for owner in range(OWNERS)}
        leases = [running(rng, rng.randrange(OWNERS), ratio) for _ in range(rng.randint(1, 8))]
        needed = rng.randint(1, sum(release.gpus for release, _ in leases))
        need = Need(needed, tuple(release for release, _ in leases))
        found = start_quantiles(histories, [need], now_ms=NOW_MS)
        start_ms, free = NOW_MS, 0
        for release, end_ms in sorted(leases, key=lambda lease: lease[1]):
            if free < needed:
                start_ms, free = end_ms, free + release.gpus
        by_p50 += start_ms <= found.p50_ms
        by_p90 += start_ms <= found.p90_ms
    return by_p50 / STARTS, by_p90 / STARTS


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [overstated, each_its_own])
@pytest.mark.parametrize("seed", few_of((1, 2, 3), 1))
@pytest.mark.parametrize("runs", few_of([100, 256], 1))
def test_starts_come_by_their_quantiles_as_often_as_those_say(
    seed: int, runs: int, ratio: Ratio
) -> None:
    by_p50, by_p90 = calibration(seed, runs, ratio)
    assert 0.40 <= by_p50 <= 0.60, (by_p50, by_p90)
    assert 0.85 <= by_p90 <= 0.95, (by_p50, by_p90)
