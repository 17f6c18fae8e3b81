"""``quorate complete``, ``fail``, ``cancel`` and ``tick``: ends of runs, and passing time."""

from __future__ import annotations

from typing import Final

import click

from quorate.cli.completing import names_of
from quorate.cli.global_options import examples, writer
from quorate.cli.settings import Settings, one_line

NOTE_CHARS_MAX: Final = 1000


@click.command(
    epilog=examples(
        "quorate complete train-1",
        "quorate complete train-1 --dry-run     # what would start in its place?",
        'quorate complete train-1 --note "loss 1.7"',
    )
)
@click.argument("run", shell_complete=names_of("run"))
@click.option("--note", metavar="TEXT", default="", help="How it went; kept in the ledger.")
@writer
@click.pass_obj
def complete(settings: Settings, run: str, note: str, dry_run: bool) -> None:
    """Record that a run's work is done.

    Its slots are free at once, what it held and did not use is released, and runs that wait are
    tried.
    """
    _end(settings, "complete-run", run, note, dry_run=dry_run)


@click.command(
    epilog=examples(
        "quorate fail train-1",
        'quorate fail train-1 --note "loss is NaN since step 4,000"',
    )
)
@click.argument("run", shell_complete=names_of("run"))
@click.option("--note", metavar="TEXT", default="", help="Why; kept in the ledger.")
@writer
@click.pass_obj
def fail(settings: Settings, run: str, note: str, dry_run: bool) -> None:
    """Record that a run's work has ended badly.

    The run is over and is not tried again; runs that follow it wait to be withdrawn, or fail. Its
    slots are free at once. For a machine that broke see: quorate node fail.
    """
    _end(settings, "fail-run", run, note, dry_run=dry_run)


@click.command(
    epilog=examples(
        "quorate cancel train-1",
        'quorate cancel train-1 --note "wrong learning rate"',
    )
)
@click.argument("run", shell_complete=names_of("run"))
@click.option("--note", metavar="TEXT", default="", help="Why; kept in the ledger.")
@writer
@click.pass_obj
def cancel(settings: Settings, run: str, note: str, dry_run: bool) -> None:
    """Stop a run, or withdraw it from the queue.

    Its firm start, if any, is dropped. The owner of a cancelled run that has just started by a
    conflict may not call another one for the pool's cool-down. A run that is cancelled already
    stays so.
    """
    _end(settings, "cancel-run", run, note, dry_run=dry_run)


@click.command(epilog=examples("quorate tick", "quorate tick --dry-run"))
@writer
@click.pass_obj
def tick(settings: Settings, dry_run: bool) -> None:
    """Do what time has made due.

    Holds that ran out are extended, handed over to the next payer, or their runs stopped when no
    money is left; firm starts that are due are kept, conflicts that are due are settled, and what
    cannot be kept moves, with its cause; waiting runs are tried, and malleable ones grow when no
    run waits. Every command that writes does this too.
    """
    from quorate.cli.ask_and_print import ask
    from quorate.operations.fleet.fleet_operations import Tick

    ask(settings, "tick", Tick(dry_run=dry_run))


def _end(settings: Settings, name: str, run: str, note: str, *, dry_run: bool) -> None:
    """Ask for one of the operations that end a run."""
    from quorate.cli.ask_and_print import ask
    from quorate.operations.resources.run_operations import EndRun

    ask(settings, name, EndRun(run=run_name(run), note=checked_note(note), dry_run=dry_run))


def run_name(run: str) -> str:
    """Return the run's name; ``run/NAME``, as other commands print it, is taken too."""
    return run.removeprefix("run/")


def checked_note(note: str) -> str:
    """Return ``note``, which is empty or one line; raises ``CommandError`` otherwise."""
    return one_line(note, "--note", NOTE_CHARS_MAX) if note else ""
