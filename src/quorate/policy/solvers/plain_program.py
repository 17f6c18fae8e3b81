"""Finds the highest common level of all jobs by one linear program.

It is used for few jobs, if a faster method fails, and to check the other methods in tests.

Needs that are not linear in the level are replaced by their tangents. Tangents lie below the needs,
so the level of the program is an upper bound. The next program has the tangents at the level that
the last program's shares reach. If the needs are linear, one program is enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from quorate.policy.problem import Bools, Floats, Ints
from quorate.policy.solvers import lp
from quorate.policy.solvers.columns import solve_with_few
from quorate.policy.solvers.levels import CERTIFIED, Demand, Levelled, Needs
from quorate.policy.solvers.rough import rough

PAIRS_AT_ONCE: Final = 2_000
"""If there are more shares of pairs than this, the program begins with some of these shares."""
BEGINNING: Final = 5
"""The number of rounds of rough choices for the first basis. More rounds do not help, because the
simplex method does the rest."""
WIDEST: Final = 1e7
"""A job's row is divided by the job's need. But the divisor is at least the job's fastest rate over
this factor, because a solver does not accept larger numbers."""
STEEPEST: Final = 1e4
"""The divisor of a job's row is also at least the growth of the job's need per unit of level, over
this factor. If the need is 0 or less, the divisor is at least the growth itself."""
NARROWEST: Final = 1e5
"""If a job's fastest rate is more than this many times the job's need, rounding may lose the need.
``_top_up`` then gives the job the missing rate."""
TANGENTS_MAX: Final = 40
USUAL: Final = 6
"""The usual number of programs for needs that are not linear; ``TANGENTS_MAX`` is the most. After
the usual number, the solver's tolerance is reduced, because its rounding may be why the level was
not reached."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Shares:
    """The shares that can be above 0. Each share has a column, with entries in the program's rows.

    Each entry belongs to a row of the demand (``entry_of``): a whole share adds ``rate`` to the
    rate of this row, and ``time`` to its time.
    """

    row: Ints
    flavor: Ints
    loads: Floats
    entry_of: Ints
    column: Ints
    rate: Floats
    time: Floats


def level_by_program(
    demand: Demand, needs: Needs, worth: Floats | None = None
) -> Levelled | lp.Status:
    """Return the highest level with shares that reach it, or the status of a failed program.

    Every row of ``demand`` must make progress on some flavor that has GPUs. If needs are not
    linear, and the level has not reached its bound after ``TANGENTS_MAX`` programs, the result is
    ``Status.FAILED``. If ``worth`` is given, the result has, among all shares that reach the level,
    the largest sum of rate times worth. With more than ``PAIRS_AT_ONCE`` shares of pairs, ``worth``
    is ignored.
    """
    shares = _shares(demand)
    level = needs.reached(_equal_rates(demand))
    bound, start = np.inf, None
    for number in range(TANGENTS_MAX):
        unit = abs(level) if level != 0 else 1.0
        tangent = needs.at(level)
        program = _program(demand, shares, tangent, unit)
        found = _solve(demand, shares, tangent, program, (start, number >= USUAL))
        if isinstance(found, lp.Status):
            return found
        start = found.basis
        higher = unit * float(found.x[-1])
        bound = min(bound, level + higher)
        given = _spread(demand, shares, np.maximum(found.x[:-1], 0.0))
        need = tangent[0] + higher * tangent[1]
        _top_up(demand, given, need)
        given = _feasible(demand, given)
        level = needs.reached(rates_of(demand, given))
        bound = max(bound, level)
        if _is_certified(level, bound):
            if worth is not None and not _are_many(shares, demand):
                most = _worth_most(demand, shares, (program, found), worth)
                if most is not None:
                    _top_up(demand, most, need)
                    most = _feasible(demand, most)
                reached = level if most is None else needs.reached(rates_of(demand, most))
                if most is not None and _is_certified(reached, bound):
                    given, level = most, reached
            return Levelled(
                shares=given,
                level=level,
                bound=bound,
                prices=unit * np.maximum(found.row_prices[-len(demand.gpus) :], 0.0),
                passes=number + 1,
            )
    return lp.Status.FAILED


def _are_many(shares: _Shares, demand: Demand) -> bool:
    return int(np.count_nonzero(shares.row >= len(demand.rates))) > PAIRS_AT_ONCE


def _is_certified(level: float, bound: float) -> bool:
    return bound - level <= CERTIFIED * max(abs(bound), abs(level))


def _worth_most(
    demand: Demand,
    shares: _Shares,
    solved: tuple[lp.Program, lp.Solution],
    worth: Floats,
) -> Floats | None:
    """Return the shares with most ``worth`` at the level of ``solved``; None if the solver fails.

    ``solved`` has a program and its optimum, from which the search continues.
    """
    program, found = solved
    columns = len(shares.row)
    gains = np.bincount(shares.column, shares.rate * worth[shares.entry_of], columns)
    program = replace(
        program,
        gains=np.append(gains / gains.max(), 0.0),
        low=np.append(np.zeros(columns), found.x[-1]),
    )
    most = lp.solve(program, start=found.basis, is_exact=True)
    if isinstance(most, lp.Status):
        return None
    return _spread(demand, shares, np.maximum(most.x[:-1], 0.0))


def _solve(
    demand: Demand,
    shares: _Shares,
    tangent: tuple[Floats, Floats],
    program: lp.Program,
    way: tuple[lp.Basis | None, bool],
) -> lp.Solution | lp.Status:
    """Return the optimum of the program of a tangent.

    If there are very many pairs, the program uses only the pairs that matter.

    ``way`` has the basis to start from, and whether the tolerance is ``lp.EXACT``.
    """
    start, is_exact = way
    is_alone = np.append(shares.row < len(demand.rates), True)
    if _are_many(shares, demand):
        few = np.flatnonzero(is_alone)
        return solve_with_few(program, few, _first(demand, shares, tangent, is_alone[is_alone]))
    start = start or _first(demand, shares, tangent, is_alone)
    return lp.solve(program, start=start, is_exact=is_exact)


def rates_of(demand: Demand, shares: Floats) -> Floats:
    """Return the rate that each row of ``demand`` has with ``shares``."""
    rows = len(demand.rates)
    rates: Floats = np.einsum("mj,mj->m", demand.rates, shares[:rows])
    pairs = demand.together
    if pairs is not None:
        of_pairs = np.einsum("pjk,pj->pk", pairs.rates, shares[rows:])
        rates += np.bincount(pairs.first, of_pairs[:, 0], rows)
        rates += np.bincount(pairs.second, of_pairs[:, 1], rows)
    return rates


def _top_up(demand: Demand, shares: Floats, need: Floats) -> None:
    """Raise the rates of jobs with tiny needs to their needs, on their fastest flavors."""
    rows = len(demand.rates)
    rates = np.where(demand.gpus > 0, demand.rates, 0.0)
    fastest = rates.max(axis=1)
    few = np.flatnonzero((need > 0) & (fastest > NARROWEST * need))
    if not len(few):
        return
    short = np.maximum(need - rates_of(demand, shares), 0.0)[few]
    shares[:rows][few, rates[few].argmax(axis=1)] += short / fastest[few]


def _equal_rates(demand: Demand) -> Floats:
    """Return each job's rate on an equal part of each flavor, but with at most its whole time."""
    part = demand.gpus / demand.loads.sum()
    rates: Floats = demand.rates @ (part / max(1.0, float(part.sum())))
    return rates


def _shares(demand: Demand) -> _Shares:
    """Return the useful shares: those of flavors with GPUs, on which the row makes progress."""
    there = demand.gpus > 0
    row, flavor = np.nonzero((demand.rates > 0) & there)
    alone = len(row)
    rate, loads = demand.rates[row, flavor], demand.loads[row]
    time = np.ones(alone)
    entry_of, column = row, np.arange(alone)
    pairs = demand.together
    if pairs is not None:
        pair, on = np.nonzero((pairs.rates > 0).any(axis=2) & there)
        more = np.arange(alone, alone + len(pair))
        entry_of = np.concatenate((row, pairs.first[pair], pairs.second[pair]))
        column = np.concatenate((column, more, more))
        rate = np.concatenate((rate, pairs.rates[pair, on, 0], pairs.rates[pair, on, 1]))
        time = np.concatenate((time, pairs.times[pair, 0], pairs.times[pair, 1]))
        row = np.concatenate((row, len(demand.rates) + pair))
        flavor = np.concatenate((flavor, on))
        loads = np.concatenate((loads, pairs.loads[pair]))
    kept = time > 0
    return _Shares(
        row=row,
        flavor=flavor,
        loads=loads,
        entry_of=entry_of[kept],
        column=column[kept],
        rate=rate[kept],
        time=time[kept],
    )


def _first(
    demand: Demand, shares: _Shares, tangent: tuple[Floats, Floats], is_alone: Bools
) -> lp.Basis:
    """Return the basis of an allocation in which every job has one flavor, and one flavor is full.

    ``is_alone`` is True for the columns of single jobs and for the column of the level, and False
    for columns of pairs.
    """
    rows, flavors = demand.rates.shape
    needy = (tangent[0] != 0) | (tangent[1] > 0)
    begun = rough(demand, np.maximum(tangent[0], 0.0), BEGINNING)
    alone = shares.row < rows
    row = shares.row[alone]
    columns = np.zeros(len(is_alone), dtype=bool)
    columns[is_alone] = np.append(needy[row] & (begun.flavor[row] == shares.flavor[alone]), [True])
    count = int(needy.sum())
    basic = np.concatenate((np.zeros(count, dtype=bool), np.ones(rows + flavors, dtype=bool)))
    basic[count + rows + begun.fullest] = False
    return lp.basis(columns, basic, low=np.arange(len(basic)) < count)


def _program(
    demand: Demand, shares: _Shares, tangent: tuple[Floats, Floats], unit: float
) -> lp.Program:
    """Return the program. Its last column is the rise above the tangents' level, in ``unit``.

    The row of a job's need is divided by the need, up to ``WIDEST``, so that the program is as
    exact for fast jobs as for slow jobs. A job that needs no rate at any level has no row.
    """
    need, growth = tangent
    about = np.maximum(np.abs(need), unit * growth / np.where(need > 0, STEEPEST, 1.0))
    rows, flavors = demand.rates.shape
    about = np.where(about > 0, np.maximum(about, demand.rates.max(axis=1) / WIDEST), 0.0)
    columns = len(shares.row)
    needy = np.flatnonzero(about > 0)
    place = np.full(rows, -1)
    place[needy] = np.arange(len(needy))
    of = place[shares.entry_of]
    has = of >= 0
    time_row, flavor_row = len(needy), len(needy) + rows
    row = np.concatenate(
        (of[has], place[needy], time_row + shares.entry_of, flavor_row + shares.flavor)
    )
    column = np.concatenate(
        (shares.column[has], np.full(len(needy), columns), shares.column, np.arange(columns))
    )
    value = np.concatenate(
        (
            (shares.rate / np.where(about > 0, about, 1.0)[shares.entry_of])[has],
            -unit * growth[needy] / about[needy],
            shares.time,
            shares.loads,
        )
    )
    kept = np.flatnonzero(value)
    order = kept[np.argsort(row[kept], kind="stable")]
    counts = np.bincount(row[order], minlength=flavor_row + flavors)
    infinite = np.full(rows + flavors, lp.INFINITE)
    return lp.Program(
        gains=np.append(np.zeros(columns), 1.0),
        low=np.append(np.zeros(columns), -lp.INFINITE),
        high=np.full(columns + 1, lp.INFINITE),
        starts=np.concatenate(([0], np.cumsum(counts))),
        columns=column[order],
        values=value[order],
        row_low=np.concatenate((need[needy] / about[needy], -infinite)),
        row_high=np.concatenate(
            (np.full(len(needy), lp.INFINITE), np.ones(rows), demand.gpus.astype(np.float64))
        ),
    )


def _spread(demand: Demand, shares: _Shares, x: Floats) -> Floats:
    pairs = 0 if demand.together is None else len(demand.together.first)
    given = np.zeros((len(demand.rates) + pairs, len(demand.gpus)))
    given[shares.row, shares.flavor] = x
    return given


def _feasible(demand: Demand, shares: Floats) -> Floats:
    """Return shares that break no constraint; if one is broken, reduce all shares slightly."""
    rows = len(demand.rates)
    time = shares.sum(axis=1)
    of_rows = time[:rows].copy()
    used = demand.loads @ shares[:rows]
    pairs = demand.together
    if pairs is not None:
        of_rows += np.bincount(pairs.first, time[rows:] * pairs.times[:, 0], rows)
        of_rows += np.bincount(pairs.second, time[rows:] * pairs.times[:, 1], rows)
        used = used + pairs.loads @ shares[rows:]
    there = demand.gpus > 0
    over = max(float(of_rows.max()), float(np.max(used[there] / demand.gpus[there])))
    return shares / over if over > 1.0 else shares
