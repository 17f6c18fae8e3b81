"""Writes the files of a report: a page with plots, and the runs as CSV and Parquet."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.cli.sources import write_new, write_new_bytes
from quorate.operations.money.statement_handlers import prices_named
from quorate.sim.outcome import Outcome
from quorate.sim.report.compare import Comparison
from quorate.views.numbers import MICROS
from quorate.views.reports.html_report import html_report
from quorate.views.reports.report_forms import runs_csv, runs_parquet


def given_prices(prices: Sequence[str]) -> dict[str, float]:
    """Return the price of an hour of each flavor, from ``--price``."""
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
    """Write each file of a report whose name is given; existing files are not changed."""
    if html is not None:
        write_new(html, [html_report(outcomes, title=title, comparison=comparison)])
    if csv is not None:
        write_new(csv, [runs_csv(outcomes)])
    if parquet is not None:
        write_new_bytes(parquet, [runs_parquet(outcomes)])
