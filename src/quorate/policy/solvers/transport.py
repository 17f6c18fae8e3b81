"""The assignment of least total cost, if a column can take several rows.

As in ``assignment``, rows are added one after another, and each added row moves earlier rows along
the cheapest path. Columns that have the same cost for every row are merged into one column, which
can take several rows, so there are few columns. For each full column, the least cost of moving one
of its rows to another column is cached until the rows of the full column change.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from quorate.policy.problem import Floats, Ints

_NONE: Final = -1


def assign_rooms(costs: Floats, rooms: Ints, levels: Ints) -> Ints | None:
    """Return the column of each row with the least total cost; None if no assignment exists.

    ``rooms`` has the number of rows that each column can take. Columns are sorted by ``levels``. A
    column is used only after a row is in a column of the previous level. Of several columns with
    the same cost, the first is taken. Of several rows that can move at the same cost, the row that
    was added first is moved. A cost may be infinite, but not below 0.
    """
    board = _Board(costs, rooms)
    ends = np.searchsorted(levels, np.unique(levels), side="right")
    level = 0
    for row in range(len(costs)):
        column = board.add(row, int(ends[level]))
        if column is None and level + 1 < len(ends):
            level = len(ends) - 1
            column = board.add(row, int(ends[level]))
        if column is None:
            return None
        deepest = int(np.searchsorted(ends, column, side="right"))
        level = max(level, min(deepest + 1, len(ends) - 1))
    return board.column_of


class _Board:
    """The column of each row, the remaining room, and the prices of the columns."""

    def __init__(self, costs: Floats, rooms: Ints) -> None:
        rows, columns = costs.shape
        self._costs = costs
        self._left = rooms.copy()
        self._price = np.zeros(columns)
        self._rows: list[list[int]] = [[] for _ in range(columns)]
        # The least cost of moving a row from a full column to another column, and the row to move.
        self._step = np.full((columns, columns), np.inf)
        self._mover = np.full((columns, columns), _NONE, dtype=np.int64)
        self.column_of = np.full(rows, _NONE, dtype=np.int64)

    def add(self, row: int, count: int) -> int | None:
        """Put ``row`` into one of the first ``count`` columns.

        Return the column that now has room for one row less. If no path exists, change nothing and
        return None.
        """
        price = self._price[:count]
        least = self._costs[row, :count] - price
        waiting = least.copy()
        came_from = np.full(count, _NONE, dtype=np.int64)
        is_open = np.ones(count, dtype=np.bool_)
        seen: list[int] = []
        while True:
            column = int(waiting.argmin())
            reached = float(waiting[column])
            if reached == np.inf:
                return None
            if self._left[column] > 0:
                break
            seen.append(column)
            is_open[column], waiting[column] = False, np.inf
            through = self._step[column, :count] + (reached + price[column]) - price
            better = (through < least) & is_open
            least[better] = waiting[better] = through[better]
            came_from[better] = column
        price[seen] -= reached - least[seen]
        self._move(row, column, came_from)
        return column

    def _move(self, row: int, column: int, came_from: Ints) -> None:
        """Move every row on the path to ``column`` to its next column, and insert ``row``."""
        self._left[column] -= 1
        changed = [column]
        while came_from[column] != _NONE:
            before = int(came_from[column])
            moved = int(self._mover[before, column])
            self._rows[before].remove(moved)
            self._put(moved, column)
            column = before
            changed.append(column)
        self._put(row, column)
        for each in changed:
            if not self._left[each]:
                self._look_at(each)

    def _put(self, row: int, column: int) -> None:
        self._rows[column].append(row)
        self.column_of[row] = column

    def _look_at(self, column: int) -> None:
        rows = np.array(sorted(self._rows[column]))
        moves = self._costs[rows] - self._costs[rows, column][:, None]
        first = moves.argmin(axis=0)
        self._mover[column] = rows[first]
        self._step[column] = moves[first, np.arange(len(first))]
