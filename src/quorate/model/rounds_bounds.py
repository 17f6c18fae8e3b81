"""Bounds of what may be said of a run that shares in rounds.

Within them every policy has an answer, whatever the others of the pool say; each was tried at and
beyond them. A document that passes one is refused. Ledgers of before they were there may hold
anything: a round takes what is beyond a bound for the bound.
"""

from __future__ import annotations

from typing import Final

WEIGHT_MIN: Final = 0.001
WEIGHT_MAX: Final = 1_000.0
"""Of weights a million times apart the lesser is a part that GPUs are no longer shared by: a
thousandth of a second of an hour."""

RATE_MIN: Final = 0.000_001
"""The least rate above 0 that the ledger can write down: a step in eleven days."""
RATE_MAX: Final = 1_000_000.0
"""Steps a second: far beyond any, and few enough for sums of rates to be exact."""

TOTAL_STEPS_MAX: Final = 10**12
"""Eleven days at the highest rate; what is reported beyond it at one time is not believed."""
