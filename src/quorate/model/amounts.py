"""Units: the core counts in whole GPUs, milliseconds and GPU-milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

PPM: Final = 1_000_000
"""Shares are counted in millionths."""
SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

HOLD_QUANTUM_MS: Final = 15 * MINUTE_MS
"""The least time for which a start sets money aside, and the step by which a hold is extended."""

GRACE_DEFAULT_MS: Final = 2 * MINUTE_MS
"""How long a run may take to checkpoint if its document states no time."""

# Bounds of the values in documents. The stored form needs signed 64-bit integers. With these bounds
# every product of two amounts fits into one: 2**20 GPUs x 200 years < 2**63 GPU-ms.
GPUS_PER_NODE_MAX: Final = 64
GPUS_MAX: Final = 1_048_576
STEPS_MAX: Final = 128
"""The most steps above its minimum that a malleable run may have."""
GROUPS_MAX: Final = 4_096
"""The most groups that a run may have. The limit is needed because each group has its own lease."""
FLAVORS_MAX: Final = 16
"""The most flavors that a run may name. The limit is needed because Quorate looks for a start on
each of these flavors."""
RATES_MAX: Final = 64
"""The most flavors for which a run may declare its rate."""
UPSTREAMS_MAX: Final = 1_000
"""The most upstreams that a run may have: as many as the runs that one request may submit."""
SPONSORS_MAX: Final = 100
"""The most sponsors that a run may name. The limit is needed because every envelope of each sponsor
is examined."""
DURATION_MS_MAX: Final = 366 * 10 * DAY_MS
TIME_MS_MIN: Final = 0
TIME_MS_MAX: Final = 7_258_118_400_000  # 2200-01-01T00:00:00Z


def hours_text(gpu_ms: int, *, up: bool = False) -> str:
    """Return GPU-milliseconds as hours with at most two decimals, rounded down, or up if ``up``."""
    hundredths, rest = divmod(gpu_ms, HOUR_MS // 100)
    hundredths += 1 if up and rest else 0
    whole, part = divmod(hundredths, 100)
    return f"{whole}.{part:02d}" if part else str(whole)


def fits_double(amount: Decimal) -> bool:
    """Return whether ``amount`` stays the same number if it is stored as a double."""
    return amount.is_finite() and Decimal(repr(float(amount))) == amount


def parts_that_add_up(parts: Sequence[int], unit: int) -> list[int]:
    """Return ``parts`` rounded to multiples of ``unit``, so that their sum is the rounded sum.

    First each part is rounded down. Then the parts that lost most are rounded up instead, as many
    as the sum needs.
    """
    shown = [part - part % unit for part in parts]
    missing = (nearest(sum(parts), unit) - sum(shown)) // unit
    for index in sorted(range(len(parts)), key=lambda i: (-(parts[i] % unit), i))[:missing]:
        shown[index] += unit
    return shown


def nearest(amount: int, unit: int) -> int:
    """Return the multiple of ``unit`` that is nearest to ``amount``, halves rounded up."""
    return (2 * amount + unit) // (2 * unit) * unit
