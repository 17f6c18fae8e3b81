"""The nearest name to a wrong one is found quickly among thousands."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.views.hints import CANDIDATES_MAX, WORD_CHARS_MAX, nearest_name

MANY = [f"train-{number:05d}" for number in range(5_000)]


@pytest.mark.parametrize(
    ("word", "known", "near"),
    [
        ("trian", ["other", "train"], "train"),
        ("rtain", ["other", "train"], "train"),
        ("zzz", ["other", "train"], None),
        ("x", [], None),
        ("zrain-00001", MANY, None),
        ("x" * (WORD_CHARS_MAX + 1), ["x" * WORD_CHARS_MAX], None),
    ],
)
def test_the_nearest_name_is_one_that_begins_alike(
    word: str, known: list[str], near: str | None
) -> None:
    assert nearest_name(word, known) == near


def test_among_many_the_ones_that_begin_alike_for_longest_are_compared() -> None:
    known = [name for name in MANY if name != "train-04321"]
    assert str(nearest_name("train-04321", known)).startswith("train-043")
    assert str(nearest_name("train-x4321", known)).startswith("train-")


def test_few_names_are_all_compared() -> None:
    known = [f"{chr(97 + number % 26)}{number:03d}" for number in range(CANDIDATES_MAX - 1)]
    assert nearest_name("rtain", [*known, "train"]) == "train"


@given(st.text(max_size=20), st.lists(st.text(max_size=20), max_size=300))
def test_what_is_near_is_one_of_the_names(word: str, known: list[str]) -> None:
    found = nearest_name(word, known)
    assert found is None or found in known


@pytest.mark.slow
def test_among_thousands_it_takes_no_longer_than_among_hundreds() -> None:
    began_s = process_time()
    for number in range(50):
        nearest_name(f"trainx{number:03d}", MANY)
    assert process_time() - began_s < 5
