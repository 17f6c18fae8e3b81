"""Histories of durations: the ratios of actual to declared duration of each owner's last runs.

The declared duration of a run is the duration that planning uses: the run states it, or else its
pool. Planning uses at least one hold quantum. The ratio of the actual to the declared duration is
stored as the number of a bucket. There are 256 buckets, eight to an octave: bucket ``b`` has the
ratios above 2 ** ((b - 129) / 8), up to and including 2 ** ((b - 128) / 8). So a ratio of exactly 1
is the upper bound of bucket 128. The first bucket ends at 1/65536 and has all lower ratios. The
last bucket ends at about 60097 and has all higher ratios. So the number of a bucket tells a ratio
with an error of 9 % at most.

An owner's history has the buckets of the owner's last 256 runs, so that the history follows the
present habits of the owner. Only integers are stored.

This module also has ``grace_ms``, the time that a run gets to checkpoint. The run states this time,
and its pool limits it.
"""

from __future__ import annotations

from bisect import bisect_left
from math import isqrt
from typing import Final

from msgspec import Struct

from quorate.model.amounts import HOLD_QUANTUM_MS
from quorate.model.specs import Pool, Run

BUCKETS: Final = 256
"""The number of buckets: the number of values of one byte."""
BUCKETS_PER_OCTAVE: Final = 8
ON_TIME: Final = 128
"""The bucket whose upper bound is a ratio of exactly 1."""
RATIO_BITS: Final = 32
"""Ratios are counted in parts of 2 ** 32."""
RECENT_RUNS: Final = 256
"""How many runs the history of an owner has at most: the last ones."""


def eighth_root_of_power(exponent: int) -> int:
    """Return the whole part of 2 ** (``exponent`` / 8)."""
    return isqrt(isqrt(isqrt(1 << exponent))) if exponent >= 0 else 0


RATIO_BOUNDS: Final = tuple(
    eighth_root_of_power(BUCKETS_PER_OCTAVE * RATIO_BITS + bucket - ON_TIME)
    for bucket in range(BUCKETS)
)
"""The upper bound of each bucket, in parts of 2 ** 32; the bound itself is in the bucket."""


def declared_ms(run: Run, pool: Pool) -> int:
    """Return how long planning expects ``run`` to take in ``pool``, of discipline ``bind``."""
    stated_ms = run.expected_duration_ms
    return max(pool.expected_duration_ms if stated_ms is None else stated_ms, HOLD_QUANTUM_MS)


def grace_ms(run: Run, pool: Pool) -> int:
    """Return how long ``run`` gets to checkpoint: what it asks for, at most what ``pool`` gives."""
    return min(run.checkpoint_ms, pool.grace_max_ms)


def bucket_of(actual_ms: int, expected_ms: int) -> int:
    """Return the bucket of a run that declared ``expected_ms`` and took ``actual_ms``."""
    # The ratio is rounded up, so that a ratio just above a bound is in the next bucket.
    ratio = -((-actual_ms << RATIO_BITS) // expected_ms)
    return min(bisect_left(RATIO_BOUNDS, ratio), BUCKETS - 1)


def bucket_end_ms(bucket: int, expected_ms: int) -> int:
    """Return the longest duration of a run that declared ``expected_ms`` and is in ``bucket``."""
    return -((-expected_ms * RATIO_BOUNDS[bucket]) >> RATIO_BITS)


class DurationHistory(Struct, frozen=True, gc=False):
    """The buckets of an owner's last runs that ended by themselves, the oldest first."""

    recent: bytes = b""

    def after(self, bucket: int) -> DurationHistory:
        """Return the history with one more run; if the history was full, without its oldest run."""
        return DurationHistory(self.recent[1 - RECENT_RUNS :] + _BYTES[bucket])

    def copy(self) -> DurationHistory:
        """Return the history itself, because it never changes."""
        return self


_BYTES: Final = tuple(bytes((bucket,)) for bucket in range(BUCKETS))
NO_HISTORY: Final = DurationHistory()
