"""Times and durations: RFC 3339, ``1h30m``, ``PT1H30M``.

A time or duration is read as a whole number of milliseconds; if that is not exact, it is refused.
``time_text`` and ``duration_text`` write times and durations.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Final

from quorate.documents.document_problem import shown
from quorate.documents.field_reader import At, Read
from quorate.model.amounts import (
    DAY_MS,
    DURATION_MS_MAX,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    TIME_MS_MAX,
    TIME_MS_MIN,
)

_TIME: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,30}))?"
    r"(?:([Zz])|([+-])([0-9]{2}):([0-9]{2}))?"
)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_LAST: Final = "2200-01-01T00:00:00Z"

_SHORT: Final = re.compile(
    r"(?:([0-9]{1,15})d)?(?:([0-9]{1,15})h)?(?:([0-9]{1,15})m)?(?:([0-9]{1,15})s)?(?:([0-9]{1,15})ms)?"
)
_ISO: Final = re.compile(
    r"P(?:([0-9]{1,15})W)?(?:([0-9]{1,15})D)?"
    r"(?:T(?:([0-9]{1,15})H)?(?:([0-9]{1,15})M)?(?:([0-9]{1,15})(?:\.([0-9]{1,30}))?S)?)?"
)
_BARE: Final = re.compile(r"[0-9]{1,15}")
_NEGATIVE: Final = re.compile(r"-\s*P?T?[0-9].*", re.DOTALL)
_FRACTION: Final = re.compile(r"[0-9]*\.[0-9]+(?:ms|[dhms])")
_UNITS: Final = (("d", DAY_MS), ("h", HOUR_MS), ("m", MINUTE_MS), ("s", SECOND_MS), ("ms", 1))


def time_ms(value: object, at: At) -> int | None:
    """Return the RFC 3339 time ``value`` in Unix milliseconds; ``value`` must state its offset."""
    if not isinstance(value, str):
        at.fault(f"must be a time, got {shown(value)}", "write it like 2026-01-31T09:00:00Z")
        return None
    match = _TIME.fullmatch(value)
    if match is None:
        remedy = "write it like 2026-01-31T09:00:00Z"
        if _DATE.fullmatch(value):
            remedy = f"add the time of day: {value}T00:00:00Z"
        at.fault(f"must be an RFC 3339 time, got {shown(value)}", remedy)
        return None
    if match[8] is None and match[9] is None:
        at.fault(
            f"must have an offset from UTC, got {shown(value)}",
            f"write {value}Z for UTC, or an offset such as {value}+02:00",
        )
        return None
    return _time_of(match, value, at)


def _time_of(match: re.Match[str], value: str, at: At) -> int | None:
    year, month, day, hour, minute, second = (int(match[i]) for i in range(1, 7))
    offset_hour, offset_minute = int(match[10] or 0), int(match[11] or 0)
    if hour > 23 or minute > 59 or second > 59 or offset_hour > 23 or offset_minute > 59:  # noqa: PLR2004
        at.fault(
            f"must be an RFC 3339 time, got {shown(value)}",
            "hours go to 23, minutes and seconds to 59; a leap second is written as the next one",
        )
        return None
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        at.fault(f"must be a day of the calendar, got {shown(value)}", "check month and day")
        return None
    fraction_ms = _fraction_ms(match[7], value, at)
    if fraction_ms is None:
        return None
    offset_ms = (offset_hour * HOUR_MS + offset_minute * MINUTE_MS) * (-1 if match[9] == "-" else 1)
    found = days * DAY_MS + hour * HOUR_MS + minute * MINUTE_MS + second * SECOND_MS
    found += fraction_ms - offset_ms
    if not TIME_MS_MIN <= found <= TIME_MS_MAX:
        at.fault(f"must lie between 1970 and {_LAST}, got {shown(value)}", "check the year")
        return None
    return found


def _fraction_ms(digits: str | None, value: str, at: At) -> int | None:
    kept = (digits or "").rstrip("0")
    if len(kept) > 3:  # noqa: PLR2004 - three digits of a second are milliseconds
        at.fault(f"must not be finer than a millisecond, got {shown(value)}", "round it")
        return None
    return int(kept.ljust(3, "0"))


def time_text(at_ms: int) -> str:
    """Return ``at_ms`` as RFC 3339 in UTC; milliseconds are written only if they are not 0."""
    seconds, ms = divmod(at_ms, SECOND_MS)
    written = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{written}.{ms:03d}Z" if ms else f"{written}Z"


def time_or_none(at_ms: int | None) -> str | None:
    """Return ``at_ms`` as ``time_text`` does; None if ``at_ms`` is None."""
    return None if at_ms is None else time_text(at_ms)


def duration(*, low_ms: int) -> Read[int]:
    """Return a reader of durations from ``low_ms`` to ``DURATION_MS_MAX``, in milliseconds."""

    def read(value: object, at: At) -> int | None:
        if not isinstance(value, str):
            is_plain = type(value) is int and 0 <= value < DAY_MS
            written = _with_units(value) if is_plain else "90s or 1h30m"
            at.fault(f"must be a duration with its unit, got {shown(value)}", f"write {written}")
            return None
        found = _duration_ms(value, at)
        if found is None:
            return None
        if found > DURATION_MS_MAX:
            at.fault(
                f"must be at most {duration_text(DURATION_MS_MAX)}, got {shown(value)}",
                "use a shorter one",
            )
            return None
        if found < low_ms:
            least = "positive" if low_ms == 1 else f"at least {duration_text(low_ms)}"
            at.fault(f"must be {least}, got {shown(value)}", f"use {duration_text(low_ms)} or more")
            return None
        return found

    return read


def _duration_ms(value: str, at: At) -> int | None:
    short_ms = _short_ms(value)
    if short_ms is not None:
        return short_ms
    iso = _ISO.fullmatch(value)
    if iso is not None and value[-1] not in "PT":
        fraction_ms = _fraction_ms(iso[6], value, at)
        units = (7 * DAY_MS, DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS)
        whole_ms = sum(int(iso[i + 1] or 0) * unit_ms for i, unit_ms in enumerate(units))
        return None if fraction_ms is None else whole_ms + fraction_ms
    _refuse_duration(value, at)
    return None


@lru_cache(maxsize=1_024)
def _short_ms(value: str) -> int | None:
    """Return ``value``, such as ``1h30m``, in milliseconds; None if it has another form.

    The results are cached, because most documents use the same few durations.
    """
    short = _SHORT.fullmatch(value) if value else None
    if short is None:
        return None
    return sum(
        int(n) * unit_ms
        for n, (_, unit_ms) in zip(short.groups(), _UNITS, strict=True)
        if n is not None
    )


def _with_units(number: object) -> str:
    """Return ``number`` with each unit, as suggestions for a duration without a unit."""
    return f"{number}h, {number}m or {number}s"


def _refuse_duration(value: str, at: At) -> None:
    if _BARE.fullmatch(value):
        written = _with_units(value)
        at.fault(f"must be a duration with its unit, got {shown(value)}", f"write {written}")
    elif _NEGATIVE.fullmatch(value):
        at.fault(f"must not be negative, got {shown(value)}", "write a length of time like 90m")
    elif _FRACTION.fullmatch(value):
        at.fault(
            f"must be in whole units, got {shown(value)}", "use a smaller unit: 1h30m, not 1.5h"
        )
    else:
        at.fault(
            f"must be a duration, got {shown(value)}",
            "write it like 90m, 1h30m, 2d, 45s, 500ms or PT1H30M",
        )


any_duration = duration(low_ms=0)
positive_duration = duration(low_ms=1)


def duration_text(ms: int) -> str:
    """Return ``ms`` in the largest unit that divides it: ``90m``, ``2d``, ``1500ms``."""
    if ms == 0:
        return "0s"
    unit, unit_ms = next((unit, unit_ms) for unit, unit_ms in _UNITS if ms % unit_ms == 0)
    return f"{ms // unit_ms}{unit}"
