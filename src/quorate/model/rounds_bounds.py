"""Bounds of the values that a run in a pool of rounds may declare.

Within these bounds every policy has an answer, whatever the other runs of the pool declare. The
policies were tested with values at each bound and beyond it. A document with a value beyond a bound
is refused. A ledger that is older than a bound may have a value beyond that bound; a round then
uses the bound instead of the value.
"""

from __future__ import annotations

from typing import Final

WEIGHT_MIN: Final = 0.001
WEIGHT_MAX: Final = 1_000.0
"""The largest ratio of two weights.

At a ratio of a million, the lesser weight would get a few milliseconds of an hour, which is too
little to share GPUs.
"""

RATE_MIN: Final = 0.000_001
"""The lowest rate above 0 that the ledger can record: one step in eleven days."""
RATE_MAX: Final = 1_000_000.0
"""The highest rate, in steps per second: far above real rates, and low enough for exact sums."""

COST_MIN: Final = 0.01
COST_MAX: Final = 10_000.0
"""The highest price of a GPU for an hour, in any currency."""

TOTAL_STEPS_MAX: Final = 10**12
"""The steps of eleven days at the highest rate; a report with more steps is not counted."""
