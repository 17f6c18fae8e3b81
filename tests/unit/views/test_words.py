from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.model.amounts import DAY_MS, HOUR_MS
from quorate.model.refusal import Refusal, RefusalCode, Shortage
from quorate.views import word_forms


@pytest.mark.parametrize(
    ("gpu_ms", "shown"),
    [(0, "0.00"), (17_999, "0.00"), (18_000, "0.01"), (HOUR_MS, "1.00"), (96 * HOUR_MS, "96.00")],
)
def test_hours_have_two_decimals(gpu_ms: int, shown: str) -> None:
    assert word_forms.hours(gpu_ms) == shown


@given(st.lists(st.integers(0, 10**13), max_size=40))
def test_shown_hours_add_up_to_the_shown_total_and_none_is_off_by_a_hundredth(
    parts: list[int],
) -> None:
    shown = [round(float(each) * 100) for each in word_forms.hours_that_add_up(parts)]
    assert sum(shown) == round(float(word_forms.hours(sum(parts))) * 100)
    for part, each in zip(parts, shown, strict=True):
        assert abs(each * 36_000 - part) < 36_000


@pytest.mark.parametrize(
    ("ms", "shown"),
    [(-5, "0s"), (999, "0s"), (59_999, "59s"), (60_000, "1m"), (HOUR_MS, "1h"), (3 * DAY_MS, "3d")],
)
def test_ages_are_in_their_largest_unit(ms: int, shown: str) -> None:
    assert word_forms.age(ms) == shown


def test_an_instant_says_how_long_ago_or_in_how_long() -> None:
    assert word_forms.since(0, HOUR_MS) == "1970-01-01T00:00:00Z (1h ago)"
    assert word_forms.since(HOUR_MS, 0) == "1970-01-01T01:00:00Z (in 1h)"


def test_slots_are_shown_as_ranges() -> None:
    assert word_forms.slots((("n1", 0b11111111), ("n2", 0b1011))) == "n1[0-7],n2[0-1,3]"
    assert word_forms.slots((("a", 1), ("b", 1), ("c", 1)), most=2) == "a[0],b[0]+1"


@pytest.mark.parametrize(
    ("used", "total", "marks"), [(0, 8, 0), (1, 1000, 1), (999, 1000, 19), (8, 8, 20), (0, 0, 0)]
)
def test_a_bar_is_full_only_when_full_and_empty_only_when_empty(
    used: int, total: int, marks: int
) -> None:
    assert word_forms.bar(used, total) == "[" + "#" * marks + "." * (20 - marks) + "]"


def test_a_place_that_is_not_short_says_that_it_fits() -> None:
    fits = Shortage(where="r/c/A", wanted=64, available=72)
    assert word_forms.shortage(fits, RefusalCode.NO_SINGLE_DOMAIN) == "r/c/A: 64 GPUs fit (72 free)"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (RefusalCode.INSUFFICIENT_CAPACITY, "d: 0 of 1 GPU free, 1 short"),
        (RefusalCode.INSUFFICIENT_FUNDS, "d: 0 of 1 GPU paid for, 1 short"),
        (RefusalCode.RESERVED, "d: 0 of 1 GPU, 1 short"),
    ],
)
def test_a_place_that_is_short_says_of_what(code: RefusalCode, told: str) -> None:
    assert word_forms.shortage(Shortage(where="d", wanted=1), code) == told


def test_a_refusal_has_its_sentence_its_numbers_and_what_else_holds() -> None:
    refusal = Refusal(
        code=RefusalCode.INSUFFICIENT_FUNDS,
        subject="rai",
        wanted=16,
        short=8,
        shortages=(
            Shortage(where="r/c/A", wanted=16, available=8),
            Shortage(where="rai/west", available=1, limit="concurrency 8, 7 in use"),
        ),
        also=Refusal(code=RefusalCode.INVALID, subject="a wrong field", remedy="mend it"),
    )
    assert word_forms.refusal_lines(refusal) == [
        "budgets can pay 8 of 16 GPUs, 8 short (insufficient-funds)",
        "  r/c/A: 8 of 16 GPUs paid for, 8 short",
        "  rai/west: can pay 1 GPU (concurrency 8, 7 in use)",
        "also: a wrong field (invalid)",
        "  mend it",
    ]


@pytest.mark.parametrize(
    ("used", "out", "shown"),
    [
        (0, 0, "[..........]"),
        (1, 0, "[#.........]"),
        (50, 30, "[#####..xxx]"),
        (1, 1, "[#........x]"),
        (99, 1, "[#########x]"),
        (90, 1, "[########.x]"),
        (1, 98, "[#.xxxxxxxx]"),
        (0, 100, "[xxxxxxxxxx]"),
        (100, 0, "[##########]"),
    ],
)
def test_a_bar_shows_what_is_used_and_what_is_out_of_service(
    used: int, out: int, shown: str
) -> None:
    assert word_forms.bar(used, 100, out=out, width=10) == shown


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0s"),
        (-5, "0s"),
        (1, "1s"),
        (59_000, "59s"),
        (59_001, "1m"),
        (61_000, "1m 1s"),
        (3 * HOUR_MS + 12 * 60_000, "3h 12m"),
        (3 * HOUR_MS + 11 * 60_000 + 1, "3h 12m"),
        (24 * HOUR_MS - 1, "1d"),
        (49 * HOUR_MS, "2d 1h"),
    ],
)
def test_a_countdown_has_two_units_and_is_never_over_too_soon(ms: int, text: str) -> None:
    assert word_forms.countdown(ms) == text


def test_odds_are_a_fraction_and_percent_of_it() -> None:
    assert word_forms.odds_text(Fraction(1, 6)) == "1/6 (16.7 %)"
    assert word_forms.odds_text(Fraction(1)) == "1 (100 %)"
    assert word_forms.percent(487, 1_000) == "48.7 %"
