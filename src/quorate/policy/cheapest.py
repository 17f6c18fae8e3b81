"""The cheapest way to the rate that each job needs, when a GPU of each flavor has a price.

Seen as points (rate, price), a job's flavors and standing still have a lower convex hull, and the
cheapest way to a rate lies on the hull's edge above it: on one flavor for part of the time, or on a
slow and a fast one that fill it. The edge found last is where the next search begins, for prices
move little from one pass to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quorate.policy.levels import Demand
from quorate.policy.problem import Floats, Ints

BLOCK: Final = 16_384
"""How many jobs are looked at together: what they need fits a processor's cache."""
TURNS_PER_FLAVOR: Final = 4
"""How often an edge may turn, for each flavor. One that has not settled then only costs accuracy,
which the bound makes up for."""
TINY: Final = float(np.finfo(np.float64).tiny)
SETTLED: Final = 1e-14
"""How far below an edge a point may lie, relative to the highest price: rounding."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """What all jobs choose at some prices.

    ``used`` are the GPUs of each flavor that this takes, ``cost`` a bound below what the needs cost
    at least, and ``growth`` how fast that bound grows with the level.
    """

    slow: NDArray[np.int16]
    fast: NDArray[np.int16]
    used: Floats
    cost: float
    growth: float


class Cheapest:
    """The edges on which jobs were last seen. Standing still is a flavor after the last one."""

    def __init__(self, demand: Demand) -> None:
        jobs, flavors = demand.rates.shape
        self.columns = np.zeros((flavors + 1, jobs))
        self.columns[:flavors] = demand.rates.T
        self.loads = demand.loads
        self.most: Floats = self.columns.max(axis=0)
        self._slow: Ints = np.full(jobs, flavors, dtype=np.int64)
        self._fast: Ints = np.full(jobs, flavors, dtype=np.int64)
        self._rate_slow = np.zeros(jobs)
        self._rate_fast = np.zeros(jobs)
        self._steep = np.zeros(jobs)
        self._below = np.zeros(jobs)

    def choose(self, prices: Floats, need: Floats, growth: Floats) -> Choice:
        """Return the cheapest choices at ``prices`` of a GPU, for rates that each job can reach."""
        still = len(prices)
        priced = np.append(prices, 0.0)
        used = np.zeros(still + 1)
        for start in range(0, len(need), BLOCK):
            part = slice(start, start + BLOCK)
            self._settle(priced, part, need[part])
            slow, rate_slow = self._slow[part], self._rate_slow[part]
            fraction = (need[part] - rate_slow) / (self._rate_fast[part] - rate_slow)
            loads = self.loads[part]
            on_fast = fraction * loads
            used += np.bincount(self._fast[part], on_fast, still + 1)
            used += np.bincount(slow, loads - on_fast, still + 1)
        cost = float(priced @ used + self.loads @ self._below)
        return Choice(
            slow=self._slow.astype(np.int16),
            fast=self._fast.astype(np.int16),
            used=used[:still],
            cost=cost,
            growth=float(np.dot(self.loads * self._steep, growth)),
        )

    def shares(self, choice: Choice, need: Floats) -> Floats:
        """Return the shares of a choice, one row for each flavor and one for standing still."""
        rows = np.arange(len(need))
        rate_slow, rate_fast = self.columns[choice.slow, rows], self.columns[choice.fast, rows]
        fraction = (need - rate_slow) / (rate_fast - rate_slow)
        shares = np.zeros(self.columns.shape)
        shares[choice.fast, rows] = fraction
        shares[choice.slow, rows] = 1.0 - fraction
        return shares

    def _settle(self, priced: Floats, part: slice, need: Floats) -> None:
        """Turn the edges of some jobs until no flavor lies below them."""
        slow_rate, fast_rate = self._rate_slow[part], self._rate_fast[part]
        # An edge spans its need, and begins below it or where nothing moves; a new job has none.
        lost = np.flatnonzero(
            (fast_rate < need) | (slow_rate >= np.maximum(need, TINY)) | (fast_rate <= 0)
        )
        if len(lost):
            self._begin(priced, lost + part.start, need[lost])
        below = self._scan(priced, part)
        self._below[part] = below
        allowed = -SETTLED * float(priced.max())
        rows = np.flatnonzero(below < allowed)
        for _ in range(TURNS_PER_FLAVOR * (len(priced) - 1)):
            if not len(rows):
                return
            at = rows + part.start
            self._turn(priced, at, need[rows])
            below = self._scan(priced, at)
            self._below[at] = below
            rows = rows[below < allowed]

    def _begin(self, priced: Floats, rows: Ints, need: Floats) -> None:
        """Put jobs on the edge from standing still to the cheapest flavor that is fast enough."""
        rates = self.columns[:-1, rows]
        enough = (rates >= need) & (rates > 0)
        cost = np.where(enough, priced[:-1, None] / np.where(enough, rates, 1.0), np.inf)
        fast = cost.argmin(axis=0)
        self._fast[rows], self._rate_fast[rows] = fast, rates[fast, np.arange(len(rows))]
        self._slow[rows], self._rate_slow[rows] = len(priced) - 1, 0.0

    def _scan(self, priced: Floats, rows: slice | Ints) -> Floats:
        """Return how far the lowest of each job's points lies below its edge: 0 or less."""
        slow, slow_rate = priced[self._slow[rows]], self._rate_slow[rows]
        steep = (priced[self._fast[rows]] - slow) / (self._rate_fast[rows] - slow_rate)
        self._steep[rows] = steep
        offset = steep * slow_rate - slow
        lowest = np.minimum(offset, 0.0)
        for price, rates in zip(priced[:-1], self.columns[:-1], strict=True):
            point = steep * rates[rows]
            np.subtract(offset, point, out=point)
            point += price
            np.minimum(lowest, point, out=lowest)
        return lowest

    def _turn(self, priced: Floats, rows: Ints, need: Floats) -> None:
        """Turn the edges of jobs to their lowest points; of equal ones, to the first flavor's."""
        rates = self.columns[:, rows]
        lowest = (priced[:, None] - self._steep[rows] * rates).argmin(axis=0)
        found = rates[lowest, np.arange(len(rows))]
        is_fast = found >= need
        ahead, behind = rows[is_fast], rows[~is_fast]
        self._fast[ahead], self._rate_fast[ahead] = lowest[is_fast], found[is_fast]
        self._slow[behind], self._rate_slow[behind] = lowest[~is_fast], found[~is_fast]
