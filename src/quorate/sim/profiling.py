"""Which rates are measured when not all can be: drawn as the published estimator draws.

It knows some of the types, measures a part of the others beside those, and matches each
(``quorate.policy.estimate``). Two kinds of chance are in it: what is known and measured is drawn by
Python, where factorisations start by numpy, each from a seed of its own.
"""

from __future__ import annotations

from random import Random

import numpy as np

from quorate.policy.estimate import RANK, Match, Start, UnmatchedCode, match
from quorate.policy.problem import Floats


class Profiler:
    """The draws of one estimator, in their order: one ``references``, then ``matched`` by type."""

    def __init__(self, seed: int, start_seed: int) -> None:
        self._chance = Random(seed)
        self._starts = np.random.RandomState(start_seed)

    def references(self, types: int, count: int) -> tuple[int, ...]:
        """Return which ``count`` of so many types are known, in their order."""
        return tuple(sorted(self._chance.sample(range(types), count)))

    def matched(self, references: Floats, row: Floats, part: float) -> Match | UnmatchedCode:
        """Return the known type that ``row`` is nearest to when about ``part`` of it is measured.

        An unmatched type costs one draw, as a type that is matched at random.
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
    """Return the columns of the known types in a row of all of them, flavor by flavor."""
    return [flavor * types + known for flavor in range(flavors) for known in references]
