"""``quorate throughputs``: tables of how fast each type of job is on each flavor."""

from __future__ import annotations

import click

from quorate.answers.exits import CommandError, Exit
from quorate.cli.policy_files import needs_rounds
from quorate.cli.settings import Settings, examples, output_option


@click.group(epilog=examples("quorate throughputs check rates.json"))
def throughputs() -> None:
    """Look at tables of how fast jobs are on each flavor."""


@throughputs.command(
    epilog=examples(
        "quorate throughputs check rates.json",
        "quorate throughputs check rates.json -o json",
    )
)
@click.argument("file", metavar="FILE")
@output_option
@click.pass_obj
@needs_rounds
def check(settings: Settings, file: str) -> None:
    """Say what a table has, and everything that is wrong or missing in it.

    SPREAD are the rates on GPUs that are not together, which stand under the name of the flavor
    with _unconsolidated; what is missing there is told, and no fault. Exit code 3 when anything is
    wrong, or a type has no rate on a flavor.
    """
    from quorate.answers.policies import rates_text, rates_tree
    from quorate.cli.policy_files import table_in
    from quorate.cli.printing import print_tree

    found = table_in(file)
    if settings.is_table:
        click.echo(rates_text(found))
        for gap in found.spread_gaps():
            click.echo(f"note: {gap.place} {gap.message}")
    else:
        print_tree(settings, rates_tree(found))
    if gaps := found.gaps():
        raise CommandError(Exit.INVALID, *(f"{file}: {gap.text()}" for gap in gaps))
