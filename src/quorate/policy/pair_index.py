"""Finds pairs by their two jobs: the names of pairs in files, and their rows in a problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from quorate.policy.files.file_faults import At
from quorate.policy.problem import Problem

PAIR_MARK: Final = ","
"""The character that joins the names of the jobs of a pair in every format. A name may not contain
this character."""


class PairIndex:
    """The pairs of a problem, found by their two jobs."""

    def __init__(self, problem: Problem) -> None:
        self._jobs = len(problem.jobs)
        pairs = problem.pairs
        keys = np.empty(0, dtype=np.int64)
        if pairs is not None:
            keys = pairs.first * self._jobs + pairs.second
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]

    def row(self, one: int, other: int) -> int | None:
        """Return the row of the pair of two jobs, given in any order; None if they are no pair."""
        key = min(one, other) * self._jobs + max(one, other)
        place = int(np.searchsorted(self._keys, key))
        if place == len(self._keys) or self._keys[place] != key:
            return None
        return int(self._order[place])


def pair_of(key: str, rows: Mapping[str, int], at: At) -> tuple[int, int] | None:
    """Return the two jobs of a key such as ``0,1``; None, with a fault, for any other key.

    ``rows`` has the row of each job by name. The jobs are returned in the order of the key.
    """
    names = key.split(PAIR_MARK)
    remedy = f"name two of the jobs, as in 0{PAIR_MARK}1"
    for name in names:
        if name not in rows:
            at.fault(f"names {name!r}, which is not a job", remedy)
            return None
    if len(names) != len(set(names)) or len(names) != 2:  # noqa: PLR2004 - the two of a pair
        at.fault("is not a pair", remedy)
        return None
    return rows[names[0]], rows[names[1]]
