"""Bounds of the values that a run that shares in rounds may declare.

Within them every policy has an answer, whatever the other runs of the pool declare; each was tested
at and beyond them. A document beyond a bound is refused. Ledgers from before a bound may hold any
value: a round reads a value beyond a bound as the bound.
"""

from __future__ import annotations

from typing import Final

WEIGHT_MIN: Final = 0.001
WEIGHT_MAX: Final = 1_000.0
"""The largest ratio of two weights. At a million the lesser weight gets a few milliseconds of an
hour, too little to share GPUs by."""

RATE_MIN: Final = 0.000_001
"""The least rate above 0 that the ledger can record: a step in eleven days."""
RATE_MAX: Final = 1_000_000.0
"""Steps per second: far beyond any real rate, and small enough for sums of rates to be exact."""

COST_MIN: Final = 0.01
COST_MAX: Final = 10_000.0
"""The highest price of a GPU for an hour, in any currency."""

TOTAL_STEPS_MAX: Final = 10**12
"""Eleven days at the highest rate; a larger number of steps in one report is not counted."""
