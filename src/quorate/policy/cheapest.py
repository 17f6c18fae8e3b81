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
FREE: Final = 1e-200
"""The price of what costs nothing, to divide by."""
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
        self._rate_fast = np.full(jobs, -1.0)
        self._span = np.ones(jobs)
        self._steep = np.zeros(jobs)
        self._below = np.zeros(jobs)

    def choose(self, prices: Floats, need: Floats, growth: Floats) -> Choice:
        """Return the cheapest choices at ``prices`` of a GPU, for rates that each job can reach."""
        still = len(prices)
        priced = np.append(prices, 0.0)
        used = np.zeros(still + 1)
        cost_growth = 0.0
        for start in range(0, len(need), BLOCK):
            part = slice(start, start + BLOCK)
            self._settle(priced, part, need[part])
            loads = self.loads[part]
            on_fast = need[part] - self._rate_slow[part]
            on_fast /= self._span[part]
            on_fast *= loads
            used += np.bincount(self._fast[part], on_fast, still + 1)
            used += np.bincount(self._slow[part], loads - on_fast, still + 1)
            # Summed by one thread: others would only wait for each other over so little.
            cost_growth += float(np.einsum("m,m,m->", loads, self._steep[part], growth[part]))
        return Choice(
            slow=self._slow.astype(np.int16),
            fast=self._fast.astype(np.int16),
            used=used[:still],
            cost=float(priced @ used + np.einsum("m,m->", self.loads, self._below)),
            growth=cost_growth,
        )

    def add_shares(self, choice: Choice, need: Floats, part: float, shares: Floats) -> None:
        """Add ``part`` of a choice's shares to ``shares``, which has a row for each flavor."""
        rows, jobs = np.arange(len(need)), len(need)
        rates = self.columns.reshape(-1)
        rate_slow = rates.take(choice.slow.astype(np.int64) * jobs + rows)
        span = rates.take(choice.fast.astype(np.int64) * jobs + rows) - rate_slow
        on_fast = np.clip(part * (need - rate_slow) / span, 0.0, part)
        on_slow = part - on_fast
        for flavor in range(len(shares)):
            shares[flavor] += on_fast * (choice.fast == flavor)
            shares[flavor] += on_slow * (choice.slow == flavor)

    def _settle(self, priced: Floats, part: slice, need: Floats) -> None:
        """Turn the edges of some jobs until no flavor lies below them."""
        # An edge begins below its need and ends at it or above.
        lost = np.flatnonzero((self._rate_fast[part] < need) | (self._rate_slow[part] >= need))
        if len(lost) == len(need):
            self._begin(priced, part, need)
        elif len(lost):
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

    def _begin(self, priced: Floats, rows: slice | Ints, need: Floats) -> None:
        """Put jobs on the edge from standing still to the cheapest flavor that is fast enough."""
        rates = self.columns[:-1, rows]
        enough = (rates >= need) & (rates > 0)
        # The rate that a price buys, rather than the price of a rate: nothing is divided by 0.
        bought = np.where(enough, rates, 0.0) / np.maximum(priced[:-1, None], FREE)
        fast = bought.argmax(axis=0)
        found = rates[fast, np.arange(len(need))]
        self._fast[rows], self._rate_fast[rows] = fast, found
        self._slow[rows], self._rate_slow[rows] = len(priced) - 1, 0.0
        self._span[rows] = found

    def _scan(self, priced: Floats, rows: slice | Ints) -> Floats:
        """Return how far the lowest of each job's points lies below its edge: 0 or less."""
        slow = priced.take(self._slow[rows])
        steep = priced.take(self._fast[rows])
        steep -= slow
        steep /= self._span[rows]
        self._steep[rows] = steep
        lowest = np.zeros(len(steep))
        point = np.empty(len(steep))
        for price, rates in zip(priced[:-1], self.columns[:-1], strict=True):
            np.multiply(steep, rates[rows], out=point)
            point -= price
            np.maximum(lowest, point, out=lowest)
        np.multiply(steep, self._rate_slow[rows], out=point)
        point -= slow
        point -= lowest
        return np.minimum(point, 0.0, out=point)

    def _turn(self, priced: Floats, rows: Ints, need: Floats) -> None:
        """Turn the edges of jobs to their lowest points; of equal ones, to the first flavor's."""
        rates = self.columns[:, rows]
        lowest = (priced[:, None] - self._steep[rows] * rates).argmin(axis=0)
        found = rates[lowest, np.arange(len(rows))]
        is_fast = found >= need
        ahead, behind = rows[is_fast], rows[~is_fast]
        self._fast[ahead], self._rate_fast[ahead] = lowest[is_fast], found[is_fast]
        self._slow[behind], self._rate_slow[behind] = lowest[~is_fast], found[~is_fast]
        self._span[rows] = self._rate_fast[rows] - self._rate_slow[rows]
