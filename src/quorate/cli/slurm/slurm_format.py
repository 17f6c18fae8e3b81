"""Formats of squeue, sinfo and sacct: parses templates and prints rows. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Generic, TypeVar

from quorate.views.table import Column, table

Row = TypeVar("Row")
_FIELD: Final = re.compile(r"%(?P<right>\.?)(?P<width>\d{0,4})(?P<letter>[A-Za-z#])")
_NAMED: Final = re.compile(r"(?P<name>[A-Za-z]+)(?:%(?P<left>-?)(?P<width>\d{1,4}))?")


class FormatError(ValueError):
    """A format cannot be parsed; the text says why."""


@dataclass(frozen=True, slots=True)
class Field(Generic[Row]):
    """A column: its title, and a function from a row to its text."""

    title: str
    value: Callable[[Row], str]


@dataclass(frozen=True, slots=True)
class _Cell(Generic[Row]):
    """A part of a line: a text, then a field. If ``width`` is 0, values are not padded or cut."""

    before: str
    field: Field[Row] | None
    width: int
    is_right: bool

    def text(self, value: str) -> str:
        """Return the text before the field, then ``value`` with the field's width."""
        if not self.width:
            return self.before + value
        cut = value[: self.width]
        shown = cut.rjust(self.width) if self.is_right else cut.ljust(self.width)
        return self.before + shown


def percent_lines(
    template: str, fields: Mapping[str, Field[Row]], rows: Sequence[Row], *, has_head: bool
) -> list[str]:
    """Return ``rows`` in the format ``template``, such as ``%.18i %.9P %T``.

    ``fields`` maps letters to columns. As in Slurm, a value that is longer than the width of its
    column is cut. Raises ``FormatError``.
    """
    cells = _cells(template, fields)
    head = [["" if cell.field is None else cell.field.title for cell in cells]]
    body = [["" if cell.field is None else cell.field.value(row) for cell in cells] for row in rows]
    return [
        "".join(cell.text(text) for cell, text in zip(cells, texts, strict=True)).rstrip()
        for texts in [*(head if has_head else ()), *body]
    ]


def _cells(template: str, fields: Mapping[str, Field[Row]]) -> list[_Cell[Row]]:
    cells: list[_Cell[Row]] = []
    at = 0
    for matched in _FIELD.finditer(template):
        field = fields.get(matched["letter"])
        if field is None:
            known = ", ".join(f"%{letter} {each.title}" for letter, each in fields.items())
            raise FormatError(f"unknown column %{matched['letter']}; use {known}")
        width = int(matched["width"] or 0)
        cells.append(_Cell(template[at : matched.start()], field, width, bool(matched["right"])))
        at = matched.end()
    if not cells:
        raise FormatError(f"{template!r} has no column; write a format like '%i %T'")
    if "%" in template[at:]:
        raise FormatError(f"{template[at:].strip()!r} is not a column; write one like %.18i")
    return [*cells, _Cell(template[at:], None, 0, is_right=False)]


def field_table(fields: Sequence[Field[Row]], rows: Sequence[Row], *, has_head: bool) -> list[str]:
    """Return ``rows`` as a table in which no cell is cut."""
    text = table(
        [Column(field.title) for field in fields],
        [[field.value(row) for field in fields] for row in rows],
    )
    return text.splitlines()[0 if has_head else 1 :]


def named_fields(names: str, fields: Mapping[str, Field[Row]]) -> list[tuple[Field[Row], int]]:
    """Return the columns that ``names`` lists, as in ``JobID%20,State``, each with its width.

    The width is 0 if ``names`` states none for a column. A negative width aligns the column left.
    Raises ``FormatError``.
    """
    by_name = {name.lower(): field for name, field in fields.items()}
    found: list[tuple[Field[Row], int]] = []
    for each in names.split(","):
        matched = _NAMED.fullmatch(each.strip())
        field = None if matched is None else by_name.get(matched["name"].lower())
        if matched is None or field is None:
            near = get_close_matches(each.lower(), by_name, n=1)
            hint = f"did you mean {by_name[near[0]].title}? " if near else ""
            raise FormatError(f"unknown column {each!r}; {hint}use {', '.join(fields)}")
        width = int(matched["width"] or 0)
        found.append((field, -width if matched["left"] else width))
    return found


def named_lines(
    columns: Sequence[tuple[Field[Row], int]],
    rows: Sequence[Row],
    *,
    has_head: bool,
    between: str | None = None,
) -> list[str]:
    """Return ``rows`` as lines; in each line, ``between`` separates the values.

    If ``between`` is None, the values are aligned in columns.
    """
    grid = [[field.value(row) for field, _ in columns] for row in rows]
    heads = [[field.title for field, _ in columns]] if has_head else []
    if between is not None:
        return [between.join(row) for row in [*heads, *grid]]
    widths = [
        abs(width) or max([len(field.title), *(len(row[at]) for row in grid)])
        for at, (field, width) in enumerate(columns)
    ]
    rules = [["-" * width for width in widths]] if has_head else []
    return [
        " ".join(
            cell[:width].ljust(width) if columns[at][1] < 0 else cell[:width].rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [*heads, *rules, *grid]
    ]
