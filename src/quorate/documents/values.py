"""Readers of scalars: names, strings, integers, exact decimals, hours, choices.

Each reader is a ``Read``: it takes the plain value from YAML or JSON, and returns the value in the
core's units. If the value is faulty, the reader reports a fault with a remedy and returns None.
Decimals are exact: 0.1 hours is exactly 360,000 ms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from enum import StrEnum
from typing import Final, TypeVar

from quorate.documents.document_problem import quoted, shown
from quorate.documents.field_reader import At, Read, complete, listed, nearest, refuse_repeats
from quorate.documents.written import divided, wide_number
from quorate.model.amounts import GPUS_MAX, HOUR_MS, PPM, TIME_MS_MAX

NAME_CHARS_MAX: Final = 128
LINE_CHARS_MAX: Final = 256
TEXT_CHARS_MAX: Final = 131_072
"""The maximal length of an argument or environment variable, which is the limit of Linux."""

GPU_MS_MAX: Final = GPUS_MAX * TIME_MS_MAX
"""More GPU-milliseconds than any fleet can use before the latest time that a document accepts."""

COUNT_MAX: Final = GPUS_MAX
RATE_MAX: Final = 10**12

_DIGITS_MAX: Final = 60
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:-]{0,126}[A-Za-z0-9])?")
_UNSAFE: Final = re.compile("[\x00\ud800-\udfff]")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_PERCENT: Final = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?) ?%")
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}")
_NAME_RULE: Final = (
    f"must be 1 to {NAME_CHARS_MAX} letters, digits, '.', '_', ':' or '-' "
    "that start and end with a letter or digit"
)

E = TypeVar("E", bound=StrEnum)


def text_at(value: object, at: At) -> str | None:
    """Return ``value`` if it is a string; for a number or boolean, ask for quotes."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float | Decimal):
        written = shown(value)
        at.fault(f"must be text, got {written}", f'write "{written}" in quotes')
    else:
        at.fault(f"must be text, got {shown(value)}", "write one value in quotes")
    return None


def name(value: object, at: At) -> str | None:
    """Return ``value`` if it is a valid name."""
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    if text_at(value, at) is not None:
        at.fault(f"{_NAME_RULE}, got {shown(value)}", "choose a name like team-a or node.17")
    return None


def is_name(value: object) -> bool:
    """Return whether ``value`` is a valid name."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def name_prefix(value: object, at: At) -> str | None:
    """Return ``value`` if it can be the prefix of a generated name."""
    if isinstance(value, str) and len(value) <= NAME_CHARS_MAX // 2 and is_name(value + "0"):
        return value
    if text_at(value, at) is not None:
        at.fault(
            f"must be at most {NAME_CHARS_MAX // 2} characters that are valid in a name, "
            f"got {shown(value)}",
            "write a prefix like train-",
        )
    return None


def line(value: object, at: At) -> str | None:
    """Return ``value`` if it is one non-empty line of text."""
    found = text_at(value, at)
    if found is None:
        return None
    if not found or len(found) > LINE_CHARS_MAX or _CONTROL.search(found):
        at.fault(
            f"must be one line of 1 to {LINE_CHARS_MAX} characters, got {shown(found)}",
            "write one line without control characters",
        )
        return None
    return found


def text(value: object, at: At) -> str | None:
    """Return ``value`` if it is text that can be an argument or a variable of a process."""
    found = value if isinstance(value, str) else text_at(value, at)
    if found is None:
        return None
    if len(found) > TEXT_CHARS_MAX:
        at.fault(f"must be at most {TEXT_CHARS_MAX} characters, got {len(found)}", "shorten it")
        return None
    if _UNSAFE.search(found):
        at.fault("must not contain a NUL or half of a surrogate pair", "remove that character")
        return None
    return found


def truth(value: object, at: At) -> bool | None:
    """Return ``value`` if it is a boolean; other words for true and false are refused."""
    if isinstance(value, bool):
        return value
    at.fault(f"must be true or false, got {shown(value)}", "write true or false without quotes")
    return None


def whole(*, low: int, high: int) -> Read[int]:
    """Return a reader of whole numbers from ``low`` to ``high``."""

    def read(value: object, at: At) -> int | None:
        # type() and not isinstance(): True is an int in Python, but not in a document.
        if type(value) is int and low <= value <= high:
            return value
        _refuse_whole(value, at, low=low, high=high)
        return None

    return read


def _refuse_whole(value: object, at: At, *, low: int, high: int) -> None:
    sized = value if isinstance(value, int | Decimal) and not isinstance(value, bool) else None
    if isinstance(sized, Decimal) and not (sized.is_finite() and sized.adjusted() >= _DIGITS_MAX):
        sized = None  # not a whole number: a fraction, infinity or NaN
    if sized is None:
        remedy = f"write a whole number from {low} to {high}"
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            remedy = f"write {int(value)} without quotes"
        at.fault(f"must be a whole number, got {shown(value)}", remedy)
    elif sized > high:
        at.fault(f"must be at most {high}, got {shown(value)}", f"use {high} or less")
    elif low == 1:
        at.fault(f"must be positive, got {shown(value)}", "use 1 or more")
    elif low == 0:
        at.fault(f"must not be negative, got {shown(value)}", "use 0 or more")
    else:
        at.fault(f"must be at least {low}, got {shown(value)}", f"use {low} or more")


gpus = whole(low=1, high=GPUS_MAX)
count = whole(low=0, high=COUNT_MAX)


def number(value: object, at: At) -> Decimal | None:
    """Return ``value`` as an exact, finite decimal with a limited number of digits.

    ``value`` may be a string only if the string is a number that a double cannot hold.
    """
    found: Decimal | None = wide_number(value) if isinstance(value, str) else None
    if isinstance(value, Decimal):
        found = value
    elif isinstance(value, float):
        found = Decimal(repr(value))
    elif isinstance(value, int) and not isinstance(value, bool):
        found = Decimal(value)
    if found is None:
        remedy = "write a number"
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            remedy = f"write {int(value)} without quotes"
        at.fault(f"must be a number, got {shown(value)}", remedy)
        return None
    if not found.is_finite():
        at.fault(f"must be a finite number, got {shown(value)}", "write a number")
        return None
    if found and found.adjusted() > _DIGITS_MAX:
        at.fault(f"is too large: {shown(value)}", "use a smaller number")
        return None
    if len(found.as_tuple().digits) > _DIGITS_MAX or found.adjusted() < -_DIGITS_MAX:
        at.fault(f"has too many digits: {shown(value)}", "round it")
        return None
    return found


def scaled(value: Decimal, factor: int) -> int | None:
    """Return ``value`` times ``factor`` if that is a whole number, else None."""
    numerator, denominator = value.as_integer_ratio()
    product, rest = divmod(numerator * factor, denominator)
    return product if rest == 0 else None


def decimal_of(*, factor: int, unit: str, low: int, high: int) -> Read[int]:
    """Return a reader of decimals, which returns a whole number of ``unit``s.

    The decimal 1 is ``factor`` units. The number of units must be from ``low`` to ``high``.
    """
    step = _decimal_step(factor)

    def read(value: object, at: At) -> int | None:
        part = _percentage(value) if factor == PPM else None
        if part is not None and low <= part * factor <= high:
            at.fault(f"must be a number, got {shown(value)}", f"write {part.normalize():f}")
            return None
        found = number(value, at)
        if found is None:
            return None
        product = scaled(found, factor)
        if found < 0 <= low:
            at.fault(f"must not be negative, got {shown(value)}", "use 0 or more")
        elif found * factor < low:
            least = f"{divided(low, factor)}"
            at.fault(f"must be at least {least}, got {shown(value)}", f"use {least} or more")
        elif found * factor > high:
            most = f"{divided(high, factor)}"
            at.fault(f"must be at most {most}, got {shown(value)}", f"use {most} or less")
        elif product is None:
            units_below = int(found * factor) // step * step
            near = (Decimal(units_below) / factor).normalize()
            at.fault(
                f"must be a whole number of {unit}s, got {shown(value)}", f"round it to {near:f}"
            )
        else:
            return product
        return None

    return read


def _percentage(value: object) -> Decimal | None:
    """Return the number that a text such as ``15%`` means, if ``value`` is such a text."""
    matched = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    return None if matched is None else Decimal(matched[1]).scaleb(-2)


def _decimal_step(factor: int) -> int:
    """Return the least number of units that is a finite decimal after division by ``factor``.

    For milliseconds in hours this is 9: 9 ms are 0.0000025 hours, but 1 ms is 0.000000277... hours,
    which no finite decimal equals.
    """
    for prime in (2, 5):
        while factor % prime == 0:
            factor //= prime
    return factor


gpu_hours = decimal_of(factor=HOUR_MS, unit="GPU-millisecond", low=0, high=GPU_MS_MAX)
node_hours = decimal_of(factor=HOUR_MS, unit="node-millisecond", low=0, high=GPU_MS_MAX)


def rate(value: object, at: At) -> float | None:
    """Return ``value`` as a float of at least 0. Only policies use floats."""
    found = number(value, at)
    if found is None:
        return None
    if found < 0 or found > RATE_MAX:
        at.fault(f"must be from 0 to {RATE_MAX}, got {shown(value)}", "write a rate in that range")
        return None
    return float(found)


def weight(value: object, at: At) -> float | None:
    """Return ``value`` as a float above 0."""
    found = rate(value, at)
    if found == 0:
        at.fault(f"must be positive, got {shown(value)}", "use a weight above 0, e.g. 1")
        return None
    return found


def choice(options: Iterable[E]) -> Read[E]:
    """Return a reader that accepts exactly the values of ``options``."""
    by_value = {str(option.value): option for option in options}
    listing = " or ".join(quoted(value) for value in by_value)

    def read(value: object, at: At) -> E | None:
        found = by_value.get(value) if isinstance(value, str) else None
        if found is None:
            near = nearest(value, by_value) if isinstance(value, str) else None
            at.fault(
                f"must be {listing} when set, got {shown(value)}",
                f"did you mean {near}?" if near else f"write {listing}, or leave it out",
            )
        return found

    return read


def unique_names(value: object, at: At) -> tuple[str, ...] | None:
    """Return ``value`` if it is a list of names without repetition."""
    found = listed(value, at, name)
    refuse_repeats(found, at)
    return complete(found)


def few_names(most: int) -> Read[tuple[str, ...]]:
    """Return a reader of a list of at most ``most`` names without repetition."""

    def read(value: object, at: At) -> tuple[str, ...] | None:
        if isinstance(value, list) and len(value) > most:
            at.fault(f"lists {len(value)} names, over {most}", f"keep the first {most} at most")
            return None
        return unique_names(value, at)

    return read
