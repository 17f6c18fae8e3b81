"""Tables of plain text: aligned by their content, no borders, no trailing blanks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GAP = "   "


@dataclass(frozen=True, slots=True)
class Column:
    """A title and the alignment of its cells; ``wide`` columns are shown only on request."""

    title: str
    right: bool = False
    wide: bool = False


def right(title: str, *, wide: bool = False) -> Column:
    """Return a column of numbers."""
    return Column(title, right=True, wide=wide)


def wide(title: str) -> Column:
    """Return a column of texts for the wide table."""
    return Column(title, wide=True)


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], *, show_wide: bool = False
) -> str:
    """Return ``rows`` under the titles of ``columns``; each row has a cell for every column."""
    shown = [i for i, column in enumerate(columns) if show_wide or not column.wide]
    head = [columns[i].title for i in shown]
    body = [[row[i] for i in shown] for row in rows]
    widths = [max(len(row[i]) for row in [head, *body]) for i in range(len(shown))]
    lines = []
    for row in [head, *body]:
        cells = [
            cell.rjust(width) if columns[shown[i]].right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(GAP.join(cells).rstrip())
    return "\n".join(lines)


def pairs(entries: Sequence[tuple[str, str]]) -> str:
    """Return ``Name: value`` lines with the values aligned."""
    width = max(len(name) for name, _ in entries) + 1
    return "\n".join(f"{name + ':':<{width}}  {value}".rstrip() for name, value in entries)


def indented(text: str, by: str = "  ") -> str:
    """Return ``text`` with every line indented."""
    return "\n".join(f"{by}{line}" for line in text.splitlines())
