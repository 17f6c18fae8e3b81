"""``quorate explain``: why a run waits, and what would start it now."""

from __future__ import annotations

import click

from quorate.cli.completing import names_of
from quorate.cli.global_options import exact, examples, reader
from quorate.cli.settings import Settings


@click.command(
    epilog=examples(
        "quorate explain train-1",
        "quorate explain train-1 -o json",
        "quorate explain train-1 --exact        # far back in a long queue",
    )
)
@click.argument("run", shell_complete=names_of("run"))
@exact
@reader
@click.pass_obj
def explain(settings: Settings, *, run: str, is_exact: bool) -> None:
    """Show why a run waits, and which changes would start it.

    Each change is listed as a command; a dry run has verified that the command would start the run
    now. For a run with a firm start, the output shows why the run has that start. For a run that
    was cut, the output shows the conflict, its seed and the odds. Nothing is changed.
    """
    from quorate.cli.ask_and_print import ask
    from quorate.cli.typed_names import run_name
    from quorate.operations.ledger.plan_operations import AboutRun

    ask(settings, "explain-run", AboutRun(run=run_name(run), exact=is_exact))
