"""``quorate queue``: the waiting runs, in order, and why they wait."""

from __future__ import annotations

import click

from quorate.cli.completing import names_of
from quorate.cli.global_options import examples, reader
from quorate.cli.settings import Settings


@click.command(
    epilog=examples("quorate queue", "quorate queue --owner rai", "quorate queue -o wide")
)
@click.option(
    "--owner",
    "--team",
    metavar="OWNER",
    help="Only runs of this owner.",
    shell_complete=names_of("owner"),
)
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most the first N.")
@reader
@click.pass_obj
def queue(settings: Settings, *, owner: str | None, limit: int | None) -> None:
    """Show the waiting runs, in order, and why they wait.

    The same as `quorate get queue`. `quorate explain RUN` shows why a run has its position, and
    what would start it.
    """
    from quorate.cli.ask_and_print import ask
    from quorate.operations.resources.resource_operations import ListRuns

    ask(settings, "list-queue", ListRuns(owner=owner, limit=limit))
