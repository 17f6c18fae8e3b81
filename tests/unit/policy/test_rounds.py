"""The book of rounds: received and owed time of each row, and the resulting order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quorate.policy.rounds.round_book import (
    AHEAD_ROUNDS_MAX,
    DEFAULT,
    OWED_ROUNDS_MAX,
    STRICT,
    Book,
    Ran,
    Row,
    Rules,
    Shares,
    Standing,
    credited,
    deficit_s,
    is_due,
    joined,
    over_slack,
    parted,
    priority,
    renewed,
    turn_s,
)

A: Row = ("a",)
B: Row = ("b",)
AB: Row = ("a", "b")
HALF: Shares = {A: {"fast": 0.5}, B: {"fast": 0.5}}


def book_of(rules: Rules, *rows: tuple[str, ...]) -> Book:
    empty = Book(flavors=("fast", "slow"), given_s={"fast": 0.0, "slow": 0.0})
    return joined(empty, rows, rules)


@pytest.mark.parametrize(("rules", "rounds"), [(DEFAULT, 2), (STRICT, 1)])
def test_a_row_that_ran_falls_behind_one_that_did_not(rules: Rules, rounds: int) -> None:
    book = renewed(book_of(rules, A, B), HALF, 0.0, rules)
    assert priority(book, A, "fast", 0.0, rules) == priority(book, B, "fast", 0.0, rules)
    for _ in range(rounds):
        book = credited(book, [Ran(row=A, flavor="fast", ran_s=360.0)])
    at_s = rounds * 360.0
    assert priority(book, A, "fast", at_s, rules) < priority(book, B, "fast", at_s, rules)


def test_priority_is_what_is_owed_over_the_share() -> None:
    book = renewed(book_of(DEFAULT, A), {A: {"fast": 0.25}}, 0.0, DEFAULT)
    book = credited(book, [Ran(row=A, flavor="slow", ran_s=180.0)])
    owed_s = 0.25 * 1080.0 - 0.25 * 360.0
    assert priority(book, A, "fast", 1080.0, DEFAULT) == pytest.approx(owed_s / 0.25)


@pytest.mark.parametrize(
    ("owed_s", "share", "standing", "rounds"),
    [
        (90.0, 0.5, Standing.WAITING, 0.0),
        (450.0, 0.5, Standing.WAITING, 2.0),
        (450.0, 0.001, Standing.WAITING, 50.0),
        (0.0, 0.5, Standing.STAYING, 3.5),
        (-180.0, 0.5, Standing.STAYING, 2.5),
        (-181.0, 0.5, Standing.STAYING, (-271.0 / 360.0) / 0.5),
        (450.0, 0.5, Standing.STAYING, 4.0),
        (3690.0, 1.0, Standing.STAYING, 10.0),
        (90.0, 0.5, Standing.NEW, 2.0),
        (90.0, 1.0, Standing.NEW, 4.0),
    ],
)
def test_a_turn_is_what_is_owed_over_the_share_and_more_for_who_stays_or_is_new(
    owed_s: float, share: float, standing: Standing, rounds: float
) -> None:
    assert turn_s(owed_s, share, 360.0, standing) == pytest.approx(rounds * 360.0, abs=1e-3)


@pytest.mark.parametrize(
    ("turn", "shares", "found"),
    [
        (100.0, (0.25, 0.25), 200.0),
        (100.0, (0.75, 0.25), 2_000.0),
        (100.0, (0.98, 0.0), 2_000.0),
        (0.0, (1.0, 0.0), 0.0),
        (-50.0, (0.5, 0.0), -50.0),
    ],
)
def test_a_turn_over_the_slack_is_larger_the_less_a_row_can_make_up_for(
    turn: float, shares: tuple[float, float], found: float
) -> None:
    assert over_slack(turn, shares) == found


def test_strictly_the_fraction_is_of_what_all_rows_had_on_the_flavor() -> None:
    book = renewed(book_of(STRICT, A, B), {A: {"fast": 0.25}, B: {}}, 0.0, STRICT)
    book = credited(book, [Ran(row=B, flavor="fast", ran_s=360.0)])
    assert book.given_s["fast"] == 720.0
    assert priority(book, A, "fast", 360.0, STRICT) == 0.25 / (180.0 / 720.0)


@pytest.mark.parametrize("rules", [DEFAULT, STRICT])
def test_without_a_share_there_is_no_priority(rules: Rules) -> None:
    book = renewed(book_of(rules, A, B), {A: {"fast": 1.0}}, 0.0, rules)
    assert priority(book, A, "slow", 0.0, rules) == 0.0
    assert priority(book, B, "fast", 0.0, rules) == 0.0


def test_a_row_that_was_passed_over_goes_first_under_the_next_allocation() -> None:
    shares: Shares = {A: {"fast": 0.6}, B: {"fast": 0.4}}
    book = renewed(book_of(DEFAULT, A, B), shares, 0.0, DEFAULT)
    book = credited(book, [Ran(row=A, flavor="fast", ran_s=360.0)])
    book = renewed(book, shares, 360.0, DEFAULT)
    assert book.owed_s[B]["fast"] == pytest.approx(144.0)
    assert book.owed_s[A]["fast"] == pytest.approx(-144.0)
    # A stays, B is new; a quarter of a round is not due yet.
    a_s, b_s = 4 * 360.0 - (144.0 + 90.0) / 0.6, 0.4 * 4 * 360.0
    assert priority(book, A, "fast", 360.0, DEFAULT) == pytest.approx(a_s, abs=1e-3)
    assert priority(book, B, "fast", 360.0, DEFAULT) == pytest.approx(b_s, abs=1e-3)
    for _ in range(3):
        book = credited(book, [Ran(row=A, flavor="fast", ran_s=360.0)])
    at_s = 4 * 360.0
    assert priority(book, B, "fast", at_s, DEFAULT) > priority(book, A, "fast", at_s, DEFAULT)


def test_strictly_a_new_allocation_starts_everybody_anew() -> None:
    shares: Shares = {A: {"fast": 0.6}, B: {"fast": 0.4}}
    book = renewed(book_of(STRICT, A, B), shares, 0.0, STRICT)
    book = credited(book, [Ran(row=A, flavor="fast", ran_s=360.0)])
    book = renewed(book, shares, 360.0, STRICT)
    assert priority(book, A, "fast", 360.0, STRICT) > priority(book, B, "fast", 360.0, STRICT)
    assert deficit_s(book, B, "fast", 360.0, STRICT) == 0.4 * 360.0


def test_what_is_owed_and_what_is_ahead_have_bounds() -> None:
    book = renewed(book_of(DEFAULT, A, B), {A: {"fast": 1.0}}, 0.0, DEFAULT)
    book = credited(book, [Ran(row=B, flavor="fast", ran_s=36_000.0)])
    book = renewed(book, HALF, 36_000.0, DEFAULT)
    assert book.owed_s[A]["fast"] == OWED_ROUNDS_MAX * 360.0
    assert book.owed_s[B]["fast"] == -AHEAD_ROUNDS_MAX * 360.0


def test_what_is_owed_grows_as_time_passes() -> None:
    book = renewed(book_of(DEFAULT, A), {A: {"fast": 0.5}}, 0.0, DEFAULT)
    assert deficit_s(book, A, "fast", 720.0, DEFAULT) == 360.0


def test_a_stale_allocation_gives_way_at_once() -> None:
    book = renewed(book_of(DEFAULT, A), {A: {"fast": 1.0}}, 10.0, DEFAULT)
    assert not is_due(book, 11.0, DEFAULT)
    assert is_due(joined(book, [B], DEFAULT), 11.0, DEFAULT)
    assert is_due(parted(book, ["a"]), 11.0, DEFAULT)


def test_strictly_a_stale_allocation_stands_for_1920_s_unless_it_was_the_first_at_0() -> None:
    book = renewed(book_of(STRICT, A), {A: {"fast": 1.0}}, 10.0, STRICT)
    stale = joined(book, [B], STRICT)
    assert not is_due(stale, 1929.9, STRICT)
    assert is_due(stale, 1930.0, STRICT)
    assert is_due(replace(stale, since_s=0.0), 11.0, STRICT)


def test_with_a_job_its_pairs_go() -> None:
    book = parted(book_of(DEFAULT, A, B, AB), ["b"])
    assert list(book.had_s) == [A]
    assert list(book.owed_s) == [A]


def test_a_pair_joins_with_its_first_share_and_goes_with_its_last_unless_it_is_owed() -> None:
    book = renewed(book_of(DEFAULT, A, B), {AB: {"fast": 0.5}}, 0.0, DEFAULT)
    assert AB in book.had_s
    waiting = renewed(book, {A: {"fast": 1.0}}, 360.0, DEFAULT)
    assert waiting.owed_s[AB]["fast"] == 180.0
    served = credited(book, [Ran(row=AB, flavor="fast", ran_s=360.0)])
    assert AB not in renewed(served, {A: {"fast": 1.0}}, 360.0, DEFAULT).had_s


def test_strictly_a_new_pair_starts_at_zero_and_is_then_owed_half_a_round() -> None:
    book = book_of(STRICT, A, B, AB)
    assert book.had_s[AB]["fast"] == 0.0
    assert renewed(book, {}, 0.0, STRICT).owed_s[AB]["fast"] == 180.0
    assert book_of(DEFAULT, AB).had_s[AB]["fast"] == 180.0


def test_work_of_a_row_that_is_gone_counts_for_the_flavor() -> None:
    book = credited(book_of(STRICT, A), [Ran(row=B, flavor="fast", ran_s=5.0)])
    assert book.given_s["fast"] == 5.0
    assert list(book.had_s) == [A]
