"""Tables made to fit a terminal: sentences are shortened, but never names and numbers. Pure.

Before a reason is shortened, columns that only add details to the reason are left out.

A service sends tables as lines, because it does not know the width of the terminal. Columns are
recognised by the blanks that all lines of a table share.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from quorate.views.table import GAP

CELL_MIN: Final = 12
"""The fewest characters that are left of a shortened text."""
_REASON: Final = "REASON"
_DETAILS: Final = ("CODE", "SCORE")
"""Titles of columns that are left out first, in this order, if the table has a REASON column."""
_TITLE: Final = r"[A-Z0-9][A-Z0-9%/+.-]*(?: [A-Z0-9%/+.-]+)*"
_HEAD: Final = re.compile(rf" *{_TITLE}(?: {{{len(GAP)},}}{_TITLE})+")
_WORDS: Final = re.compile(_TITLE)
_GUTTER: Final = re.compile(rf" {{{len(GAP)},}}")


class _Span(NamedTuple):
    """The first and last position of a column."""

    start: int
    end: int

    @property
    def width(self) -> int:
        return self.end - self.start


def fitted(lines: Sequence[str], width: int, ellipsis: str) -> list[str]:
    """Return ``lines`` with tables shortened to ``width`` where possible.

    Other lines, and tables that fit, are unchanged. ``ellipsis`` ends a shortened text.
    """
    found: list[str] = []
    at = 0
    while at < len(lines):
        end = at + 1
        if _HEAD.fullmatch(lines[at]):
            titles = [_Span(*each.span()) for each in _WORDS.finditer(lines[at])]
            while end < len(lines) and _is_row(lines[end], titles):
                end += 1
        found += _fitted_table(lines[at:end], width, ellipsis)
        at = end
    return found


def _is_row(line: str, titles: Sequence[_Span]) -> bool:
    """Return whether ``line`` has a cell below each title.

    The cell must begin in the same column as the title, or end in the same column.
    """
    return bool(line.strip()) and all(
        not line[title.start - len(GAP) : title.start].strip()
        or (not line[title.end : title.end + len(GAP)].strip() and line[title.end - 1 :][:1] != " ")
        for title in titles[1:]
    )


def _fitted_table(lines: Sequence[str], width: int, ellipsis: str) -> list[str]:
    longest = max(map(len, lines))
    if len(lines) == 1 or longest <= width:
        return [*lines]
    padded = [line.ljust(longest) for line in lines]
    padded = _without_details(padded, width)
    over = len(padded[0]) - width
    texts = [each for each in _columns(padded) if _is_text(padded, each)]
    kept: dict[_Span, int] = {}
    for column in sorted(texts, key=lambda each: -each.width):
        title = padded[0][column.start : column.end].rstrip()
        kept[column] = min(column.width, max(len(title), CELL_MIN, column.width - over))
        over -= column.width - kept[column]
    for column in sorted(kept, reverse=True):
        padded = [_cut(line, column, kept[column], ellipsis) for line in padded]
    return [line.rstrip() for line in padded]


def _without_details(lines: Sequence[str], width: int) -> list[str]:
    """Return a table without columns of ``_DETAILS``, removed one by one while it is too wide."""
    found = [*lines]
    for title in _DETAILS:
        columns = {found[0][each.start : each.end].strip(): each for each in _columns(found)}
        if len(found[0]) <= width or title not in columns or _REASON not in columns:
            continue
        start, end = columns[title]
        found = [line[:start] + line[end + len(GAP) :] for line in found]
    return found


def _is_text(lines: Sequence[str], column: _Span) -> bool:
    """Return whether a column holds sentences; a name or a number is a single word."""
    head, *cells = (line[column.start : column.end] for line in lines)
    return head[0] != " " and any(" " in cell.strip() for cell in cells)


def _columns(lines: Sequence[str]) -> list[_Span]:
    """Return the columns of a table: the spans between blanks that all its lines share."""
    ink = "".join(" " if set(cells) == {" "} else "x" for cells in zip(*lines, strict=True))
    edges = [each.span() for each in _GUTTER.finditer(ink)]
    starts = [0, *(end for _, end in edges)]
    ends = [*(start for start, _ in edges), len(ink)]
    return [_Span(*each) for each in zip(starts, ends, strict=True) if each[0] < each[1]]


def _cut(line: str, column: _Span, width: int, ellipsis: str) -> str:
    """Return ``line`` with ``column`` shortened to ``width`` characters."""
    cell = line[column.start : column.end].rstrip()
    if len(cell) > width:
        cell = cell[: width - len(ellipsis)].rstrip() + ellipsis
    return line[: column.start] + cell.ljust(width) + line[column.end :]
