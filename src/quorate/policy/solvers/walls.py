"""Walls: inequalities that every allocation satisfies, and that prove a job cannot be raised.

A wall comes from dual prices by weak duality: what jobs are filled to, each by its part in the
wall, is never more than the GPUs and the time there are can pay for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from quorate.policy.allocation_space import Space, added
from quorate.policy.problem import Floats
from quorate.policy.solvers.lp import Solution

LEAST: Final = 1e-8
"""What a job has in a wall at least, relative to the wall's limit: less may be rounding."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wall:
    """An inequality that holds for every allocation: ``sums @ filled <= limit``.

    ``prices`` are what one more GPU of each flavor would add to the limit.
    """

    sums: Floats
    limit: float
    prices: Floats


def wall_of(space: Space, answer: Solution) -> Wall:
    """Return the wall given by an answer that falls short: its objective is the shortfall.

    The rates of ``space`` are to be near 1 for all jobs, so that parts in a wall can be compared.
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
    """Return the wall of these dual prices, after they are made to hold exactly.

    A column may not bring more than its jobs' time and its GPUs cost (weak duality); where a
    solver's rounding lets it, the time of its first job is made to cost more. With ``gains``, what
    the columns gain is on the side of the sums.
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
    """Return ``found`` without the least of its sums, which are a solver's rounding.

    It holds all the same, because no level is below 0; and at most half of its shortfall is given
    away. What is left is large enough to prove a job stuck.
    """
    order = np.argsort(found.sums, kind="stable")
    parts = found.sums[order]
    small = (parts < LEAST * found.limit) & (np.cumsum(parts) <= short / 2)
    sums = found.sums.copy()
    sums[order[small]] = 0.0
    return replace(found, sums=sums)
