"""The allocation with the largest product of rates, by an interior-point method.

The objective is concave and the constraints are linear (Gavel, section 3.1). So Newton's method on
the central path converges in about twenty steps. Each step solves a small system of equations for
every job, and one system with a row for each flavor. Many problems are solved side by side. The
answer includes a proof of how good it is: a logarithm is at most its tangent, and the prices give
an upper bound of the linear program with the tangents as its objective.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quorate.policy.problem import Floats, Ints

Bools = NDArray[np.bool_]

STEPS_MAX: Final = 120
"""The most steps of Newton's method; about twenty-five are usual."""
CLOSE: Final = 1e-12
NEAR: Final = 1e-10
"""The search stops when the mean logarithm of the rates can gain at most ``CLOSE``. If a step no
longer halves the possible gain, the search stops already at ``NEAR``, because such a gain is
rounding."""
LEFT: Final = 1e-3
"""A problem without one job starts from a point of the problem with all jobs: the last point at
which the mean logarithm could still gain at least this much."""
_EXACT: Final = 1e-11
_CENTRE: Final = 0.1
_SHORT_OF: Final = 0.995
_STIFF: Final = 1e-15


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Products:
    """The largest products of several problems: shares, rates, GPU prices, and possible gains.

    ``missing`` is an upper bound on the remaining gain of the mean logarithm of the rates in each
    problem.
    """

    shares: Floats
    rates: Floats
    prices: Floats
    missing: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Point:
    """Shares, unused time and unused GPUs, and a price for each of these; all are above 0.

    The unused amounts are stored. If they were computed as 1 minus the used part, only rounding
    errors would soon be left. After the removal of a job, the stored amounts may be less than the
    true amounts; the next steps assign the difference.
    """

    shares: Floats
    floors: Floats
    spare_time: Floats
    times: Floats
    spare: Floats
    prices: Floats

    def of(self, chosen: Bools | Ints) -> Point:
        """Return the point with only the chosen problems."""
        return Point(
            shares=self.shares[chosen],
            floors=self.floors[chosen],
            spare_time=self.spare_time[chosen],
            times=self.times[chosen],
            spare=self.spare[chosen],
            prices=self.prices[chosen],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Asked:
    """The jobs of each problem, and their rates and numbers of GPUs."""

    gains: Floats
    loads: Floats
    jobs: Floats
    gpus: Floats

    def of(self, chosen: Bools) -> _Asked:
        """Return only the chosen problems."""
        return _Asked(
            gains=self.gains[chosen],
            loads=self.loads[chosen],
            jobs=self.jobs[chosen],
            gpus=self.gpus,
        )


def largest_product(rates: Floats, scales: Floats, gpus: Floats) -> tuple[Products, Point]:
    """Return the allocation with the largest product of all rates, and a point near it.

    ``rates`` has the shape (jobs, flavors). Every job must make progress on some flavor, and every
    flavor must have GPUs. The point is a good start for problems without one of the jobs, because
    it is near their answers, but not on the boundary.
    """
    asked = _asked_of(rates, scales, gpus, np.ones((1, len(rates))))
    point = _begin(asked)
    best = _products_at(point, asked)
    on_the_way = point
    for _ in range(STEPS_MAX):
        before = float(best.missing[0])
        point = _step(point, asked)
        _keep(best, _products_at(point, asked), np.zeros(1, dtype=np.int64))
        missing = float(best.missing[0])
        if missing >= LEFT:
            on_the_way = point
        if missing <= CLOSE or (missing <= NEAR and missing > before / 2):
            break
    return best, on_the_way


def products_without(
    rates: Floats, scales: Floats, gpus: Floats, asked: Floats, start: Point
) -> Products:
    """Return, for each problem, the allocation with the largest product of its jobs' rates.

    ``asked`` has the shape (problems, jobs): 1 if the job is in the problem, else 0. ``start`` is a
    point near the answer for all jobs; the steps of the method assign the GPUs that removed jobs
    leave free.
    """
    problems = _asked_of(rates, scales, gpus, asked)
    point = start.of(np.zeros(len(asked), dtype=np.int64))
    best = _products_at(point, problems)
    open_ones = np.arange(len(asked))
    before = np.full(len(asked), np.inf)
    for _ in range(STEPS_MAX):
        missing = best.missing[open_ones]
        far = (missing > NEAR) | ((missing > CLOSE) & (missing < before[open_ones] / 2))
        before[open_ones] = missing
        open_ones, point, problems = open_ones[far], point.of(far), problems.of(far)
        if not len(open_ones):
            break
        point = _step(point, problems)
        _keep(best, _products_at(point, problems), open_ones)
    return best


def _asked_of(rates: Floats, scales: Floats, gpus: Floats, asked: Floats) -> _Asked:
    return _Asked(
        gains=asked[:, :, None] * rates[None], loads=asked * scales[None], jobs=asked, gpus=gpus
    )


def _begin(asked: _Asked) -> Point:
    problems, jobs, flavors = asked.gains.shape
    loaded = np.maximum(asked.loads.sum(axis=1), 1.0)[:, None]
    part = np.minimum(0.5 / flavors, 0.5 * asked.gpus / loaded)
    shares = np.repeat(part[:, None, :], jobs, axis=1)
    return Point(
        shares=shares,
        floors=1.0 / shares,
        spare_time=1.0 - shares.sum(axis=2),
        times=np.full((problems, jobs), 1.0),
        spare=asked.gpus - _load(asked.loads, shares),
        prices=1.0 / np.tile(asked.gpus, (problems, 1)),
    )


def _step(point: Point, asked: _Asked) -> Point:
    """Return the point after one step of Newton's method along the central path.

    First, each job's step is computed from a small system of equations. Then a system with a row
    for each flavor gives the change of prices by which the steps of all jobs fit together.
    """
    shares, floors, times, prices = point.shares, point.floors, point.times, point.prices
    loads = asked.loads
    slopes = _slopes(point, asked)
    aim = _CENTRE * _distance(point)[:, None]
    right = slopes - loads[:, :, None] * prices[:, None, :]
    right += aim[:, :, None] / shares - (aim / point.spare_time)[:, :, None]
    inverse = np.linalg.inv(_bends(point, slopes))
    alone = np.einsum("bmij,bmj->bmi", inverse, right)
    joined = np.einsum("bm,bmij->bij", loads**2, inverse)
    each = np.arange(shares.shape[2])
    joined[:, each, each] += point.spare / prices
    lacking = asked.gpus - _load(loads, shares) - point.spare
    lacking = np.where(lacking > _EXACT * asked.gpus, lacking, 0.0)
    asked_for = _load(loads, alone) + aim / prices - point.spare - lacking
    dearer = np.linalg.solve(joined, asked_for[:, :, None])[:, :, 0]
    moved = alone - np.einsum("bmij,bm,bj->bmi", inverse, loads, dearer)
    used, taken = moved.sum(axis=2), _load(loads, moved)
    return _moved(
        point,
        Point(
            shares=moved,
            floors=(aim[:, :, None] - floors * moved) / shares - floors,
            spare_time=-used,
            times=(aim + times * used) / point.spare_time - times,
            spare=lacking - taken,
            prices=dearer,
        ),
    )


def _moved(point: Point, by: Point) -> Point:
    """Return ``point``, moved in the direction ``by`` so far that all values stay above 0."""
    length = np.minimum.reduce(
        [
            _reach(point.shares, by.shares),
            _reach(point.floors, by.floors),
            _reach(point.spare_time, by.spare_time),
            _reach(point.times, by.times),
            _reach(point.spare, by.spare),
            _reach(point.prices, by.prices),
        ]
    )
    cells, rows = length[:, None, None], length[:, None]
    return Point(
        shares=point.shares + cells * by.shares,
        floors=point.floors + cells * by.floors,
        spare_time=point.spare_time + rows * by.spare_time,
        times=point.times + rows * by.times,
        spare=point.spare + rows * by.spare,
        prices=point.prices + rows * by.prices,
    )


def _slopes(point: Point, asked: _Asked) -> Floats:
    """Return the gain in the logarithm of the job's rate for one more unit of each share."""
    rates = np.einsum("bmj,bmj->bm", asked.gains, point.shares)
    found: Floats = asked.gains / np.where(asked.jobs > 0, rates, 1.0)[:, :, None]
    return found


def _load(loads: Floats, shares: Floats) -> Floats:
    """Return the number of GPUs of each flavor that the shares take."""
    found: Floats = np.einsum("bm,bmj->bj", loads, shares)
    return found


def _distance(point: Point) -> Floats:
    """Return how far each problem is from its optimum.

    At the optimum, each value or its price is zero. The result is the mean of the products of the
    values with their prices.
    """
    total = (
        (point.shares * point.floors).sum(axis=(1, 2))
        + (point.spare_time * point.times).sum(axis=1)
        + (point.spare * point.prices).sum(axis=1)
    )
    count = point.shares[0].size + point.spare_time[0].size + point.spare[0].size
    found: Floats = total / count
    return found


def _bends(point: Point, slopes: Floats) -> Floats:
    """Return the second derivatives of each job's part of the objective, with the barriers."""
    found: Floats = np.einsum("bmi,bmj->bmij", slopes, slopes)
    found += (point.times / point.spare_time)[:, :, None, None]
    each = np.arange(slopes.shape[2])
    found[:, :, each, each] += point.floors / point.shares
    # If many shares are equally good, the matrix is nearly singular, so these shares are kept
    # fixed.
    steepest = found[:, :, each, each].max(axis=2)
    found[:, :, each, each] += (_STIFF * steepest)[:, :, None]
    return found


def _reach(values: Floats, moved: Floats) -> Floats:
    """Return the part of a step that each problem can take so that all ``values`` stay above 0."""
    ratio = np.where(moved < 0, -values / np.minimum(moved, -1e-300), np.inf)
    least = ratio.reshape(len(values), -1).min(axis=1)
    found: Floats = np.minimum(1.0, _SHORT_OF * least)
    return found


def _products_at(point: Point, asked: _Asked) -> Products:
    """Return the result at ``point``, with an upper bound on its distance from the optimum.

    Let rate' be the rates of any allocation. Then the sum of log(rate') is at most the sum of
    log(rate) + rate' / rate - 1. The sum of rate' / rate is at most the worth of all GPUs and time
    (weak duality).
    """
    dear = asked.loads[:, :, None] * point.prices[:, None, :]
    times = np.maximum((_slopes(point, asked) - dear).max(axis=2), 0.0)
    jobs_in = asked.jobs.sum(axis=1)
    missing = point.prices @ asked.gpus + times.sum(axis=1) - jobs_in
    return Products(
        shares=point.shares.copy(),
        rates=np.einsum("bmj,bmj->bm", asked.gains, point.shares),
        prices=point.prices.copy(),
        missing=np.maximum(missing / np.maximum(jobs_in, 1.0), 0.0),
    )


def _keep(best: Products, found: Products, places: Ints) -> None:
    """Replace the products of ``best`` at ``places`` if those of ``found`` can gain less."""
    wins = found.missing < best.missing[places]
    put = places[wins]
    best.shares[put] = found.shares[wins]
    best.rates[put] = found.rates[wins]
    best.prices[put] = found.prices[wins]
    best.missing[put] = found.missing[wins]
