"""Comma-separated values: for spreadsheets, which must not take a name for a formula. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

Cell = str | bool | int | Decimal | None
"""What a cell may hold; None is left empty."""

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""First characters of texts that a spreadsheet would compute as a formula."""


def to_csv(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return ``rows`` under ``columns``, quoted where needed, each line ended by a newline.

    A text that a spreadsheet would compute gets an apostrophe in front, which it does not show.
    """
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_cell(cell) for cell in row] for row in rows])
    return written.getvalue()


def _cell(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return str(value)
