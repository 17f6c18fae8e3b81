"""``quorate usage``: GPU-hours and node-hours of a tenant or a user."""

from __future__ import annotations

import click

from quorate.cli.completing import names_of
from quorate.cli.global_options import actor_option, csv_reader, examples, ledger_options
from quorate.cli.settings import ACTOR_CHARS_MAX, Settings, one_line
from quorate.operations.money.money_operations import DAYS_MAX, TenantUsageRequest, UserUsageRequest


@click.command(
    epilog=examples(
        "quorate usage                            # your own, for each tenant",
        "quorate usage --tenant vision --days 30",
        "quorate usage --user alice -o json",
        "quorate usage --tenant vision -o csv > vision.csv",
    )
)
@click.option(
    "--tenant",
    metavar="NAME",
    help="Usage of the runs of this owner.",
    shell_complete=names_of("owner"),
)
@click.option("--user", metavar="NAME", help="Usage of the runs of this user.  [default: you]")
@click.option(
    "--days",
    metavar="N",
    type=click.IntRange(min=1, max=DAYS_MAX),
    help="The number of days up to now.  [default: the System's budgetPeriodDays]",
)
@actor_option
@csv_reader
@ledger_options
@click.pass_obj
def usage(settings: Settings, tenant: str | None, user: str | None, days: int | None) -> None:
    """Show GPU-hours and node-hours used.

    Usage is counted for the owner of a run, whichever owner's envelope paid. The time of a lease is
    counted from its start to its end, or to now, within the last N days. A node that several leases
    share is counted once. Tables show hours with two decimals; json, yaml and csv also have exact
    milliseconds.
    """
    from quorate.cli.ask_and_print import ask

    if tenant is not None and user is not None:
        raise click.UsageError("give --tenant or --user, not both")
    if tenant is not None:
        ask(settings, "tenant-usage", TenantUsageRequest(id=tenant, days=days))
        return
    name = None if user is None else one_line(user, "--user", ACTOR_CHARS_MAX)
    ask(settings, "user-usage", UserUsageRequest(user=name, days=days))
