"""The amount of work a policy has done, as a count.

It is never a time, so that equal problems have equal answers. The unit is one number that is read
and multiplied. The amount of each part of the work in this unit was measured;
docs/adr/0050-work-and-costs-of-rounds.md has the figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PER_BEGINNING: Final = 1_000
"""The cost of passing a program to a solver the first time, for each of its columns."""
PER_PROGRAM: Final = 40
"""The cost of a program for each of its columns, however few steps are needed."""
PER_STEP_AND_ROW: Final = 12
PER_STEP_AND_COLUMN: Final = 2
"""The cost of each step of the simplex method for each row and column of the program."""


@dataclass(slots=True)
class WorkCount:
    """The remaining work under a bound; None if there is no bound."""

    left: int | None

    def spend(self, numbers: int) -> None:
        """Count ``numbers`` that were read."""
        if self.left is not None:
            self.left -= numbers

    def spend_beginning(self, columns: int) -> None:
        """Count that a program is handed to a solver."""
        self.spend(PER_BEGINNING * columns)

    def spend_program(self, rows: int, columns: int, steps: int) -> None:
        """Count the solution of a program in ``steps`` steps."""
        self.spend(PER_PROGRAM * columns + steps * _step(rows, columns))

    def steps_max(self, rows: int, columns: int) -> int | None:
        """Return how many steps a program may still take, at least 0; None for any number."""
        if self.left is None:
            return None
        return max(0, (self.left - PER_PROGRAM * columns) // _step(rows, columns))


def _step(rows: int, columns: int) -> int:
    return PER_STEP_AND_ROW * rows + PER_STEP_AND_COLUMN * columns
