"""Counts the runs for which a queue walk finds no start, so that the walk skips similar runs.

A walk stops when it has planned as many runs of each pool as the pool's depth says. Runs without a
start are not counted as planned, so without skipping, a walk would examine every run behind them.

A *line* is the waiting runs of one owner in one pool with the same flavors. Runs of one *shape*
need the same room. Runs of one line and one shape also have the same payers, so if one of them has
no start, the others usually have none. After a few runs without a start in one line and shape, the
walk skips the others. After many runs without a start in one line, the walk skips the rest of the
line.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from quorate.model.specs import Run
from quorate.model.state.state_view import StateView
from quorate.model.state.waiting_index import Line, Place, Shape, line_of, shape_of

SHAPE_MAX: Final = 8
"""After ``SHAPE_MAX`` runs of one shape in a line had no start, the walk skips that shape."""
LINE_MAX: Final = 64
"""After ``LINE_MAX`` runs of a line had no start, the walk skips the rest of the line."""


class Fruitless:
    """The number of runs for which one walk found no start, by line and shape.

    ``seen`` is the set of runs that the walk has examined; the walk adds runs to it.
    """

    __slots__ = ("_columns", "_counts", "_given_up", "_seen", "_totals", "_view")

    def __init__(self, view: StateView, seen: AbstractSet[str]) -> None:
        self._view = view
        self._seen = seen
        self._counts: dict[tuple[Line, Shape], int] = {}
        self._totals: dict[Line, int] = {}
        self._given_up: dict[Line, set[Shape]] = {}
        """The skipped shapes, by line. A line that is skipped as a whole always has a key here."""
        self._columns: dict[Line, list[tuple[Shape, Sequence[Place]]]] = {}

    def note(self, run: Run) -> None:
        """Note that no start was found for ``run``."""
        line, shape = line_of(run), shape_of(run)
        count = self._counts[line, shape] = self._counts.get((line, shape), 0) + 1
        self._totals[line] = self._totals.get(line, 0) + 1
        if count >= SHAPE_MAX:
            self._given_up.setdefault(line, set()).add(shape)
        if self._totals[line] >= LINE_MAX:
            self._given_up.setdefault(line, set())

    def is_given_up(self, run: Run) -> bool:
        """Return whether runs like ``run`` are skipped."""
        line = line_of(run)
        shapes = self._given_up.get(line)
        return shapes is not None and (self._totals[line] >= LINE_MAX or shape_of(run) in shapes)

    def skip(self, line: Line, places: Sequence[Place], at: int) -> int:
        """Return the index in ``places`` of the next run to examine, from ``at`` on.

        ``places`` are the runs of ``line`` in order. Runs that the walk has examined, and runs of a
        shape that is given up, are skipped.
        """
        shapes, seen = self._given_up.get(line), self._seen
        while at < len(places):
            if shapes is not None:
                at = self._next_hopeful(line, shapes, places, at)
            if at == len(places) or places[at][2] not in seen:
                return at
            at += 1
        return at

    def _next_hopeful(
        self, line: Line, shapes: set[Shape], places: Sequence[Place], at: int
    ) -> int:
        """Return the index of the first run, from ``at`` on, whose shape is not given up."""
        if self._totals[line] >= LINE_MAX:
            return len(places)
        found = [
            column[index]
            for shape, column in self._columns_of(line)
            if shape not in shapes and (index := bisect_left(column, places[at])) < len(column)
        ]
        return bisect_left(places, min(found)) if found else len(places)

    def _columns_of(self, line: Line) -> list[tuple[Shape, Sequence[Place]]]:
        """Return the waiting runs of ``line`` by shape."""
        known = self._columns.get(line)
        if known is None:
            waiting = self._view.waiting
            known = self._columns[line] = [
                (shape, lines[line]) for shape, lines in waiting.shapes.items() if line in lines
            ]
        return known
