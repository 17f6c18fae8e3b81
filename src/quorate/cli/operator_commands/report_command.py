"""``quorate report``: statistics of a ledger, as text and files."""

from __future__ import annotations

import click

from quorate.cli.global_options import examples, ledger_options, output_option
from quorate.cli.settings import Settings


@click.command(
    epilog=examples(
        "quorate report",
        "quorate report --html report.html --csv runs.csv --parquet runs.parquet",
        "quorate report --from-ledger ledger.jsonl --price H100=2.40 -o json",
    )
)
@click.option(
    "--from-ledger",
    "source",
    metavar="FILE",
    help="A ledger's file, or an export of one.  [default: the ledger of --ledger]",
)
@click.option("--html", metavar="FILE", help="Write a page with plots to this new file.")
@click.option("--csv", "csv_file", metavar="FILE", help="Write the runs to this new CSV file.")
@click.option("--parquet", metavar="FILE", help="Write the runs to this new Parquet file.")
@click.option(
    "--price",
    "prices",
    metavar="FLAVOR=AMOUNT",
    multiple=True,
    help="The price of a GPU-hour of a flavor. May be repeated.",
)
@ledger_options
@output_option
@click.pass_obj
def report(
    settings: Settings,
    *,
    source: str | None,
    html: str | None,
    csv_file: str | None,
    parquet: str | None,
    prices: tuple[str, ...],
) -> None:
    """Report on a ledger: times, waits by cause, utilisation, shares, lost work.

    The report covers the time up to the last event.
    """
    from quorate.cli.printing import print_tree
    from quorate.cli.recorded_blocks import recorded_blocks
    from quorate.cli.simulation.report_files import given_prices, write_report
    from quorate.sim.report.metrics import metrics_of
    from quorate.sim.report.outcome_of_ledger import outcome_of_ledger
    from quorate.views.reports.report_forms import metrics_lines, metrics_tree

    events = [event for block in recorded_blocks(settings, source) for event in block]
    rates = given_prices(prices, events)
    outcome = outcome_of_ledger(events, name="ledger", prices=rates)
    write_report([outcome], title="Quorate report", html=html, csv=csv_file, parquet=parquet)
    found = metrics_of(outcome)
    if settings.is_table:
        click.echo("\n".join(metrics_lines(found, ("Ledger", source or settings.ledger))))
    else:
        tree = metrics_tree(found)
        del tree["seed"]  # A ledger has no seed.
        print_tree(settings, tree)
