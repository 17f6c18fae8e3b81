"""The completion of rates that were not measured, and the search for the nearest known type."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.policy.estimate import (
    PASSES_MAX,
    PENALTY,
    SETTLED,
    Known,
    Match,
    Start,
    UnmatchedCode,
    completed,
    match,
    start_of,
)
from quorate.policy.problem import Floats

SHAPES = np.array([[1.0, 0.9, 0.8, 0.7, 0.6, 0.5], [0.2, 0.4, 0.6, 0.8, 1.0, 0.9]])


def mixed(parts: Floats) -> Floats:
    """Return rows that are mixtures of two rows: a matrix of rank two."""
    found: Floats = np.clip(parts @ SHAPES, 0.0, 1.0)
    return found


def test_a_matrix_of_low_rank_is_found_again() -> None:
    rows = np.linspace(0.05, 0.45, 9)
    matrix = mixed(np.column_stack([rows, rows[::-1]]))
    known = np.ones(matrix.shape, dtype=np.bool_)
    known[3, 4] = known[7, 0] = known[0, 5] = False
    found = completed(np.where(known, matrix, np.nan), known, start_of(matrix, known))
    assert found is not None
    assert found == pytest.approx(matrix, abs=0.06)


def by_hand(matrix: Floats, known: Known, start: Start) -> Floats | None:
    """Return the result of solving one row and one column after the other."""
    rows, columns = start.rows.copy(), start.columns.copy()
    ridge = PENALTY * np.eye(rows.shape[1])
    before = rows @ columns.T
    for _ in range(PASSES_MAX):
        for i in range(len(rows)):
            seen = columns[known[i]]
            rows[i] = np.linalg.solve(seen.T @ seen + ridge, seen.T @ matrix[i, known[i]])
        for j in range(len(columns)):
            seen = rows[known[:, j]]
            columns[j] = np.linalg.solve(seen.T @ seen + ridge, seen.T @ matrix[known[:, j], j])
        now: Floats = rows @ columns.T
        if np.linalg.norm(now - before) / now.size < SETTLED:
            return now
        before = now
    return None


@pytest.mark.heavy
@given(rows=st.integers(1, 5), columns=st.integers(1, 6), seed=st.integers(0, 2**32 - 1))
def test_rows_and_columns_are_fitted_in_turns(rows: int, columns: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    matrix = chance.uniform(0.0, 1.0, (rows, columns))
    known = chance.uniform(0.0, 1.0, (rows, columns)) < 0.7
    start = Start(rows=chance.normal(size=(rows, 3)), columns=chance.normal(size=(columns, 3)))
    wanted, found = by_hand(matrix, known, start), completed(matrix, known, start)
    assert (wanted is None) == (found is None)
    if wanted is not None:
        assert found == pytest.approx(wanted, abs=1e-9)


def test_what_is_not_known_is_not_read() -> None:
    known = np.array([[True, True, True], [True, False, True]])
    matrix = np.array([[0.2, 0.4, 0.6], [0.2, 0.0, 0.6]])
    other = matrix.copy()
    other[1, 1] = 77.0
    start = start_of(matrix, known)
    assert np.array_equal(start.rows, start_of(other, known).rows)
    first, second = completed(matrix, known, start), completed(other, known, start)
    assert first is not None
    assert second is not None
    assert np.array_equal(first, second)


def test_a_type_is_matched_with_the_row_that_points_its_way() -> None:
    references = np.array([[1.0, 0.5, 0.25], [0.1, 0.5, 1.0]])
    found = match(references, np.array([0.5, 0.25, 0.125]))
    assert isinstance(found, Match)
    assert found.reference == 0
    assert found.distance == pytest.approx(0.0, abs=1e-12)


def test_ties_go_to_the_earlier_row() -> None:
    references = np.array([[0.1, 1.0], [1.0, 0.1], [1.0, 0.1]])
    found = match(references, np.array([1.0, 0.1]))
    assert isinstance(found, Match)
    assert found.reference == 1


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ([np.nan, np.nan], UnmatchedCode.NOTHING_MEASURED),
        ([0.0, 0.0], UnmatchedCode.STANDS_STILL),
    ],
)
def test_nothing_to_go_by_is_a_refusal(row: list[float], code: UnmatchedCode) -> None:
    assert match(np.array([[1.0, 0.5], [0.5, 1.0]]), np.array(row)) is code


def test_rows_of_zeros_are_near_to_nothing() -> None:
    found = match(np.array([[0.0, 0.0], [0.5, 1.0]]), np.array([1.0, 0.1]))
    assert isinstance(found, Match)
    assert found.reference == 1
    still = match(np.zeros((2, 2)), np.array([1.0, 0.1]))
    assert still is UnmatchedCode.STANDS_STILL


def test_factors_that_swing_for_ever_are_a_refusal() -> None:
    # A start with entries of 1e200 overflows, so its passes never converge.
    huge = Start(rows=np.full((3, 1), 1e200), columns=np.full((2, 1), np.nan))
    references = np.array([[1.0, 0.5], [0.5, 1.0]])
    assert match(references, np.array([0.5, np.nan]), huge) is UnmatchedCode.NOT_SETTLED


@given(
    rows=st.integers(2, 6),
    seed=st.integers(0, 2**32 - 1),
    hidden=st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_estimates_are_ratios_and_the_same_each_time(
    rows: int, seed: int, hidden: list[bool]
) -> None:
    chance = np.random.default_rng(seed)
    references = mixed(chance.uniform(0.05, 0.5, (rows, 2)))
    measured = np.where(hidden, np.nan, mixed(chance.uniform(0.05, 0.5, (1, 2)))[0])
    found = match(references, measured)
    if all(hidden):
        assert found is UnmatchedCode.NOTHING_MEASURED
        return
    assert isinstance(found, Match)
    assert ((found.row >= 0.0) & (found.row <= 1.0)).all()
    assert np.array_equal(found.row[~np.isnan(measured)], measured[~np.isnan(measured)])
    again = match(references, measured)
    assert isinstance(again, Match)
    assert again.reference == found.reference
    assert np.array_equal(again.row, found.row)


@given(rows=st.integers(2, 6), seed=st.integers(0, 2**32 - 1))
def test_a_known_type_that_is_fully_measured_is_matched_with_itself(rows: int, seed: int) -> None:
    references = np.random.default_rng(seed).uniform(0.05, 1.0, (rows, 8))
    for number, row in enumerate(references):
        found = match(references, row)
        assert isinstance(found, Match)
        assert found.reference == number
