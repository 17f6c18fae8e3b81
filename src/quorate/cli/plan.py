"""``quorate plan``: when a run starts, why not now, who pays, what helps, whom it could cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quorate.answers.exits import CommandError, Exit
from quorate.cli.settings import Settings, examples, reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quorate.core.plan import Forecast


@click.command(
    epilog=examples(
        "quorate plan train-1",
        "quorate plan train-1 -o json",
        "quorate plan -f run.yaml --dry-run     # when would it start?",
        "quorate plan -f run.yaml --dry-run -o wide",
    )
)
@click.argument("run", required=False)
@click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    help="YAML or JSON with Runs that are not submitted; needs --dry-run. May be repeated.",
)
@click.option("--dry-run", is_flag=True, help="With -f: plan as if they were submitted now.")
@reader
@click.pass_obj
def plan(settings: Settings, *, run: str | None, files: tuple[str, ...], dry_run: bool) -> None:
    """Say when a run starts, and what that rests on.

    Shows the promised start with a countdown, when it could start by itself and by a conflict, why
    it does not start now, who pays, which changes would start it now (each tried by dry run), and
    whom it could cost: what a conflict would cut, the odds of being drawn first, and how often each
    run is cut in 1,000 dummy draws. Of a running run: which conflicts could end it.

    The confidence is certain (counts on nobody to end), expected (on runs that are within their
    expected duration, or on a conflict) or rough (on runs that are overdue, or stop late).
    Nothing is written.
    """
    if (run is None) == (not files):
        raise click.UsageError("give either RUN or -f FILE --dry-run")
    if files and not dry_run:
        raise click.UsageError(
            "-f plans runs that are not there yet, so it needs --dry-run; "
            "to have them carried out: quorate submit -f FILE"
        )
    found, sources = _of_files(settings, files) if run is None else _of_run(settings, run)
    _print(settings, found, sources, as_list=run is None)


def _of_run(settings: Settings, run: str) -> tuple[list[Forecast], list[str]]:
    """Return the forecast of a run that is there."""
    from quorate.cli.session import reading
    from quorate.core.plan import Forecast, foretell

    name = run.removeprefix("run/")
    with reading(settings) as read:
        record = read.recorded.runs.get(name)
        if record is None:
            raise CommandError(
                Exit.REFUSED,
                f"there is no run {name!r}; list them: quorate get runs; "
                "for one that is not submitted: quorate plan -f FILE --dry-run",
            )
        found = foretell(read.recorded, record.spec, read.now_ms)
        assert isinstance(found, Forecast), found
        return [found], [""]


def _of_files(settings: Settings, files: Sequence[str]) -> tuple[list[Forecast], list[str]]:
    """Return the forecasts of runs in files, as if they were submitted in this order."""
    from quorate.answers.failures import refused
    from quorate.answers.readiness import ready
    from quorate.cli.session import reading
    from quorate.cli.sources import read_documents
    from quorate.core.plan import foretell_new
    from quorate.operations.documents import check_only_runs

    documents = read_documents(files)
    check_only_runs(documents)
    actor, taken = settings.actor(), set[str]()
    # A change that is proposed for one of several runs is not one of a file.
    source = files[0] if len(documents) == 1 else "FILE"
    with reading(settings) as read:
        runs = [ready(document, read.recorded, actor, taken) for document in documents]
        found = foretell_new(read.recorded, runs, read.now_ms)
        if isinstance(found, tuple):
            raise refused(found)
        return found, [source] * len(found)


def _print(
    settings: Settings, found: Sequence[Forecast], sources: Sequence[str], *, as_list: bool
) -> None:
    from quorate.answers.forecasts import forecast_lines, forecast_tree
    from quorate.cli.printing import print_tree

    prefix = settings.prefix
    told = list(zip(found, sources, strict=True))
    if not settings.is_table:
        trees = [forecast_tree(each, prefix, source=source) for each, source in told]
        print_tree(settings, trees if as_list and len(trees) > 1 else trees[0])
        return
    for position, (each, source) in enumerate(told):
        if position:
            click.echo()
        for line in forecast_lines(each, prefix, source=source, show_wide=settings.wide):
            click.echo(line)
    if as_list:
        click.echo("dry run: nothing was recorded")
