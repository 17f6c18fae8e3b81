"""``quorate plan``: when a run starts, why not now, who pays, what helps, whom it could cost."""

from __future__ import annotations

import click

from quorate.cli.completing import names_of
from quorate.cli.global_options import exact, examples, reader
from quorate.cli.settings import Settings


@click.command(
    epilog=examples(
        "quorate plan train-1",
        "quorate plan train-1 -o json",
        "quorate plan -f run.yaml --dry-run     # when would it start?",
        "quorate plan -f run.yaml --dry-run -o wide",
        "quorate plan train-1 --exact           # far back in a long queue",
    )
)
@click.argument("run", required=False, shell_complete=names_of("run"))
@click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    help="YAML or JSON with Runs that are not submitted; needs --dry-run. May be repeated.",
)
@click.option("--dry-run", is_flag=True, help="With -f: plan as if they were submitted now.")
@exact
@reader
@click.pass_obj
def plan(
    settings: Settings, *, run: str | None, files: tuple[str, ...], dry_run: bool, is_exact: bool
) -> None:
    """Say when a run starts, and what that rests on.

    Shows the start with a countdown, when it could start by itself and by a conflict, why it does
    not start now, who pays, which changes would start it now (each tried by dry run), and whom it
    could cost: what a conflict would cut, the odds of being drawn first, and how often each run is
    cut in 1,000 dummy draws. Of a running run: which conflicts could end it.

    A start is firm (recorded; it moves later only for a recorded cause), tentative (it follows the
    queue), not before an instant (it is behind those that are planned) or none (waiting alone will
    not help). With --exact all that wait before it are planned, too, up to 10,000: then a start
    that is behind those that are planned is tentative as well. The confidence is certain (it waits
    for no running work), expected (if running work ends when declared, or by a conflict) or rough
    (it waits for work that is overdue).
    Nothing is written.
    """
    if (run is None) == (not files):
        raise click.UsageError("give either RUN or -f FILE --dry-run")
    if files and not dry_run:
        raise click.UsageError(
            "-f plans runs that are not there yet, so it needs --dry-run; "
            "to have them carried out: quorate submit -f FILE"
        )
    from quorate.cli.ask_and_print import ask
    from quorate.operations.ledger.plan_operations import AboutRun, PlanRuns

    if run is not None:
        from quorate.cli.typed_names import run_name

        ask(settings, "plan-run", AboutRun(run=run_name(run), exact=is_exact))
        return
    from quorate.cli.sources import read_sources
    from quorate.operations.request_documents import RUNS, check_only_runs

    sources = read_sources(files, needs_owner=settings.service() is None, bare=RUNS)
    # A change that is proposed for one of several runs is no change of a file.
    source = files[0] if len(sources.documents) == 1 else "FILE"
    with sources.located():
        check_only_runs(sources.documents)
        ask(settings, "plan-runs", PlanRuns(documents=sources.trees, source=source, exact=is_exact))
