"""Times and durations, read and written."""

from __future__ import annotations

import pytest

from quorate.documents.field_reader import At, Fault
from quorate.documents.times import any_duration, duration_text, time_ms, time_text
from quorate.model.amounts import DURATION_MS_MAX, TIME_MS_MAX

LIKE = "write it like 2026-01-31T09:00:00Z"
DURATIONS = "write it like 90m, 1h30m, 2d, 45s, 500ms or PT1H30M"


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:00z", 0),
        ("1970-01-01 00:00:01.5Z", 1_500),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T19:00:00-05:00", 0),
        ("2026-01-01T00:00:00.123000000Z", 1_767_225_600_123),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000),
        ("2200-01-01T00:00:00Z", TIME_MS_MAX),
    ],
)
def test_a_time_is_read(written: str, ms: int) -> None:
    faults: list[Fault] = []
    assert time_ms(written, At((), faults)) == ms
    assert faults == []


@pytest.mark.parametrize(
    ("written", "message", "remedy"),
    [
        (5, "must be a time, got 5", LIKE),
        ("soon", 'must be an RFC 3339 time, got "soon"', LIKE),
        (
            "2026-01-01",
            'must be an RFC 3339 time, got "2026-01-01"',
            "add the time of day: 2026-01-01T00:00:00Z",
        ),
        (
            "2026-01-01T00:00:00",
            'must have an offset from UTC, got "2026-01-01T00:00:00"',
            "write 2026-01-01T00:00:00Z for UTC, or an offset such as 2026-01-01T00:00:00+02:00",
        ),
        (
            "2026-02-30T00:00:00Z",
            'must be a day of the calendar, got "2026-02-30T00:00:00Z"',
            "check month and day",
        ),
        (
            "2026-01-01T00:00:60Z",
            'must be an RFC 3339 time, got "2026-01-01T00:00:60Z"',
            "hours go to 23, minutes and seconds to 59; a leap second is written as the next one",
        ),
        (
            "2026-01-01T00:00:00.0001Z",
            'must not be finer than a millisecond, got "2026-01-01T00:00:00.0001Z"',
            "round it",
        ),
        (
            "1969-12-31T23:59:59Z",
            'must lie between 1970 and 2200-01-01T00:00:00Z, got "1969-12-31T23:59:59Z"',
            "check the year",
        ),
        (
            "2200-01-01T00:00:00.001Z",
            'must lie between 1970 and 2200-01-01T00:00:00Z, got "2200-01-01T00:00:00.001Z"',
            "check the year",
        ),
        (
            "\uff12026-01-01T00:00:00Z",
            'must be an RFC 3339 time, got "\uff12026-01-01T00:00:00Z"',
            LIKE,
        ),
    ],
)
def test_a_time_that_cannot_be_read_is_told(written: object, message: str, remedy: str) -> None:
    faults: list[Fault] = []
    assert time_ms(written, At(("start",), faults)) is None
    assert faults == [Fault(("start",), message, remedy)]


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        ("90m", 5_400_000),
        ("1h30m", 5_400_000),
        ("1h0m0s", 3_600_000),
        ("2d", 172_800_000),
        ("45s", 45_000),
        ("500ms", 500),
        ("1s500ms", 1_500),
        ("0s", 0),
        ("PT1H30M", 5_400_000),
        ("P1DT2H", 93_600_000),
        ("P2W", 1_209_600_000),
        ("PT0.5S", 500),
        ("3660d", DURATION_MS_MAX),
    ],
)
def test_a_duration_is_read(written: str, ms: int) -> None:
    faults: list[Fault] = []
    assert any_duration(written, At((), faults)) == ms
    assert faults == []


@pytest.mark.parametrize(
    ("written", "message", "remedy"),
    [
        (90, "must be a duration with its unit, got 90", "write 90h, 90m or 90s"),
        (1.5, "must be a duration with its unit, got 1.5", "write 90s or 1h30m"),
        (True, "must be a duration with its unit, got true", "write 90s or 1h30m"),
        ("90", 'must be a duration with its unit, got "90"', "write 90h, 90m or 90s"),
        ("-5m", 'must not be negative, got "-5m"', "write a length of time like 90m"),
        ("-PT5M", 'must not be negative, got "-PT5M"', "write a length of time like 90m"),
        ("1.5h", 'must be in whole units, got "1.5h"', "use a smaller unit: 1h30m, not 1.5h"),
        ("3661d", 'must be at most 3660d, got "3661d"', "use a shorter one"),
        ("999999999999999d", 'must be at most 3660d, got "999999999999999d"', "use a shorter one"),
        ("PT0.0001S", 'must not be finer than a millisecond, got "PT0.0001S"', "round it"),
        ("", 'must be a duration, got ""', DURATIONS),
        ("P", 'must be a duration, got "P"', DURATIONS),
        ("PT", 'must be a duration, got "PT"', DURATIONS),
        ("P1DT", 'must be a duration, got "P1DT"', DURATIONS),
        ("P1Y", 'must be a duration, got "P1Y"', DURATIONS),
        ("30m1h", 'must be a duration, got "30m1h"', DURATIONS),
        ("5 minutes", 'must be a duration, got "5 minutes"', DURATIONS),
    ],
)
def test_a_duration_that_cannot_be_read_is_told(written: object, message: str, remedy: str) -> None:
    faults: list[Fault] = []
    assert any_duration(written, At((), faults)) is None
    assert faults == [Fault((), message, remedy)]


@pytest.mark.parametrize(
    ("ms", "written"),
    [(0, "0s"), (5_400_000, "90m"), (3_600_000, "1h"), (172_800_000, "2d"), (1_500, "1500ms")],
)
def test_a_duration_is_written_in_its_largest_exact_unit(ms: int, written: str) -> None:
    assert duration_text(ms) == written


@pytest.mark.parametrize(
    ("ms", "written"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_767_225_600_120, "2026-01-01T00:00:00.120Z"),
        (TIME_MS_MAX, "2200-01-01T00:00:00Z"),
    ],
)
def test_a_time_is_written_in_utc(ms: int, written: str) -> None:
    assert time_text(ms) == written
