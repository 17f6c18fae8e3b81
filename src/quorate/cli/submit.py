"""``quorate submit``: runs from files, or a changed copy of a run that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quorate.answers.exits import CommandError, Exit
from quorate.cli.settings import Settings, examples, writer

if TYPE_CHECKING:
    from quorate.documents import Document
    from quorate.model.view import StateView


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
    from quorate.answers.readiness import ready
    from quorate.cli.carry_out import carry_out
    from quorate.cli.session import writing
    from quorate.cli.sources import read_documents
    from quorate.core.commands import Apply, Submit

    if bool(files) == (like is not None):
        raise click.UsageError("give either -f FILE or --like RUN")
    if (like is None) != (name is None):
        raise click.UsageError("--like RUN and --name NEW go together")
    documents = read_documents(files)
    check_only_runs(documents)
    actor = settings.actor()
    with writing(settings, dry_run=dry_run) as engine:
        if like is not None and name is not None:
            documents = [_copy(engine.view, like, name)]
        if assignments:
            documents = [_changed(document, assignments) for document in documents]
        taken: set[str] = set()
        runs = [ready(document, engine.view, actor, taken) for document in documents]
        # One run is a command of its own; several are one commit, all of them or none.
        command = Submit(runs[0]) if len(runs) == 1 else Apply(tuple(runs))
        carry_out(settings, engine, command, dry_run=dry_run)


def check_only_runs(documents: list[Document]) -> None:
    """Raise ``CommandError`` unless all of ``documents`` are runs."""
    others = [each for each in documents if each.kind != "Run"]
    if others:
        raise CommandError(
            Exit.INVALID,
            *(
                f"{each.kind}/{each.name}: only Runs are submitted; use: quorate apply -f FILE"
                for each in others
            ),
        )


def _copy(view: StateView, like: str, name: str) -> Document:
    """Return the run ``like`` as a document called ``name``, with a nonce and user of its own."""
    from msgspec.structs import replace

    from quorate.documents import Document

    record = view.runs.get(like.removeprefix("run/"))
    if record is None:
        raise CommandError(
            Exit.REFUSED, f"there is no run {like!r} to copy; list them: quorate get runs"
        )
    spec = replace(record.spec, name=name, nonce="", user="")
    return _changed(Document(kind="Run", spec=spec, line=None), ())


def _changed(document: Document, assignments: tuple[str, ...]) -> Document:
    """Return ``document`` with fields set, judged again as if it had been written so."""
    from quorate.cli.patch import changed_document
    from quorate.documents import render

    tree = render(document.spec)
    if document.generate_name is not None:
        tree["metadata"] = {"generateName": document.generate_name}
    return changed_document(tree, assignments, source="--set" if assignments else "--like")
