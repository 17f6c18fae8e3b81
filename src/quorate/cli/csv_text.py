"""Comma-separated values: for spreadsheets, which must not take a name for a formula. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import click

from quorate.cli.settings import FORMATS, F, Settings

CSV: Final = "csv"
Cell = str | bool | int | Decimal | None
"""What may stand in a cell; None is left empty."""

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""What a text begins with that some spreadsheet would compute."""


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


def csv_reader(command: F) -> F:
    """Return ``command`` with ``-o`` as every reader has it, and ``csv`` besides."""

    def keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        del param
        if value is not None:
            ctx.obj = replace(ctx.ensure_object(Settings), output=value)

    return click.option(
        "-o",
        "--output",
        type=click.Choice((*FORMATS, CSV)),
        expose_value=False,
        callback=keep,
        help="How to print: a table, a wider one, documents, or for a spreadsheet.  "
        "[default: table]",
    )(command)
