"""``quorate complete``, ``cancel`` and ``tick``: ends of runs, and the passing of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from quorate.cli.settings import Settings, examples, one_line, writer

if TYPE_CHECKING:
    from quorate.core.commands import Command

NOTE_CHARS_MAX: Final = 1000


@click.command(
    epilog=examples(
        "quorate complete train-1",
        "quorate complete train-1 --dry-run     # what would start in its place?",
        'quorate complete train-1 --note "loss 1.7"',
    )
)
@click.argument("run")
@click.option("--note", metavar="TEXT", default="", help="How it went; kept in the ledger.")
@writer
@click.pass_obj
def complete(settings: Settings, run: str, note: str, dry_run: bool) -> None:
    """Record that a run's work is done.

    Its slots are free at once, what it held and did not use is released, and runs that wait are
    tried.
    """
    from quorate.core.commands import Complete

    _do(settings, Complete(_name(run), _checked(note)), dry_run=dry_run)


@click.command(
    epilog=examples(
        "quorate cancel train-1",
        'quorate cancel train-1 --note "wrong learning rate"',
    )
)
@click.argument("run")
@click.option("--note", metavar="TEXT", default="", help="Why; kept in the ledger.")
@writer
@click.pass_obj
def cancel(settings: Settings, run: str, note: str, dry_run: bool) -> None:
    """Stop a run, or withdraw it from the queue."""
    from quorate.core.commands import Cancel

    _do(settings, Cancel(_name(run), _checked(note)), dry_run=dry_run)


@click.command(epilog=examples("quorate tick", "quorate tick --dry-run"))
@writer
@click.pass_obj
def tick(settings: Settings, dry_run: bool) -> None:
    """Do what time has made due.

    Holds that ran out are extended, or their runs stopped when no money is left, and runs that
    wait are tried. Every command that writes does this too.
    """
    from quorate.core.commands import Tick

    _do(settings, Tick(), dry_run=dry_run)


def _checked(note: str) -> str:
    return one_line(note, "--note", NOTE_CHARS_MAX) if note else note


def _name(run: str) -> str:
    """Return the run's name; ``run/NAME``, as other commands print it, is taken too."""
    return run.removeprefix("run/")


def _do(settings: Settings, command: Command, *, dry_run: bool) -> None:
    from quorate.cli.carry_out import carry_out
    from quorate.cli.session import writing

    with writing(settings, dry_run=dry_run) as engine:
        carry_out(settings, engine, command, dry_run=dry_run)
