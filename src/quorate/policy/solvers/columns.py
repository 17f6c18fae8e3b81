"""Solves a linear program with very many columns by using only the columns that matter.

The program is solved with some of its columns. The prices of its rows then show which other columns
would raise the objective, and the best of these columns are added. When no column would raise the
objective, the answer is an optimum of the whole program. For example, some hundred jobs have tens
of thousands of pairs, but only hundreds of these pairs matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from quorate.policy.problem import Bools, Floats, Ints
from quorate.policy.solvers import lp

ROUNDS_MAX: Final = 200
"""After this many rounds, the program with all columns is solved."""
WORTH: Final = 1e-10
"""A column is added only if one unit of it raises the objective by at least this."""
JOINING: Final = 2
"""The most columns that one round adds, per row of the program."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Entries:
    """The entries of a program, each with its row and column."""

    rows: Ints
    columns: Ints
    values: Floats


def solve_with_few(program: lp.Program, few: Ints, start: lp.Basis) -> lp.Solution | lp.Status:
    """Return an optimum of ``program``, beginning with the columns ``few`` and the basis ``start``.

    All columns that are not in ``few`` must have the low limit 0 and no high limit.
    """
    entries = _Entries(
        rows=np.repeat(np.arange(len(program.row_low)), np.diff(program.starts)),
        columns=program.columns,
        values=program.values,
    )
    chosen, basis = few, start
    for _ in range(ROUNDS_MAX):
        found = lp.solve(_restricted(program, entries, chosen), start=basis)
        if isinstance(found, lp.Status):
            return found
        added = _better(program, entries, chosen, found.row_prices)
        if not len(added):
            x = np.zeros(len(program.gains))
            x[chosen] = found.x
            return lp.Solution(
                x=x,
                row_prices=found.row_prices,
                objective=found.objective,
                basis=found.basis,
            )
        chosen = np.concatenate((chosen, added))
        basis = lp.widened(found.basis, len(added))
    return lp.solve(program)


def _restricted(program: lp.Program, entries: _Entries, chosen: Ints) -> lp.Program:
    """Return the program with the chosen columns only, in their order."""
    place = np.full(len(program.gains), -1)
    place[chosen] = np.arange(len(chosen))
    column = place[entries.columns]
    kept = column >= 0
    counts = np.bincount(entries.rows[kept], minlength=len(program.row_low))
    return lp.Program(
        gains=program.gains[chosen],
        low=program.low[chosen],
        high=program.high[chosen],
        starts=np.concatenate(([0], np.cumsum(counts))),
        columns=column[kept],
        values=entries.values[kept],
        row_low=program.row_low,
        row_high=program.row_high,
    )


def _better(program: lp.Program, entries: _Entries, chosen: Ints, prices: Floats) -> Ints:
    """Return the columns that would raise the objective most, best first, then by number."""
    cost = np.bincount(entries.columns, entries.values * prices[entries.rows], len(program.gains))
    worth = program.gains - cost
    open_: Bools = worth > WORTH
    open_[chosen] = False
    found = np.flatnonzero(open_)
    return found[np.argsort(-worth[found], kind="stable")][: JOINING * len(program.row_low)]
