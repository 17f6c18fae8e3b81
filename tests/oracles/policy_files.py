"""Reads and writes the files of policies in the directions that the program does not need."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from quorate.policy.allocation import ALONE, NO_BOUND, Allocation, Method
from quorate.policy.pair_index import PAIR_MARK
from quorate.policy.problem import Problem


def read_allocation(tree: Mapping[str, Mapping[str, float]], problem: Problem) -> Allocation:
    """Return the shares that ``tree`` gives to the jobs of ``problem``.

    Pairs without time are left out. The tree has no objective, so the objective is NaN.
    """
    rows = {name: row for row, name in enumerate(problem.jobs)}
    shares = {key: [entry[flavor] for flavor in problem.flavors] for key, entry in tree.items()}
    together = [key for key, found in shares.items() if key not in rows and any(found)]
    pairs = sorted((sorted(rows[name] for name in key.split(PAIR_MARK)), key) for key in together)
    return Allocation(
        first=np.array([*range(len(rows)), *(first for (first, _), _ in pairs)], dtype=np.int64),
        second=np.array([ALONE] * len(rows) + [second for (_, second), _ in pairs], dtype=np.int64),
        shares=np.array([shares[key] for key in (*rows, *(key for _, key in pairs))]).reshape(
            -1, len(problem.flavors)
        ),
        objective=math.nan,
        bound=NO_BOUND,
        method=Method.RULE,
    )
