"""The first level of water filling, approximately: walls from prices, and a basis to begin with.

From scratch, the simplex method takes a step or two for every job before it makes progress. Prices
give in a few passes which flavors each job uses; the program only has to make that exact. If that
takes too much work, the level that prices reach is the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from quorate.policy.allocation_space import Space
from quorate.policy.problem import Bools, Floats, Ints
from quorate.policy.solvers import lp
from quorate.policy.solvers.cheapest import Cheapest
from quorate.policy.solvers.filling import Path
from quorate.policy.solvers.levels import CERTIFIED, Demand, Linear
from quorate.policy.solvers.prices import level_by_prices
from quorate.policy.solvers.rough import rough_by_some
from quorate.policy.solvers.walls import Wall, wall

STEPS: Final = 2
"""How often the level is lowered at rough prices."""
WITHIN: Final = (1e-3, 1e-6)
"""How exact the prices of each search are. Each lowers the level to its wall, and by much less than
the one before."""
ABOVE: Final = 1e-6
"""How far above the level found the program is first solved: enough to be short."""
REACHED: Final = 1e-6
"""How far from the first level the level that prices reach may be."""
LOWERED_MAX: Final = 20
"""How often the level may be lowered until prices reach it; once or twice is usual."""
TIED: Final = 1e-5
"""How much more a job may pay on another flavor, relative to the worth of all GPUs, and still be
moved there."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Edges:
    """The choice of each job at ``prices`` for its ``need``.

    All its time on a slow and a fast flavor, or part of it on a fast one; ``slow`` is then the
    number of flavors. ``steep`` is the cost of more of its rate, ``over`` the worth of more of its
    time, and ``above`` the cost of each flavor above the cheapest, for all its GPUs.
    """

    prices: Floats
    need: Floats
    slow: Ints
    fast: Ints
    steep: Floats
    over: Floats
    above: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Near:
    """An upper bound slightly above the best level, and a simplex basis to start the exact LP.

    ``prices`` are those of a GPU of each flavor, all GPUs together being worth 1.
    """

    level: float
    basis: lp.Basis
    prices: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Priced:
    """Shares of the columns that reach the highest level but for ``REACHED``, and its wall."""

    shares: Floats
    wall: Wall


def near(scaled: Space, units: Floats, path: Path, first: Wall) -> Near | None:
    """Return a start near the highest level of ``path``; None if the passes ran out.

    The program is that of the least part of their ``units`` by which jobs miss a level, without
    pairs. Walls that are found on the way are as exact as the prices; they give the direction down,
    and prove no job stuck.
    """
    demand = _demand(scaled)
    level = _lowered(path, first, np.inf)
    target = path.at(level) / units
    prices = rough_by_some(demand, target).prices
    prices /= float(prices @ demand.gpus)
    edges = _edges(demand, prices, target)
    for _ in range(STEPS):
        level = _lowered(path, _wall(scaled, units, edges), level)
        target = path.at(level) / units
        edges = _edges(demand, prices, target)
    for within in WITHIN:
        needs = Linear(floor=np.zeros(len(target)), growth=target)
        found = level_by_prices(demand, needs, within=within, start=prices)
        if found is None:
            return None
        if found.prices.any():  # Else it is not GPUs that are short: what was known is enough.
            prices = found.prices / float(found.prices @ demand.gpus)
        edges = _edges(demand, prices, min(found.level, 1.0) * target)
        level = _lowered(path, _wall(scaled, units, edges), level)
        target = path.at(level) / units
        if found.level >= 1.0 - CERTIFIED:
            break
    basis = _basis(scaled, demand, _balanced(demand, edges))
    return Near(level=level * (1.0 + ABOVE), basis=basis, prices=edges.prices)


def priced(scaled: Space, units: Floats, path: Path, begun: Near) -> Priced | None:
    """Return what prices alone reach of the highest level of ``path``.

    None if the passes ran out.
    """
    demand, level, prices = _demand(scaled), begun.level, begun.prices
    for _ in range(LOWERED_MAX):
        target = path.at(level) / units
        needs = Linear(floor=np.zeros(len(target)), growth=target)
        found = level_by_prices(demand, needs, start=prices)
        if found is None:
            return None
        if found.prices.any():
            prices = found.prices / float(found.prices @ demand.gpus)
        met = _wall(scaled, units, _edges(demand, prices, min(found.level, 1.0) * target))
        if found.level >= 1.0 - REACHED:
            return Priced(shares=found.shares[scaled.rows, scaled.flavors], wall=met)
        level = _lowered(path, met, level)
    return None


def _wall(scaled: Space, units: Floats, edges: _Edges) -> Wall:
    """Return the wall of the choices of jobs at some prices."""
    loads = _loads(scaled)
    met = wall(scaled, loads * edges.steep, loads * edges.over, edges.prices)
    return replace(met, sums=met.sums / units)


def _lowered(path: Path, met: Wall, level: float) -> float:
    """Return the highest level up to ``level`` that is within a wall."""
    return path.highest(met.sums[None], np.array([met.limit]), level)


def _loads(scaled: Space) -> Floats:
    counts = 1 if scaled.counts is None else scaled.counts
    return (scaled.problem.scales * counts).astype(np.float64)


def _demand(scaled: Space) -> Demand:
    """Return the demand of jobs: the space as a table."""
    rates = np.zeros(scaled.problem.shape)
    rates[scaled.rows, scaled.flavors] = scaled.rates
    return Demand(rates=rates, loads=_loads(scaled), gpus=scaled.problem.gpus)


def _edges(demand: Demand, prices: Floats, need: Floats) -> _Edges:
    jobs, flavors = demand.rates.shape
    need = np.minimum(need, demand.rates.max(axis=1))
    chosen = Cheapest(demand).choose(prices, need, need)
    slow, fast = np.divmod(chosen.edges.astype(np.int64), flavors + 1)
    rates, priced = np.column_stack((demand.rates, np.zeros(jobs))), np.append(prices, 0.0)
    rows = np.arange(jobs)
    steep = (priced[fast] - priced[slow]) / (rates[rows, fast] - rates[rows, slow])
    worth = steep[:, None] * rates - priced
    over = worth.max(axis=1)
    above = demand.loads[:, None] * (over[:, None] - worth[:, :-1])
    return _Edges(
        prices=prices, need=need, slow=slow, fast=fast, steep=steep, over=over, above=above
    )


def _balanced(demand: Demand, edges: _Edges) -> _Edges:
    """Return edges with jobs moved from flavors that are too full to others that are not.

    Only jobs with idle time, for which it makes little difference. Many equal jobs make equal
    choices; without this the simplex method moves them one by one.
    """
    jobs, flavors = demand.rates.shape
    rows = np.arange(jobs)
    rates = np.column_stack((demand.rates, np.zeros(jobs)))
    slow_rate, fast_rate = rates[rows, edges.slow], rates[rows, edges.fast]
    on_fast = demand.loads * (edges.need - slow_rate) / (fast_rate - slow_rate)
    used = np.bincount(edges.fast, on_fast, flavors + 1)
    used += np.bincount(edges.slow, demand.loads - on_fast, flavors + 1)
    can = (edges.above <= TIED) & (edges.slow == flavors)[:, None]
    can &= (demand.rates >= edges.need[:, None]) & (demand.rates > 0)
    can[rows, edges.fast] = False
    spare = demand.gpus - used[:flavors]
    fast = edges.fast.copy()
    row, flavor = np.nonzero(can)
    order = np.argsort(edges.above[row, flavor], kind="stable")
    for one, to in zip(row[order].tolist(), flavor[order].tolist(), strict=True):
        at, asked = int(fast[one]), demand.loads[one] * edges.need[one]
        leaves, takes = asked / demand.rates[one, at], asked / demand.rates[one, to]
        if spare[at] + leaves <= 0.0 and takes <= spare[to]:
            spare[at] += leaves
            spare[to] -= takes
            fast[one] = to
    return replace(edges, fast=fast)


def _basis(scaled: Space, demand: Demand, edges: _Edges) -> lp.Basis:
    """Return the basis in which jobs are on their edges, and as few as possible on a third flavor.

    The third flavor goes to the jobs that lose least by it. One for every flavor but one is enough
    to fill all flavors; the shortfall is in the basis, too.
    """
    jobs, flavors = demand.rates.shape
    rows = np.arange(jobs)
    column = np.full((jobs, flavors), -1)
    column[scaled.rows, scaled.flavors] = np.arange(len(scaled.rows))
    columns = np.zeros(len(scaled.rows) + 1, dtype=bool)
    limits = np.zeros(2 * jobs + flavors, dtype=bool)
    moves = edges.slow < flavors
    columns[column[rows, edges.fast]] = True
    columns[column[rows[moves], edges.slow[moves]]] = True
    columns[-1] = True
    limits[jobs : 2 * jobs] = ~moves
    for row, flavor in _marginal(demand, edges, column >= 0):
        if row == jobs:
            limits[2 * jobs + flavor] = True
        elif flavor == flavors:
            limits[jobs + row] = True
        else:
            columns[column[row, flavor]] = True
    return lp.basis(columns, limits, low=np.arange(len(limits)) < jobs)


def _marginal(demand: Demand, edges: _Edges, can: Bools) -> list[tuple[int, int]]:
    """Return which shares (job, flavor) join the basis beside the edges.

    A flavor after the last one is the job's idle time, a job after the last one the idle GPUs. Each
    share joins two flavors whose prices are not joined so far, or a flavor with something that
    costs nothing; of those that do, the one with the least cost above the cheapest is taken.
    """
    jobs, flavors = demand.rates.shape
    rows, moves = np.arange(jobs), edges.slow < flavors
    above = np.full((jobs + 1, flavors + 1), np.inf)
    above[:jobs, :flavors] = np.where(can, edges.above, np.inf)
    above[rows, edges.fast] = np.inf
    above[rows[moves], edges.slow[moves]] = np.inf
    above[rows[moves], flavors] = (demand.loads * edges.over)[moves]
    above[jobs, :flavors] = edges.prices * demand.gpus
    part = list(range(flavors + 1))
    found: list[tuple[int, int]] = []
    if flavors == 1:
        return found
    for place in np.argsort(above, axis=None, kind="stable").tolist():
        row, flavor = divmod(place, flavors + 1)
        one = flavor if row == jobs else int(edges.fast[row])
        other = flavors if row == jobs else int(edges.slow[row]) if flavor == flavors else flavor
        if part[one] == part[other]:
            continue
        found.append((row, flavor))
        if len(found) == flavors - 1:
            break
        part = [part[one] if each == part[other] else each for each in part]
    return found
