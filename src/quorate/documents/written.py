"""Converts amounts from the core's units to the exact decimals that documents write."""

from __future__ import annotations

import re
from decimal import Decimal, localcontext
from typing import Final

from quorate.model.amounts import HOUR_MS, PPM, fits_double

_PRECISION: Final = 40
_WIDE: Final = re.compile(r"-?[0-9]{1,60}(?:\.[0-9]{1,60})?(?:[eE][+-]?[0-9]{1,2})?")


def hours(gpu_ms: int) -> int | Decimal:
    """Return GPU- or node-milliseconds in hours, exact for every amount that a document can have.

    Amounts in documents are multiples of 9 ms. Any other amount is rounded to 40 digits.
    """
    return divided(gpu_ms, HOUR_MS)


def fraction(ppm: int) -> int | Decimal:
    """Return parts per million as an exact fraction of one."""
    return divided(ppm, PPM)


def seconds(ms: int) -> int | Decimal:
    """Return milliseconds as exact seconds."""
    return divided(ms, 1_000)


def hours_text(gpu_ms: int) -> str:
    """Return ``hours`` as digits, without an exponent."""
    return f"{hours(gpu_ms):f}" if gpu_ms % HOUR_MS else str(gpu_ms // HOUR_MS)


def divided(amount: int, unit: int) -> int | Decimal:
    """Return ``amount`` in ``unit``s: exactly if 40 digits suffice, else rounded to 40 digits."""
    if amount % unit == 0:
        return amount // unit
    with localcontext() as context:
        context.prec = _PRECISION
        return (Decimal(amount) / unit).normalize()


def wide_number(text: str) -> Decimal | None:
    """Return the number in the string ``text`` if no double can hold it, else None.

    Trees in protobuf have only doubles, so such numbers are sent as strings.
    """
    if not _WIDE.fullmatch(text):
        return None
    found = Decimal(text)
    return None if fits_double(found) else found
