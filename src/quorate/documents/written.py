"""Amounts in the core's units, as documents write them: exact decimals."""

from __future__ import annotations

import re
from decimal import Decimal, localcontext
from typing import Final

from quorate.model.amounts import HOUR_MS, PPM, fits_double

_PRECISION: Final = 40
_WIDE: Final = re.compile(r"-?[0-9]{1,60}(?:\.[0-9]{1,60})?(?:[eE][+-]?[0-9]{1,2})?")


def hours(gpu_ms: int) -> int | Decimal:
    """Return GPU- or node-milliseconds in hours, exactly for every amount a document can state.

    Those are the multiples of 9 ms; a computed amount in between is given to 40 digits.
    """
    return divided(gpu_ms, HOUR_MS)


def fraction(ppm: int) -> int | Decimal:
    """Return parts per million as a fraction of one, exactly."""
    return divided(ppm, PPM)


def seconds(ms: int) -> int | Decimal:
    """Return milliseconds in seconds, exactly."""
    return divided(ms, 1_000)


def hours_text(gpu_ms: int) -> str:
    """Return ``hours`` as digits, without an exponent."""
    return f"{hours(gpu_ms):f}" if gpu_ms % HOUR_MS else str(gpu_ms // HOUR_MS)


def divided(amount: int, unit: int) -> int | Decimal:
    """Return ``amount`` in ``unit``s, exactly where that is a decimal of at most 40 digits."""
    if amount % unit == 0:
        return amount // unit
    with localcontext() as context:
        context.prec = _PRECISION
        return (Decimal(amount) / unit).normalize()


def wide_number(text: str) -> Decimal | None:
    """Return the number that ``text`` writes out because no double holds it; None for any other.

    Protobuf's trees have only doubles: what these cannot hold travels as text.
    """
    if not _WIDE.fullmatch(text):
        return None
    found = Decimal(text)
    return None if fits_double(found) else found
