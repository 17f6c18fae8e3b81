"""The files of a report, each written new: a page with plots, and the runs as CSV and Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from quorate.cli.sources import write_new
from quorate.operations.money.statement_handlers import prices_named
from quorate.sim.outcome import Outcome
from quorate.sim.report.compare import Comparison
from quorate.views.exits import CommandError, Exit
from quorate.views.numbers import MICROS
from quorate.views.reports.html_report import html_report
from quorate.views.reports.report_forms import runs_csv, runs_parquet


def given_prices(prices: Sequence[str]) -> dict[str, float]:
    """Return what an hour of each flavor costs, as typed after ``--price``."""
    micros = prices_named(prices, "--price")
    return {flavor: price / MICROS for flavor, price in micros.items()}


def write_report(
    outcomes: Sequence[Outcome],
    *,
    title: str,
    html: str | None,
    csv: str | None,
    parquet: str | None,
    comparison: Comparison | None = None,
) -> None:
    """Write those files of a report that have a name; what is there is left alone."""
    if html is not None:
        write_new(html, [html_report(outcomes, title=title, comparison=comparison)])
    if csv is not None:
        write_new(csv, [runs_csv(outcomes)])
    if parquet is not None:
        _write_bytes(parquet, runs_parquet(outcomes))


def _write_bytes(name: str, content: bytes) -> None:
    path = Path(name)
    try:
        with path.open("xb") as file, ExitStack() as undo:
            undo.callback(path.unlink)
            file.write(content)
            file.flush()
            undo.pop_all()
    except FileExistsError:
        raise CommandError(
            Exit.REFUSED, f"{name} exists already and was left alone; choose another name"
        ) from None
    except OSError as error:
        raise CommandError(
            Exit.UNUSABLE, f"{name} cannot be written: {error.strerror}; check path and space"
        ) from None
