"""``quorate apply``: create or update resources from documents, all of them or none."""

from __future__ import annotations

import click

from quorate.cli.global_options import examples, writer
from quorate.cli.settings import Settings


@click.command(
    epilog=examples(
        "quorate apply -f fleet.yaml -f budgets.yaml",
        "quorate apply -f budgets.yaml --dry-run",
        "cat fleet.yaml | quorate apply -f -",
    )
)
@click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    required=True,
    help="YAML or JSON with one or more documents; - is standard input. May be repeated.",
)
@writer
@click.pass_obj
def apply(settings: Settings, files: tuple[str, ...], dry_run: bool) -> None:
    """Create or update resources from files.

    Nodes, owners, budgets, pools and the system's settings are created or changed; runs are
    submitted. All documents of all files are recorded in one commit, or none of them.
    """
    from quorate.cli.ask_and_print import ask
    from quorate.cli.sources import read_sources
    from quorate.operations.resources.resource_operations import Apply

    sources = read_sources(files, needs_owner=settings.service() is None)
    with sources.located():
        ask(settings, "apply", Apply(documents=sources.trees, dry_run=dry_run))
