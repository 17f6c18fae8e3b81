"""The cheapest assignment: each row of a matrix gets a different column, at least total cost.

Rows are added one after another. Each added row moves earlier rows to other columns, along the
cheapest path (Crouse, On implementing 2D rectangular assignment algorithms, 2016). Columns are
visited from the last to the first. When a column is finished, the column that would be visited last
takes its place in this order. Of several columns of equal cost, the free column that is visited
last is preferred. If none of these columns is free, the column that is visited first is preferred.
The published results of AlloX depend on this order.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from quorate.policy.problem import Floats, Ints

FREE: Final = -1


def assign(costs: Floats) -> Ints | None:
    """Return the column of each row with the least total cost; None if no assignment exists.

    There must be at least as many columns as rows. A cost may be infinite, but not below 0. Takes
    at most O(rows * rows * columns).
    """
    rows, columns = costs.shape
    assert rows <= columns, costs.shape
    row_of = np.full(columns, FREE, dtype=np.int64)
    column_of = np.full(rows, FREE, dtype=np.int64)
    row_price, column_price = np.zeros(rows), np.zeros(columns)
    for row in range(rows):
        found = _cheapest(costs, row, (row_of, column_of), (row_price, column_price))
        if found is None:
            return None
        column, came_from = found
        while True:
            before = int(came_from[column])
            row_of[column] = before
            column, column_of[before] = int(column_of[before]), column
            if before == row:
                break
    return column_of


def _cheapest(
    costs: Floats, start: int, matched: tuple[Ints, Ints], prices: tuple[Floats, Floats]
) -> tuple[int, Ints] | None:
    """Return the free column that row ``start`` reaches at the least cost, and the paths.

    The paths are an array: for each column, the row that comes directly before the column on the
    cheapest path to it. The prices of the rows and columns on the path are raised, so that no
    reduced cost is below 0.
    """
    row_of, column_of = matched
    row_price, column_price = prices
    columns = costs.shape[1]
    place = np.arange(columns - 1, -1, -1)
    looked_at = place.copy()
    least, waiting = np.full(columns, np.inf), np.full(columns, np.inf)
    is_open = np.ones(columns, dtype=np.bool_)
    came_from = np.full(columns, FREE, dtype=np.int64)
    row, reached = start, 0.0
    seen: list[int] = []
    while True:
        through = reached + costs[row] - row_price[row] - column_price
        better = (through < least) & is_open
        came_from[better] = row
        least[better] = waiting[better] = through[better]
        column = _next(waiting, row_of, place)
        reached = float(waiting[column])
        if reached == np.inf:
            return None
        if row_of[column] == FREE:
            break
        row = int(row_of[column])
        seen.append(column)
        is_open[column], waiting[column] = False, np.inf
        last = int(looked_at[columns - len(seen)])
        place[last] = place[column]
        looked_at[place[column]] = last
    row_price[start] += reached
    moved = row_of[seen]
    row_price[moved] += reached - least[column_of[moved]]
    column_price[seen] -= reached - least[seen]
    return column, came_from


def _next(waiting: Floats, row_of: Ints, place: Ints) -> int:
    """Return the cheapest column; among equals, the one that the module's docstring prefers."""
    ties = np.flatnonzero(waiting == waiting.min())
    free = ties[row_of[ties] == FREE]
    if len(free):
        return int(free[np.argmax(place[free])])
    return int(ties[np.argmin(place[ties])])
