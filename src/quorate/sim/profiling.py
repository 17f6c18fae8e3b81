"""Draws which of many rates are measured, as the published estimator does.

Some types are known. For each other type, a part of its rates in pairs with known types is
measured, and the type is matched with a known type (``quorate.policy.estimate``). Python's random
generator draws the known types and the measurements. numpy's generator, with its own seed, draws
the starting points of factorisations.
"""

from __future__ import annotations

from random import Random

import numpy as np

from quorate.policy.estimate import RANK, Match, Start, UnmatchedCode, match
from quorate.policy.problem import Floats


class Profiler:
    """The draws of one estimator: call ``references`` once, then ``matched`` for each type."""

    def __init__(self, seed: int, start_seed: int) -> None:
        self._chance = Random(seed)
        self._starts = np.random.RandomState(start_seed)

    def references(self, types: int, count: int) -> tuple[int, ...]:
        """Draw ``count`` known types out of ``types``; return their numbers, in ascending order."""
        return tuple(sorted(self._chance.sample(range(types), count)))

    def matched(self, references: Floats, row: Floats, part: float) -> Match | UnmatchedCode:
        """Return the known type nearest to ``row``, of which only about ``part`` is measured.

        For an unmatched type one more number is drawn, as if the type were matched at random.
        """
        drawn = np.array([self._chance.uniform(0, 1) for _ in row])
        measured = np.where(drawn <= part, row, np.nan)
        start = None
        if part > 0.0 and np.isnan(measured).any():
            start = Start(
                rows=self._starts.randn(len(references) + 1, RANK),
                columns=self._starts.randn(len(row), RANK),
            )
        found = match(references, measured, start)
        if isinstance(found, UnmatchedCode):
            self._chance.choice(range(len(references)))
        return found


def reference_columns(references: tuple[int, ...], types: int, flavors: int) -> list[int]:
    """Return the columns of the known types in a row of all types, flavor by flavor."""
    return [flavor * types + known for flavor in range(flavors) for known in references]
