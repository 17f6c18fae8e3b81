"""Comma-separated values for spreadsheets, safe from formula injection. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

Cell = str | bool | int | Decimal | None
"""The types that a cell may hold; None makes an empty cell."""

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""If a text begins with one of these characters, a spreadsheet reads it as a formula."""


def to_csv(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return ``rows`` under ``columns``, quoted where needed; each line ends with a newline.

    A text that a spreadsheet would read as a formula gets a leading apostrophe, which the
    spreadsheet does not show.
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
