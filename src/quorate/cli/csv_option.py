"""The ``-o csv`` of commands whose answer fits a spreadsheet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import click

from quorate.cli.global_options import FORMATS, F, Settings

CSV: Final = "csv"


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
