"""Approximates the first level of water filling by walls from prices, and finds a first basis.

From scratch, the simplex method takes one or two steps for every job before it makes progress. The
price method shows in a few passes which flavors each job uses; the linear program then only has to
make the level exact. If the program would take too much work, the level that prices reach is the
answer.
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
"""The most times that the level is lowered at rough prices."""
WITHIN: Final = (1e-3, 1e-6)
"""How exact the prices of each search are. Each search lowers the level to its wall, and by much
less than the search before it."""
ABOVE: Final = 1e-6
"""The program is first solved at a level this far above the found level, so that jobs miss the
level and the answer gives a wall."""
REACHED: Final = 1e-6
"""How far the level that prices reach may be below the true first level, relative to it."""
LOWERED_MAX: Final = 20
"""The most times that the level is lowered until prices reach it. One or two times are usual."""
TIED: Final = 1e-5
"""A job may be moved to another flavor if its GPUs cost at most this much more there, relative to
the worth of all GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Edges:
    """The choice of each job at ``prices`` for its ``need``.

    A job uses a slow and a fast flavor for its whole time, or a fast flavor for part of its time.
    In the second case, ``slow`` is the number of flavors, which stands for idle time. ``steep`` is
    the cost of one more unit of the job's rate. ``over`` is the worth of one more unit of its time.
    ``above`` is how much more each flavor costs than the cheapest one, for all GPUs of the job.
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
    """A level slightly above the best level, and a simplex basis to start the exact program.

    ``prices`` has the price of a GPU of each flavor; all GPUs together are worth 1.
    """

    level: float
    basis: lp.Basis
    prices: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Priced:
    """Shares of the columns that miss the highest level by at most ``REACHED``, and a wall."""

    shares: Floats
    wall: Wall


def near(scaled: Space, units: Floats, path: Path, first: Wall) -> Near | None:
    """Return a start near the highest level of ``path``; None if the price method fails.

    The basis is for the program without pairs that minimises the largest shortfall of a job, in the
    job's unit (``units``). The walls of this search are only as exact as its prices. So they lower
    the level, but do not prove that a job is stuck.
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
        if found.prices.any():  # At prices of 0, GPUs are not short, and the known wall is enough.
            prices = found.prices / float(found.prices @ demand.gpus)
        edges = _edges(demand, prices, min(found.level, 1.0) * target)
        level = _lowered(path, _wall(scaled, units, edges), level)
        target = path.at(level) / units
        if found.level >= 1.0 - CERTIFIED:
            break
    basis = _basis(scaled, demand, _balanced(demand, edges))
    return Near(level=level * (1.0 + ABOVE), basis=basis, prices=edges.prices)


def priced(scaled: Space, units: Floats, path: Path, begun: Near) -> Priced | None:
    """Return shares that, by prices alone, reach the highest level of ``path``.

    The shares may miss the level by at most ``REACHED``. Return None if the price method fails, or
    if the level was lowered ``LOWERED_MAX`` times.
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
    """Return the wall that follows from the choices of jobs at the prices of ``edges``."""
    loads = _loads(scaled)
    met = wall(scaled, loads * edges.steep, loads * edges.over, edges.prices)
    return replace(met, sums=met.sums / units)


def _lowered(path: Path, met: Wall, level: float) -> float:
    """Return the highest level within the wall ``met``, but at most ``level``."""
    return path.highest(met.sums[None], np.array([met.limit]), level)


def _loads(scaled: Space) -> Floats:
    counts = 1 if scaled.counts is None else scaled.counts
    return (scaled.problem.scales * counts).astype(np.float64)


def _demand(scaled: Space) -> Demand:
    """Return the demand of the jobs of ``scaled``, with their rates as a table (jobs, flavors)."""
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
    """Return edges after moving jobs from overfull flavors to other flavors.

    Only jobs that have idle time are moved, because a move costs them little. Equal jobs make equal
    choices, so many equal jobs may choose the same flavor; the simplex method would have to move
    them one by one.
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
    """Return a basis with jobs on their edges, and as few jobs as possible on a third flavor.

    A third flavor costs a job something, so the jobs for which it costs least get one. The number
    of these jobs is one less than the number of flavors, which is enough to fill all flavors. The
    column of the shortfall is in the basis, too.
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
    """Return the shares (job, flavor) that join the basis in addition to the edges.

    The flavor number after the last flavor stands for the job's idle time. The job number after the
    last job stands for idle GPUs. Each share links the prices of two flavors that were not linked
    before, or links the price of a flavor to idle time or to idle GPUs. Shares with less additional
    cost come first.
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
