"""Finds the cheapest shares for the rates that jobs need, at given prices of GPUs.

For a job, each flavor is a point (rate, price), and so is being idle. These points have a lower
convex hull. The cheapest shares for a rate lie on the edge of this hull at the rate. An edge stands
for one flavor for part of the time, or for a slow and a fast flavor for the whole time. A search
begins at the edge of the previous pass, because prices change little from one pass to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quorate.policy.problem import Floats, Ints
from quorate.policy.solvers.levels import Demand

BLOCK: Final = 10_000
"""The number of jobs that are processed together. The data of so many jobs fits a processor's
cache, and numpy does not divide sums of this size among threads, which would wait for each other.
"""
TURNS_PER_FLAVOR: Final = 4
"""The most turns of an edge per flavor. An edge that has not settled after these turns makes the
result less exact, and the bound takes this error into account."""
LONG: Final = 1_000
"""With at least this many jobs, it is faster to make a pass flavor by flavor."""
FREE: Final = 1e-200
"""A price of 0 is replaced by this price, so that dividing by a price is possible."""
SETTLED: Final = 1e-14
"""How far below its edge a point may be because of rounding, relative to the highest price."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """The choices of all jobs at given prices: ``edges`` has the number of each job's edge.

    ``used`` is the number of GPUs of each flavor that the choices use. ``cost`` is a lower bound of
    the cost of all needs, and ``growth`` is how fast this bound grows with the level.
    """

    edges: NDArray[np.int32]
    used: Floats
    cost: float
    growth: float


class Cheapest:
    """The latest edges of the jobs. Being idle is treated as one more flavor, the last one.

    The edge from a slow flavor to a fast flavor has the number ``slow * points + fast``. So the
    edges from being idle have the highest numbers.
    """

    def __init__(self, demand: Demand) -> None:
        jobs, flavors = demand.rates.shape
        points = flavors + 1
        self.columns = np.zeros((points, jobs))
        self.columns[:flavors] = demand.rates.T
        self.loads = demand.loads
        self.most: Floats = self.columns.max(axis=0)
        self._slow_of, self._fast_of = np.divmod(np.arange(points * points), points)
        self._edge: Ints = np.full(jobs, points * points - 1)
        self._stands = (points - 1) * points
        self._rate_slow = np.zeros(jobs)
        self._rate_fast = np.full(jobs, -1.0)
        self._per_rate = np.ones(jobs)
        self._steep = np.zeros(jobs)
        self._over = np.zeros(jobs)

    def choose(self, prices: Floats, need: Floats, growth: Floats) -> Choice:
        """Return the cheapest choices at ``prices`` per GPU. Each job can reach its ``need``."""
        points = len(prices) + 1
        priced = np.zeros(points)
        priced[:-1] = prices
        used = np.zeros(points)
        cost = cost_growth = 0.0
        for start in range(0, len(need), BLOCK):
            part = slice(start, start + BLOCK)
            needed, loads = need[part], self.loads[part]
            busy = self._settle(priced, part, needed)
            fast = needed * self._per_rate[part]
            if len(busy):
                fast[busy] -= self._rate_slow[part][busy] * self._per_rate[part][busy]
            fast *= loads
            used += self._used(self._edge[part], busy, loads, fast)
            steep = np.multiply(loads, self._steep[part], out=fast)
            cost += float(steep @ needed) - float(loads @ self._over[part])
            cost_growth += float(steep @ growth[part])
        edges = self._edge.astype(np.int32)
        return Choice(edges=edges, used=used[:-1], cost=cost, growth=cost_growth)

    def _used(self, edge: Ints, busy: Ints, loads: Floats, on_fast: Floats) -> Floats:
        """Return the used GPUs of each flavor.

        ``on_fast`` has the GPUs that each job uses on the fast flavor of its edge. The jobs
        ``busy`` are never idle: they have the rest of their ``loads`` on the slow flavor.
        """
        points = len(self.columns)
        by_edge = np.bincount(edge, on_fast, points * points)
        used: Floats = by_edge.reshape(points, points).sum(axis=0)
        if len(busy):
            on_slow = loads[busy] - on_fast[busy]
            used += np.bincount(self._slow_of.take(edge[busy]), on_slow, points)
        return used

    def add_shares(self, choice: Choice, need: Floats, part: float, shares: Floats) -> None:
        """Add ``part`` of a choice's shares to ``shares``, which has a row for each flavor."""
        jobs = len(need)
        rates, flat = self.columns.reshape(-1), shares.reshape(-1)
        fast = (self._fast_of * jobs).take(choice.edges)
        fast += np.arange(jobs)
        on_fast, span = need.copy(), rates.take(fast)
        rows = np.flatnonzero(choice.edges < self._stands)  # These jobs are never idle.
        slow = (self._slow_of * jobs).take(choice.edges[rows]) + rows
        rate_slow = rates.take(slow)
        on_fast[rows] -= rate_slow
        span[rows] -= rate_slow
        on_fast /= span
        on_fast *= part
        np.maximum(on_fast, 0.0, out=on_fast)
        np.minimum(on_fast, part, out=on_fast)
        flat[fast] += on_fast
        flat[slow] += part - on_fast[rows]

    def _settle(self, priced: Floats, part: slice, need: Floats) -> Ints:
        """Turn the edges of the jobs ``part`` until no flavor lies below its edge.

        Return the jobs of ``part`` that are never idle on these edges.
        """
        # An edge must begin below the need, and end at or above the need. Edges from being idle
        # always begin below.
        is_lost = self._rate_fast[part] < need
        busy = self._busy(part)
        if len(busy):
            is_lost[busy] |= self._rate_slow[part][busy] >= need[busy]
        lost = np.flatnonzero(is_lost)
        if len(lost) == len(need):
            self._begin(priced, part, need)
        elif len(lost):
            self._begin(priced, lost + part.start, need[lost])
        if len(lost):
            busy = self._busy(part)
        allowed = SETTLED * float(priced.max())
        rows = np.flatnonzero(self._scan(priced, part, busy) > allowed)
        if not len(rows):
            return busy
        if not len(busy):
            below = self._move(priced, rows + part.start, need[rows])
            rows = rows[below > allowed]
            if not len(rows):
                return busy
        for _ in range(TURNS_PER_FLAVOR * (len(priced) - 1)):
            below = self._turn(priced, rows + part.start, need[rows])
            rows = rows[below > allowed]
            if not len(rows):
                break
        return self._busy(part)

    def _busy(self, part: slice) -> Ints:
        """Return the jobs of ``part`` that are never idle."""
        return np.flatnonzero(self._edge[part] < self._stands)

    def _begin(self, priced: Floats, rows: slice | Ints, need: Floats) -> None:
        """Put jobs on the edge from being idle to the cheapest flavor of sufficient rate."""
        rates = self._rates(rows)[:-1]
        bought = rates * self._bought(priced)
        bought *= (rates >= need) & (rates > 0)
        fast = _first_highest(bought)
        found = self._rate(fast, rows)
        self._edge[rows] = fast + self._stands
        self._rate_fast[rows], self._rate_slow[rows] = found, 0.0
        self._per_rate[rows] = 1.0 / found

    @staticmethod
    def _bought(priced: Floats) -> Floats:
        """Return the inverse of each price, without a division by 0."""
        bought: Floats = 1.0 / np.maximum(priced[:-1, None], FREE)
        return bought

    def _move(self, priced: Floats, rows: Ints, need: Floats) -> Floats:
        """Move jobs that are idle part of the time to the cheapest flavor of sufficient rate.

        Return how far other points lie below the new edges. Only points that are too slow can lie
        below. ``_turn`` usually gives the same edges, but takes twice as long.
        """
        rates = self._rates(rows)
        bought = rates[:-1] * self._bought(priced)
        bought *= rates[:-1] >= need
        fast = _first_highest(bought)
        found = self._rate(fast, rows)
        per_rate = 1.0 / found
        steep = priced.take(fast) * per_rate
        np.multiply(steep, rates[:-1], out=bought)
        bought -= priced[:-1, None]
        over: Floats = np.maximum(bought.max(axis=0), 0.0)
        self._edge[rows] = fast + self._stands
        self._rate_fast[rows], self._per_rate[rows] = found, per_rate
        self._steep[rows], self._over[rows] = steep, over
        return over

    def _rates(self, rows: slice | Ints) -> Floats:
        """Return the rates of the jobs ``rows``, as (flavors, jobs)."""
        if isinstance(rows, slice):
            return self.columns[:, rows]
        return self.columns.take(rows, axis=1)

    def _rate(self, flavors: Ints, rows: slice | Ints) -> Floats:
        """Return the rate of each job of ``rows`` on its flavor."""
        jobs = len(self.most)
        at = np.arange(jobs)[rows] if isinstance(rows, slice) else rows
        return self.columns.reshape(-1).take(flavors * jobs + at)

    def _scan(self, priced: Floats, part: slice, busy: Ints) -> Floats:
        """Return how far below its edge the lowest point of each job lies: about 0, or more.

        The bound of the costs needs the line through this point that is parallel to the edge. Edges
        from being idle begin at 0. Only the edges of the jobs ``busy`` begin elsewhere.
        """
        edge = self._edge[part]
        steep, over = self._steep[part], self._over[part]
        slow = priced.take(self._slow_of)
        (priced.take(self._fast_of) - slow).take(edge, out=steep, mode="clip")
        steep *= self._per_rate[part]
        over[:] = 0.0
        point = np.empty(len(steep))
        for price, rates in zip(priced[:-1], self.columns[:-1, part], strict=True):
            np.multiply(steep, rates, out=point)
            point -= price
            np.maximum(over, point, out=over)
        if not len(busy):
            return over
        below = over.copy()
        below[busy] += slow.take(edge[busy]) - steep[busy] * self._rate_slow[part][busy]
        return below

    def _turn(self, priced: Floats, rows: Ints, need: Floats) -> Floats:
        """Turn each job's edge to the job's lowest point.

        If several points are equally low, the edge is turned to the point of the first flavor.

        Return how far other points lie below the new edges.
        """
        rates = self._rates(rows)
        above = priced[:, None]
        points = self._steep.take(rows) * rates
        points -= above
        lowest = _first_highest(points)
        found = self._rate(lowest, rows)
        is_fast = found >= need
        edge = self._edge.take(rows)
        slow = np.where(is_fast, self._slow_of.take(edge), lowest)
        fast = np.where(is_fast, lowest, self._fast_of.take(edge))
        rate_slow = np.where(is_fast, self._rate_slow.take(rows), found)
        rate_fast = np.where(is_fast, found, self._rate_fast.take(rows))
        per_rate = 1.0 / (rate_fast - rate_slow)
        price_slow = priced.take(slow)
        steep = (priced.take(fast) - price_slow) * per_rate
        np.multiply(steep, rates, out=points)
        points -= above
        over = points.max(axis=0)
        self._edge[rows] = slow * len(priced) + fast
        self._rate_slow[rows], self._rate_fast[rows] = rate_slow, rate_fast
        self._per_rate[rows], self._steep[rows], self._over[rows] = per_rate, steep, over
        below: Floats = over - (steep * rate_slow - price_slow)
        return below


def _first_highest(points: Floats) -> Ints:
    """Return, for each column, the first row that has the column's highest value.

    For few, long rows, this takes a third of the time of numpy's argmax.
    """
    if points.shape[1] < LONG:
        soon: Ints = points.argmax(axis=0)
        return soon
    highest = points.max(axis=0)
    is_before = np.ones(len(highest), dtype=bool)
    first = np.zeros(len(highest), dtype=np.int16)
    for row in points[:-1]:
        is_before &= row < highest
        first += is_before
    return first.astype(np.int64)
