"""Counts the work that a policy has done.

Work is a count and not a time, so that equal problems have equal answers. The unit is the work of
reading and multiplying one number. The costs below, in this unit, were measured;
docs/adr/0050-work-and-costs-of-rounds.md has the figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PER_BEGINNING: Final = 1_000
"""The cost, per column, of passing a program to a solver for the first time."""
PER_PROGRAM: Final = 40
"""The cost, per column, of solving a program, without the cost of the steps."""
PER_STEP_AND_ROW: Final = 12
PER_STEP_AND_COLUMN: Final = 2
"""The cost of each step of the simplex method for each row and column of the program."""


@dataclass(slots=True)
class WorkCount:
    """The work that a policy may still do. None means that there is no limit."""

    left: int | None

    def spend(self, numbers: int) -> None:
        """Count the reading of ``numbers`` numbers."""
        if self.left is not None:
            self.left -= numbers

    def spend_beginning(self, columns: int) -> None:
        """Count the passing of a program with ``columns`` columns to a solver."""
        self.spend(PER_BEGINNING * columns)

    def spend_program(self, rows: int, columns: int, steps: int) -> None:
        """Count the solution of a program in ``steps`` steps."""
        self.spend(PER_PROGRAM * columns + steps * _step(rows, columns))

    def steps_max(self, rows: int, columns: int) -> int | None:
        """Return how many steps a program may still take, at least 0; None means no limit."""
        if self.left is None:
            return None
        return max(0, (self.left - PER_PROGRAM * columns) // _step(rows, columns))


def _step(rows: int, columns: int) -> int:
    return PER_STEP_AND_ROW * rows + PER_STEP_AND_COLUMN * columns
