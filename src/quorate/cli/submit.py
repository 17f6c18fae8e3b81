"""``quorate submit``: runs from files, or a changed copy of a run that is there."""

from __future__ import annotations

import click

from quorate.cli.settings import Settings, examples, writer


@click.command(
    epilog=examples(
        "quorate submit -f run.yaml",
        "quorate submit -f run.yaml --set spec.resources.totalGPUs=64 --dry-run",
        "quorate submit --like train-1 --name train-2 --set spec.locality.groupGPUs=null",
    )
)
@click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    help="YAML or JSON with one or more Runs; - is standard input. May be repeated.",
)
@click.option("--like", metavar="RUN", help="Submit a copy of this run instead; needs --name.")
@click.option("--name", metavar="NEW", help="The name of the copy.")
@click.option(
    "--set",
    "assignments",
    metavar="PATH=VALUE",
    multiple=True,
    help="Change a field first; null removes it. May be repeated.",
)
@writer
@click.pass_obj
def submit(
    settings: Settings,
    *,
    files: tuple[str, ...],
    like: str | None,
    name: str | None,
    assignments: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Submit runs, and start them if possible.

    Prints where a run started and who pays, or why it waits. A run that waits is accepted and
    starts by itself when it can; the exit code is 0.
    """
    from quorate.cli.asking import ask
    from quorate.cli.sources import read_documents, tree_of
    from quorate.operations.asked import SubmitRun, SubmitRuns
    from quorate.operations.documents import changed_document, check_only_runs

    if bool(files) == (like is not None):
        raise click.UsageError("give either -f FILE or --like RUN")
    if (like is None) != (name is None):
        raise click.UsageError("--like RUN and --name NEW go together")
    if like is not None:
        asked = SubmitRun(like=like, name=name, assignments=assignments, dry_run=dry_run)
        ask(settings, "submit-run", asked)
        return
    documents = read_documents(files)
    check_only_runs(documents)
    trees = [tree_of(document) for document in documents]
    if assignments:
        changed = [changed_document(tree, assignments, source="--set") for tree in trees]
        trees = [tree_of(document) for document in changed]
    ask(settings, "submit-runs", SubmitRuns(documents=tuple(trees), dry_run=dry_run))
