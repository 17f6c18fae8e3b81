"""Estimates the rates at which types of jobs share GPUs, if only few pairs were measured.

The known types are those that were measured in all pairs with each other; they make a matrix
without gaps. The few measurements of another type are completed to a whole row like those of this
matrix. The type then gets the ratios of the known type whose row is nearest (Gavel, section 6). The
completion is a factorisation by alternating least squares (Salakhutdinov and Mnih 2008). It begins
at a given start, so this module uses no random numbers.

A ratio is the rate of a type in a pair with another type, divided by the first type's rate alone on
the same flavor. Rows are types. Columns are flavors and, within each flavor, the known types in the
order of the rows. The published estimator numbers the columns of a new row by all types, but reads
these columns as if they were numbered by known types. So it compares the wrong columns if any type
is not known. This module numbers the columns by known types everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quorate.policy.problem import Floats

RANK: Final = 10
PENALTY: Final = 1e-2
SETTLED: Final = 1e-3
"""The factorisation has settled when a pass changes the matrix by at most this norm per entry."""
PASSES_MAX: Final = 100

Known = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Start:
    """The start of a factorisation: row factors and column factors of the same rank."""

    rows: Floats
    columns: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Match:
    """The nearest known type, the distance to it (0 to 2), and the completed row."""

    reference: int
    distance: float
    row: Floats


class UnmatchedCode(StrEnum):
    """Why a type matches no known type."""

    NOTHING_MEASURED = "nothing-measured"
    STANDS_STILL = "stands-still"
    NOT_SETTLED = "not-settled"


def start_of(matrix: Floats, known: Known, rank: int = RANK) -> Start:
    """Return a start that is not random: the largest singular vectors of the completed matrix.

    To complete the matrix, each unknown value is replaced by the mean of the known values of its
    column. If the matrix has fewer singular vectors than ``rank``, the remaining factors (up to
    ``rank``) start at zero.
    """
    counts = np.maximum(known.sum(axis=0), 1)
    means = np.where(known, matrix, 0.0).sum(axis=0) / counts
    left, values, right = np.linalg.svd(np.where(known, matrix, means), full_matrices=False)
    kept = min(rank, len(values))
    rows = np.zeros((matrix.shape[0], rank))
    columns = np.zeros((matrix.shape[1], rank))
    roots = np.sqrt(values[:kept])
    rows[:, :kept] = left[:, :kept] * roots
    columns[:, :kept] = right[:kept].T * roots
    return Start(rows=rows, columns=columns)


def completed(matrix: Floats, known: Known, start: Start) -> Floats | None:
    """Return the product of two factors that is nearest to the known values, or None.

    The result is None if the factors do not settle. Unknown values of ``matrix`` are not read. Row
    factors and column factors are computed in turn, by regularised least squares (mu =
    ``PENALTY``). While the row factors are computed, the column factors stay fixed, and vice versa.
    """
    rows, columns = start.rows.copy(), start.columns.copy()
    weights = known.astype(np.float64)
    values = np.where(known, matrix, 0.0)
    before = rows @ columns.T
    for _ in range(PASSES_MAX):
        rows = _fitted(columns, values, weights)
        columns = _fitted(rows, values.T, weights.T)
        now: Floats = rows @ columns.T
        if float(np.linalg.norm(now - before)) / now.size < SETTLED:
            return now
        before = now
    return None


def match(
    references: Floats, measured: Floats, start: Start | None = None
) -> Match | UnmatchedCode:
    """Return the row of ``references`` that is nearest to ``measured``, in which NaN is a gap.

    ``references`` has no gaps. Gaps of ``measured`` are filled with estimates from 0 to 1. The
    distance of two rows is 1 minus the cosine of their angle, so rows with the same direction are
    near each other. Of equally near rows, the earlier one is taken. A row of zeros matches no row.
    """
    is_measured = ~np.isnan(measured)
    if not is_measured.any():
        return UnmatchedCode.NOTHING_MEASURED
    row = measured
    if not is_measured.all():
        matrix = np.vstack([references, np.where(is_measured, measured, 0.0)])
        known = np.vstack([np.ones(references.shape, dtype=np.bool_), is_measured])
        found = completed(matrix, known, start or start_of(matrix, known))
        if found is None:
            return UnmatchedCode.NOT_SETTLED
        row = np.where(is_measured, measured, np.clip(found[-1], 0.0, 1.0))
    length = float(np.linalg.norm(row))
    lengths = np.linalg.norm(references, axis=1)
    if length == 0.0 or not lengths.any():
        return UnmatchedCode.STANDS_STILL
    cosines = np.divide(
        references @ row, lengths * length, out=np.full(len(lengths), -1.0), where=lengths > 0.0
    )
    nearest = int(np.argmin(1.0 - cosines))
    return Match(reference=nearest, distance=float(1.0 - cosines[nearest]), row=row)


def _fitted(fixed: Floats, values: Floats, weights: Floats) -> Floats:
    """Return the factor of each row of ``values`` while the column factors ``fixed`` stay fixed."""
    rank = fixed.shape[1]
    squares = np.einsum("nk,mn,nl->mkl", fixed, weights, fixed, optimize=True)
    wanted = (values * weights) @ fixed
    found: Floats = np.linalg.solve(squares + PENALTY * np.eye(rank), wanted[:, :, None])[:, :, 0]
    return found
