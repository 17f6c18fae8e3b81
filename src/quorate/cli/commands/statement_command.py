"""``quorate statement``: what each envelope was granted, has spent and holds in a month."""

from __future__ import annotations

import click

from quorate.cli.global_options import csv_reader, examples, ledger_options
from quorate.cli.settings import Settings


@click.command(
    epilog=examples(
        "quorate statement",
        "quorate statement --tenant rai --price H100=2.40 --price A100=1.10",
        "quorate statement --budget rai -o json",
        "quorate statement -o csv > statement.csv",
    )
)
@click.option(
    "--month", metavar="YYYY-MM", help="A calendar month in UTC.  [default: this one, up to now]"
)
@click.option("--budget", metavar="NAME", help="Only the envelopes of this budget.")
@click.option("--tenant", metavar="NAME", help="Only the envelopes of this owner.")
@click.option(
    "--price",
    "prices",
    metavar="FLAVOR=PRICE",
    multiple=True,
    help="The price of a GPU-hour of a flavor; may be repeated.",
)
@csv_reader
@ledger_options
@click.pass_obj
def statement(
    settings: Settings,
    month: str | None,
    budget: str | None,
    tenant: str | None,
    prices: tuple[str, ...],
) -> None:
    """Show the amounts of each envelope: granted, spent, held and lent.

    The amounts are as of the end of the month, or as of now in the current month; granted is always
    spent + held + free. Below the amounts, the output shows who used each envelope in the month,
    and how much was borrowed from which owner.
    Tables show GPU-hours with two decimals; json, yaml and csv have exact GPU-milliseconds. The
    statement of a past month never changes.
    """
    from quorate.cli.ask_and_print import ask
    from quorate.operations.money.money_operations import GetStatement
    from quorate.operations.money.statement_handlers import prices_named
    from quorate.views.month import month_named

    # The options are checked before the request is sent, so that errors name the option.
    prices_named(prices, "--price")
    if month is not None:
        month_named(month, "--month")
    asked = GetStatement(month=month, budget=budget, tenant=tenant, prices=prices)
    ask(settings, "statement", asked)
