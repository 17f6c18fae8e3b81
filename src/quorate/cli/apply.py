"""``quorate apply``: make the ledger hold what documents say, all of them or none."""

from __future__ import annotations

import click

from quorate.cli.settings import Settings, examples, writer


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
    """Make the ledger hold the documents of files.

    Nodes, owners, budgets, pools and the system's settings are created or changed; runs are
    submitted. All documents of all files are recorded in one commit, or none of them.
    """
    from quorate.answers.readiness import ready
    from quorate.cli.carry_out import carry_out
    from quorate.cli.session import writing
    from quorate.cli.sources import read_documents
    from quorate.core.commands import Applied, Apply
    from quorate.model.specs import Run

    documents = read_documents(files)
    actor = settings.actor()
    with writing(settings, dry_run=dry_run) as engine:
        taken: set[str] = set()
        specs: list[Applied] = [
            ready(document, engine.view, actor, taken)
            if isinstance(document.spec, Run)
            else document.spec
            for document in documents
        ]
        carry_out(settings, engine, Apply(tuple(specs)), dry_run=dry_run)
