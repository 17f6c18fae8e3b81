"""Walls: inequalities that every allocation satisfies, which prove that a job is stuck.

A wall has a factor for each job. It follows from dual prices by weak duality: the sum of the jobs'
values, each multiplied by its factor, is at most the worth of all GPUs and time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from quorate.policy.allocation_space import Space, added
from quorate.policy.problem import Floats, Ints
from quorate.policy.solvers.filling import Path
from quorate.policy.solvers.lp import Solution
from quorate.policy.solvers.work_count import WorkCount

_FIRST: Final = 16
"""The number of walls for which memory is reserved at first. When the memory is full, it is
doubled."""
_NEAREST: Final = 8
"""The number of last added walls that are tried before all other walls."""
_ROUNDING: Final = 1e-15
_TINY: Final = 1e-300
LEAST: Final = 1e-8
"""The least factor of a job in a wall, relative to the wall's limit. A smaller factor is a rounding
error."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wall:
    """An inequality that holds for every allocation: ``sums @ filled <= limit``.

    ``prices`` has, for each flavor, the rise of the limit if there were one GPU more.
    """

    sums: Floats
    limit: float
    prices: Floats


class Walls:
    """The walls in the order in which they were added; reading them is counted as work."""

    def __init__(self, first: Wall, work: WorkCount) -> None:
        self._sums = np.zeros((_FIRST, len(first.sums)))
        self._limits = np.zeros(_FIRST)
        self._work = work
        self.each: list[Wall] = []
        self.add(first)

    def add(self, met: Wall) -> None:
        """Add the wall ``met``."""
        count = len(self.each)
        if count == len(self._limits):
            self._sums = np.concatenate((self._sums, np.zeros_like(self._sums)))
            self._limits = np.concatenate((self._limits, np.zeros(count)))
        self._sums[count], self._limits[count] = met.sums, met.limit
        self.each.append(met)

    def highest(self, path: Path, known: float | None = None) -> float:
        """Return the highest level of ``path`` within all walls.

        ``known`` is the highest level within all walls but the last one, or None. If ``known`` is
        None, the last few walls are tried first, because these are usually the nearest. Another
        wall is tried only if the level found so far breaks this wall.
        """
        count = len(self.each)
        first = count - 1 if known is not None else max(0, count - _NEAREST)
        level = self._within(path, np.arange(first, count), np.inf if known is None else known)
        if known is not None or not first:
            return level
        self._work.spend(self._sums[:first].size)
        over = self._sums[:first] @ path.at(level) > self._limits[:first]
        return self._within(path, np.flatnonzero(over), level) if over.any() else level

    def _within(self, path: Path, places: Ints, known: float) -> float:
        sums = self._sums[places]
        self._work.spend(sums.size * len(path.stops).bit_length())
        return path.highest(sums, self._limits[places], known)

    def left(self, filled: Floats, tops: Floats) -> Floats:
        """Return by how much each job could at most be raised without lowering other jobs."""
        count = len(self.each)
        sums, limits = self._sums[:count], self._limits[:count]
        self._work.spend(2 * sums.size)
        slack = np.maximum(limits - sums @ filled, 0.0) + _ROUNDING * limits
        left = tops - filled
        for row, beyond in zip(sums, slack.tolist(), strict=True):
            least = np.maximum(_ROUNDING * beyond / tops, _TINY)
            np.minimum(left, beyond / np.maximum(row, least), out=left)
        return left


def wall_of(space: Space, answer: Solution) -> Wall:
    """Return the wall that ``answer`` gives. The objective of ``answer`` is minus the shortfall.

    The rates of ``space`` should be near 1 for all jobs, so that the factors of a wall can be
    compared.
    """
    jobs, _ = space.problem.shape
    prices = answer.row_prices
    found = wall(
        space,
        np.maximum(-prices[:jobs], 0.0),
        np.maximum(prices[jobs : 2 * jobs], 0.0),
        np.maximum(prices[2 * jobs :], 0.0),
    )
    return _cleaned(found, -answer.objective)


def wall(
    space: Space, sums: Floats, times: Floats, prices: Floats, gains: Floats | None = None
) -> Wall:
    """Return the wall of these dual prices, which are first corrected so that the wall is exact.

    The gain of a column must not exceed the cost of its jobs' time and of its GPUs (weak duality).
    If the gain exceeds this cost because of a solver's rounding, the price of the time of the
    column's first job is raised. If ``gains`` is given, the gains of the columns are added to the
    sums.
    """
    count = len(space.rows)
    brought = added(space.columns, sums[space.jobs] * space.rates - times[space.jobs], count)
    if gains is not None:
        brought = brought + gains
    over = np.maximum(brought - space.loads * prices[space.flavors], 0.0)
    dearer = np.zeros(len(times))
    np.maximum.at(dearer, space.first[space.rows], over)
    limit = float(prices @ space.problem.gpus + (times + dearer).sum())
    return Wall(sums=sums, limit=limit, prices=prices)


def _cleaned(found: Wall, short: float) -> Wall:
    """Return ``found`` without its smallest factors (``sums``), which are a solver's rounding.

    The wall is still true for every allocation, because no level is below 0. The wall becomes
    weaker by at most half of the shortfall ``short``. The remaining factors are large enough to
    prove that a job is stuck.
    """
    order = np.argsort(found.sums, kind="stable")
    parts = found.sums[order]
    small = (parts < LEAST * found.limit) & (np.cumsum(parts) <= short / 2)
    sums = found.sums.copy()
    sums[order[small]] = 0.0
    return replace(found, sums=sums)
