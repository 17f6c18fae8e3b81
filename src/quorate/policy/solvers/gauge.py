"""Measures by how much jobs miss a level, with a separate unit for each job.

When jobs of large weight are stuck, the others may rise to thousands of times their first level. If
such a job were still measured in the unit of its first level, a solver's rounding would hide the
shortfall of other jobs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from quorate.policy.allocation_space import Space, program
from quorate.policy.problem import Floats
from quorate.policy.solvers.filling import Path
from quorate.policy.solvers.lp import Program, Solution, Standing, Status
from quorate.policy.solvers.near import Near, Priced, near, priced
from quorate.policy.solvers.walls import Wall, wall_of
from quorate.policy.solvers.work_count import WorkCount

OUTGROWN: Final = 2.0
"""A job that has risen above this many units gets a larger unit when rounding matters."""


class Gauge:
    """The program that measures by how much each job misses a level, in the job's unit."""

    def __init__(self, space: Space, units: Floats, work: WorkCount) -> None:
        self._space = space
        self._work = work
        self._begun: Near | None = None
        self._take(units)

    def grown(self, filled: Floats) -> bool:
        """Enlarge the units of jobs that have outgrown them; return whether there were any."""
        if not np.any(filled > OUTGROWN * self.units):
            return False
        self._take(np.maximum(filled, self.units))
        return True

    def _take(self, units: Floats) -> None:
        self.units = units
        self._scaled = replace(self._space, rates=self._space.rates / units[self._space.jobs])
        self._standing: Standing | None = None
        self._work.spend_beginning(len(self._space.rows))

    def begin_near(self, path: Path, first: Wall, missed: float) -> list[Wall]:
        """Begin near the highest level of ``path``, if prices find it; return the wall there.

        Return no wall if prices find no level, or if no job misses the level by more than
        ``missed``.
        """
        begun = near(self._scaled, self.units, path, first)
        if begun is None:
            return []
        self._begun = begun
        self._standing = Standing(_shortfall(self._scaled), begun.basis)
        answer = self.solve(path.at(begun.level))
        if isinstance(answer, Solution) and -answer.objective > missed:
            return [self.wall(answer)]
        return []

    def priced(self, path: Path) -> Priced | None:
        """Return shares that, by prices alone, nearly reach the highest level of ``path``.

        Return None if the search did not begin by prices, or if the price method fails.
        """
        return None if self._begun is None else priced(self._scaled, self.units, path, self._begun)

    def solve(self, filled: Floats) -> Solution | Status | None:
        """Return the shares that miss ``filled`` least, in the jobs' units, or the solver's status.

        Return None if this takes too much work.
        """
        if self._standing is None:
            self._standing = Standing(_shortfall(self._scaled))
        jobs, flavors = self._space.problem.shape
        size = 2 * jobs + flavors, len(self._space.rows)
        steps_max = self._work.steps_max(*size)
        if steps_max == 0:
            return None
        answer = self._standing.solve(filled / self.units, steps_max)
        self._work.spend_program(*size, self._standing.steps)
        return None if answer is Status.STOPPED else answer

    def wall(self, answer: Solution) -> Wall:
        """Return the wall that follows from the prices of an answer with a shortfall."""
        found = wall_of(self._scaled, answer)
        return replace(found, sums=found.sums / self.units)


def _shortfall(scaled: Space) -> Program:
    """Return the program that minimises the largest shortfall of a job, in the job's unit."""
    gains = np.zeros(len(scaled.rows) + 1)
    gains[-1] = -1.0
    return program(scaled, gains, more=(np.ones(len(scaled.problem.jobs)),))
