"""Which rates are measured when not all can be: drawn as the published estimator draws.

Some types are known. Of each other type, a part of its rates together with known types is measured,
and the type is matched (``quorate.policy.estimate``). There are two random generators, each with a
seed of its own: Python's draws the known types and the measurements, numpy's the starts of
factorisations.
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
        """Return which ``count`` of the types are known, in the order of the draw."""
        return tuple(sorted(self._chance.sample(range(types), count)))

    def matched(self, references: Floats, row: Floats, part: float) -> Match | UnmatchedCode:
        """Return the known type nearest to ``row`` when about ``part`` of it is measured.

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
