"""Finds the best mixture of columns within given limits, by a small dense linear program.

The program has one row for each limit, and a row for the condition that the parts add up to 1. So
the revised simplex method of Dantzig needs only a square matrix of this size. A solver for large
programs would need several times as long, only to start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from quorate.policy.problem import Floats, Ints

WORTH: Final = 1e-11
"""A column enters the basis only if one unit of it raises the value by at least this."""
PIVOT: Final = 1e-11
"""The smallest accepted pivot; smaller numbers are rounding errors."""
TIED: Final = 1e-12
"""Parts count as reaching 0 together if the points at which they reach 0 are this close to each
other."""
STEPS_PER_ROW: Final = 20
"""After this many steps per row, the first column with a gain enters the basis instead of the best
one. So the method cannot run in a cycle (Bland, 1977)."""
STEPS_PER_ROW_MAX: Final = 200
"""After this many steps per row, the search ends without an answer."""
ROOM: Final = 32
"""The number of columns for which memory is reserved at first."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mix:
    """The best mixture: the part of each column, the value, and the worth of each limit."""

    parts: Floats
    value: float
    prices: Floats


class Mixture:
    """Columns that can be mixed, and the columns of the last best mixture.

    Each limit is 1. Each column has a value, and uses a part of each limit. In a mixture, the parts
    of all columns add up to 1. Column 0 uses no part of any limit, so a feasible mixture always
    exists. The unused part (slack) of each limit is a column, too; slack columns come before all
    others.
    """

    def __init__(self, limits: int) -> None:
        self._limits = limits
        self._count = limits
        self._taken = np.zeros((limits + 1 + ROOM, limits + 1))
        self._taken[:limits, :limits] = np.eye(limits)
        self._values = np.zeros(len(self._taken))
        # At first the whole mixture is column 0, and no limit is used.
        self._basis: Ints = np.arange(limits + 1)

    def add(self, value: float, taken: Floats) -> None:
        """Add a column with the value ``value``; it uses ``taken`` of each limit."""
        if self._count == len(self._values):
            self._taken = np.concatenate((self._taken, np.zeros_like(self._taken)))
            self._values = np.concatenate((self._values, np.zeros_like(self._values)))
        self._taken[self._count, :-1] = taken
        self._taken[self._count, -1] = 1.0
        self._values[self._count] = value
        self._count += 1

    def solve(self) -> Mix | None:
        """Return the best mixture, or None if it was not found."""
        values, taken = self._values[: self._count], self._taken[: self._count]
        basis, rows = self._basis, self._limits + 1
        ones = np.ones(rows)
        try:
            inverse = np.linalg.inv(taken[basis].T)
        except np.linalg.LinAlgError:
            return None  # Columns have become too similar to distinguish them.
        for step in range(STEPS_PER_ROW_MAX * rows):
            prices = values[basis] @ inverse
            worth = values - taken @ prices
            worth[basis] = 0.0
            is_late = step > STEPS_PER_ROW * rows
            best = int((worth > WORTH).argmax() if is_late else worth.argmax())
            if worth[best] <= WORTH:
                return self._mix(inverse @ ones, prices)
            turned = inverse @ taken[best]
            out = _out(basis, inverse @ ones, turned)
            if out is None:
                return None
            row = inverse[out] / turned[out]
            inverse -= turned[:, None] * row
            inverse[out] = row
            basis[out] = best
        return None

    def _mix(self, of_basis: Floats, prices: Floats) -> Mix:
        parts = np.zeros(self._count)
        parts[self._basis] = of_basis
        return Mix(
            parts=parts[self._limits :],
            value=float(self._values[self._basis] @ of_basis),
            prices=prices[:-1],
        )


def _out(basis: Ints, parts: Floats, turned: Floats) -> int | None:
    """Return the row whose part is the first to reach 0 when a column enters, or None.

    None means that no part reaches 0. Of several rows, return the row with the lowest column.
    """
    until = [
        (max(part, 0.0) / by, column, place)
        for place, (part, by, column) in enumerate(
            zip(parts.tolist(), turned.tolist(), basis.tolist(), strict=True)
        )
        if by > PIVOT
    ]
    if not until:
        return None
    least = min(until)[0] + TIED
    return min((column, place) for at, column, place in until if at <= least)[1]
