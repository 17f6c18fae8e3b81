"""Amounts as numbers for programs: rounded to a millionth, without trailing zeros. Pure."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Final

from quorate.core.tenancy.share_score import ONE
from quorate.model.amounts import HOUR_MS

MICROS: Final = 1_000_000
"""The number of millionths in one."""

Number = int | Decimal


def hours_number(ms: int) -> Number:
    """Return milliseconds as hours, rounded to a millionth, half up."""
    return fraction_number(Fraction(ms, HOUR_MS))


def fraction_number(fraction: Fraction) -> Number:
    """Return ``fraction`` as a decimal number, rounded to a millionth, half up."""
    whole, below = fraction.numerator, fraction.denominator
    return micros_number((2 * whole * MICROS + below) // (2 * below))


def micros_number(micros: int) -> Number:
    """Return a count of millionths as a number."""
    whole, rest = divmod(abs(micros), MICROS)
    sign = -1 if micros < 0 else 1
    if not rest:
        return sign * whole
    digits = f"{rest:06d}".rstrip("0")
    return sign * Decimal(f"{whole}.{digits}")


def share_number(parts: int) -> Decimal:
    """Return ``parts / ONE`` as a number with six decimals, rounded half up."""
    micros = (2 * parts * MICROS + ONE) // (2 * ONE)
    return Decimal(f"{micros // MICROS}.{micros % MICROS:06d}")
