"""Solves linear programs with HiGHS. Only this module uses HiGHS.

The same program has the same answer each time: HiGHS runs with one thread, no time limit and a
fixed seed. If there is no optimum, the status is returned as a value; no warning is printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, cast

import highspy
import numpy as np

from quorate.policy.problem import Bools, Floats, Ints

Basis = highspy.HighsBasis
INFINITE: Final = float("inf")
EXACT: Final = 1e-10
"""The tolerance of constraints and prices of a small program."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """A program: maximise ``gains @ x``, with x from ``low`` to ``high`` and rows in their limits.

    The rows are sparse: row r has entries in the columns ``columns[starts[r]:starts[r + 1]]``, with
    the corresponding values. ``whole`` has the columns that must be whole numbers.
    """

    gains: Floats
    low: Floats
    high: Floats
    starts: Ints
    columns: Ints
    values: Floats
    row_low: Floats
    row_high: Floats
    whole: Ints | None = None


class Status(StrEnum):
    """The reason why a program has no answer."""

    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """An optimum, and how much the objective gains from one more unit of each row's limit."""

    x: Floats
    row_prices: Floats
    objective: float
    basis: Basis


_CHOSEN: Final = 0
_PRIMAL: Final = 4
"""Values of HiGHS's option for the simplex method: HiGHS chooses the method, or uses the primal
one."""
_PLACES: Final = (
    highspy.HighsBasisStatus.kBasic,
    highspy.HighsBasisStatus.kLower,
    highspy.HighsBasisStatus.kUpper,
)
_STATUSES: Final = {
    highspy.HighsModelStatus.kInfeasible: Status.INFEASIBLE,
    highspy.HighsModelStatus.kUnbounded: Status.UNBOUNDED,
    highspy.HighsModelStatus.kUnboundedOrInfeasible: Status.INFEASIBLE,
    highspy.HighsModelStatus.kIterationLimit: Status.STOPPED,
}

STEPS_EACH_MAX: Final = 100
"""The most steps of a method per row and column. One step per row and column is plenty; the limit
ends a method that would run for ever in a cycle."""

NODES_MAX: Final = 100_000
"""The most nodes that the search for whole numbers visits. The limit is a count and not a time, so
that equal programs have equal answers."""
_EXACT: Final = (
    ("mip_rel_gap", 0.0),
    ("mip_abs_gap", 0.0),
    ("mip_feasibility_tolerance", 1e-9),
    ("mip_max_nodes", NODES_MAX),
)


def solve(
    program: Program,
    start: Basis | None = None,
    *,
    is_exact: bool = False,
) -> Solution | Status:
    """Return an optimum of ``program``, or a status that says why there is none.

    ``start`` is a basis of the program, or of a program with the same rows and columns. The primal
    simplex method continues from this basis, which is fast if little has changed. The search for
    whole numbers ends when the answer is proved, or after ``NODES_MAX`` nodes. If ``is_exact``, the
    tolerance is ``EXACT``; otherwise it is a thousand times as large.
    """
    highs = _taken()
    _make_quiet(highs)
    if is_exact:
        _keep_closely(highs)
    for name, value in _EXACT if program.whole is not None else ():
        highs.setOptionValue(name, value)
    _pass(highs, program)
    if start is not None:
        highs.setOptionValue("simplex_strategy", _PRIMAL)
        # A caller that passes a basis has rows of similar sizes already, and scaling the rows would
        # take as long as a few steps.
        highs.setOptionValue("simplex_scale_strategy", 0)
        highs.setBasis(start)
    found = _answer(highs)
    highs.clear()
    _SPARE.append(highs)
    return found


def _answer(highs: highspy.Highs) -> Solution | Status:
    highs.run()
    status = highs.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        return _STATUSES.get(status, Status.FAILED)
    found = highs.getSolution()
    return Solution(
        x=np.asarray(found.col_value, dtype=np.float64),
        row_prices=np.asarray(found.row_dual, dtype=np.float64),
        objective=float(highs.getObjectiveValue()),
        basis=highs.getBasis(),
    )


def basis(columns: Bools, rows: Bools, *, low: Bools) -> Basis:
    """Return a basis that has the given columns and rows.

    The basis must have as many columns and rows as the program has rows. A row outside the basis is
    at its low limit if it is in ``low``, else at its high limit. Columns outside the basis are at
    their low limit.
    """
    found = highspy.HighsBasis()
    basic, lower, upper = _PLACES
    found.col_status = [basic if is_in else lower for is_in in columns.tolist()]
    found.row_status = [
        basic if is_in else lower if is_low else upper
        for is_in, is_low in zip(rows.tolist(), low.tolist(), strict=True)
    ]
    return _valid(found)


def widened(start: Basis, columns: int) -> Basis:
    """Return the basis of the program with ``columns`` more columns, all outside the basis."""
    _, lower, _ = _PLACES
    found = highspy.HighsBasis()
    found.col_status = [*start.col_status, *([lower] * columns)]
    found.row_status = list(start.row_status)
    return _valid(found)


def _valid(found: Basis) -> Basis:
    """Mark a basis as valid, and return it; a check by HiGHS would cost as much as some steps."""
    found.valid = True
    found.alien = False
    return found


_SPARE: Final[list[highspy.Highs]] = []
"""Solver objects for reuse, without a program or options: at most one for each thread that solves.
Without reuse, making and dropping a solver object would take as long as a program of thirty jobs.
"""


def _taken() -> highspy.Highs:
    """Return a solver that no other caller has: an unused solver, or else a new one."""
    try:
        return _SPARE.pop()  # ``pop`` is atomic, so no two threads get the same solver.
    except IndexError:
        return _new()


def _new() -> highspy.Highs:
    return highspy.Highs()  # type: ignore[no-untyped-call] # its constructor has no annotation


def _make_quiet(highs: highspy.Highs) -> None:
    """Make a solver print nothing and give the same answer each time."""
    for name, value in (
        ("output_flag", False),
        ("threads", 1),
        ("random_seed", 0),
        ("solver", "simplex"),
    ):
        highs.setOptionValue(name, value)


def _keep_closely(highs: highspy.Highs) -> None:
    for name in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
        highs.setOptionValue(name, EXACT)


def _pass(highs: highspy.Highs, program: Program) -> None:
    """Pass ``program`` to ``highs`` as arrays; passing lists would take three times as long."""
    columns = len(program.gains)
    steps_max = STEPS_EACH_MAX * (columns + len(program.row_low))
    for name in ("simplex_iteration_limit", "ipm_iteration_limit"):
        highs.setOptionValue(name, steps_max)
    kinds = np.zeros(columns, dtype=np.int32)
    if program.whole is not None:
        kinds[program.whole] = int(highspy.HighsVarType.kInteger)
    highs.passModel(
        columns,
        len(program.row_low),
        len(program.values),
        int(highspy.MatrixFormat.kRowwise),
        int(highspy.ObjSense.kMaximize),
        0.0,
        program.gains,
        program.low,
        program.high,
        program.row_low,
        program.row_high,
        program.starts.astype(np.int32),
        program.columns.astype(np.int32),
        program.values,
        kinds,
    )


class Standing:
    """A program that is solved many times, with different lower limits of its first rows.

    The first solution starts from the basis ``start``, if one is given. Each further solution
    starts from the previous one, which is much faster than a start from scratch. The tolerance of
    limits is ``EXACT``. The answers depend only on the calls so far, and on their order.
    """

    def __init__(self, program: Program, start: Basis | None = None) -> None:
        self._highs = _new()
        _make_quiet(self._highs)
        _keep_closely(self._highs)
        _pass(self._highs, program)
        self._row_high = program.row_high
        self._size = len(program.gains) + len(program.row_low)
        self._is_begun = start is None
        if start is not None:
            self._highs.setBasis(start)

    @property
    def steps(self) -> int:
        """The number of steps that the last answer took."""
        return int(self._highs.getInfo().simplex_iteration_count)

    def solve(self, row_low: Floats, steps_max: int | None = None) -> Solution | Status:
        """Return an optimum whose first rows are at least ``row_low``; a status if there is none.

        In the solution, ``row_prices`` has the gain from one more unit of each row's limit. The
        search ends after ``steps_max`` steps.
        """
        most = STEPS_EACH_MAX * self._size
        most = most if steps_max is None else min(most, steps_max)
        self._highs.setOptionValue("simplex_iteration_limit", most)
        count = len(row_low)
        rows = np.arange(count, dtype=np.int32)
        # The type stubs of highspy lack this method.
        change = cast("Any", self._highs).changeRowsBounds
        change(count, rows, row_low, self._row_high[:count])
        # With a given basis, use the primal method; with HiGHS's own basis, use the dual method.
        self._highs.setOptionValue("simplex_strategy", _CHOSEN if self._is_begun else _PRIMAL)
        self._is_begun = True
        found = _answer(self._highs)
        if found is not Status.FAILED:
            return found
        # Rounding made the method fail from the last basis. From scratch, the method may succeed.
        self._highs.clearSolver()
        return _answer(self._highs)
