"""Writes the files of a report: a page with plots, and the runs as CSV and Parquet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from quorate.cli.sources import write_new, write_new_bytes
from quorate.model.events import Event, NodeApplied
from quorate.operations.money.statement_handlers import prices_named
from quorate.sim.outcome import Outcome
from quorate.sim.report.compare import Comparison
from quorate.views.exits import CommandError, Exit
from quorate.views.hints import nearest_name
from quorate.views.numbers import MICROS
from quorate.views.reports.html_report import html_report
from quorate.views.reports.report_forms import runs_csv, runs_parquet


def given_prices(prices: Sequence[str], events: Iterable[Event]) -> dict[str, float]:
    """Return the price of a GPU-hour of each flavor, from ``--price``.

    Raises ``CommandError`` for a flavor that no node in ``events`` has.
    """
    micros = prices_named(prices, "--price")
    if not micros:
        return {}
    known = {event.node.flavor for event in events if isinstance(event, NodeApplied)}
    unknown = [_unknown(flavor, known) for flavor in micros if flavor not in known]
    if unknown:
        raise CommandError(Exit.REFUSED, *unknown)
    return {flavor: price / MICROS for flavor, price in micros.items()}


def _unknown(flavor: str, known: Collection[str]) -> str:
    """Return the error for a flavor that the ledger does not have, with the flavors that it has."""
    alike = [each for each in known if each.lower() == flavor.lower()]
    near = alike[0] if alike else nearest_name(flavor, known)
    there = f"it has {', '.join(sorted(known))}" if known else "it has no nodes"
    hint = there if near is None else f"did you mean {near!r}?"
    return f"--price: the ledger has no flavor {flavor!r}; {hint}"


def write_report(
    outcomes: Sequence[Outcome],
    *,
    title: str,
    html: str | None,
    csv: str | None,
    parquet: str | None,
    comparison: Comparison | None = None,
) -> None:
    """Write those files of a report for which a name is given; existing files are not changed."""
    if html is not None:
        write_new(html, [html_report(outcomes, title=title, comparison=comparison)])
    if csv is not None:
        write_new(csv, [runs_csv(outcomes)])
    if parquet is not None:
        write_new_bytes(parquet, [runs_parquet(outcomes)])
