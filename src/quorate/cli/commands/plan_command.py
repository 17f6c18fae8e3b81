"""``quorate plan``: when a run starts, why not now, who pays, and which runs it could stop."""

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
    help="YAML or JSON with Runs that are not submitted yet; needs --dry-run. May be repeated.",
)
@click.option(
    "--dry-run", is_flag=True, help="With -f: plan the runs as if they were submitted now."
)
@exact
@reader
@click.pass_obj
def plan(
    settings: Settings, *, run: str | None, files: tuple[str, ...], dry_run: bool, is_exact: bool
) -> None:
    """Show when a run is planned to start, and the conditions for it.

    Shows the planned start with a countdown, and the start without a conflict and by a conflict.
    Shows why the run does not start now, who pays, and which changes would start the run now (each
    verified by a dry run). Also shows what a conflict for this run would stop: the cuts, the odds
    of being drawn first, and how often each run is cut in 1,000 simulated draws. For a running run,
    shows which conflicts could stop it.

    A firm start is recorded, and is moved later only for a recorded cause. A tentative start
    changes with the queue. A start is "not before" a time if the run is further back in the queue
    than the pool plans. If there is no planned start, waiting alone will not help. With --exact, up
    to 10,000 runs before the run are planned, too, so that a run far back in the queue also has a
    tentative start.

    The confidence of a start is certain if no running work is in the way. It is expected if the
    start relies on running work that ends as declared, or on a conflict. It is rough if the run
    waits for overdue work.

    Nothing is written.
    """
    if (run is None) == (not files):
        raise click.UsageError("give either RUN or -f FILE --dry-run")
    if files and not dry_run:
        raise click.UsageError(
            "-f plans runs that are not submitted yet, so it needs --dry-run; "
            "to submit them: quorate submit -f FILE"
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
    # A proposed command names the file of the run; if there are several runs, it only says FILE.
    source = files[0] if len(sources.documents) == 1 else "FILE"
    with sources.located():
        check_only_runs(sources.documents)
        ask(settings, "plan-runs", PlanRuns(documents=sources.trees, source=source, exact=is_exact))
