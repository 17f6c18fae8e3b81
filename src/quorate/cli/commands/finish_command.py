"""``quorate complete``, ``fail``, ``cancel`` and ``tick``: ends of runs, and passing time."""

from __future__ import annotations

from typing import Final

import click

from quorate.cli.completing import names_of
from quorate.cli.global_options import examples, writer
from quorate.cli.settings import Settings, one_line

NOTE_CHARS_MAX: Final = 1000
_SHOWN_MAX: Final = 5


@click.command(
    epilog=examples(
        "quorate complete train-1",
        "quorate complete train-1 --dry-run     # what would start in its place?",
        'quorate complete train-1 --note "loss 1.7"',
    )
)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=names_of("run"))
@click.option("--note", metavar="TEXT", default="", help="How it went; kept in the ledger.")
@writer
@click.pass_obj
def complete(settings: Settings, runs: tuple[str, ...], note: str, dry_run: bool) -> None:
    """Record that the work of runs is done.

    Their slots are free at once, what they held and did not use is released, and runs that wait are
    tried.
    """
    _end(settings, "complete-run", runs, note, dry_run=dry_run)


@click.command(
    epilog=examples(
        "quorate fail train-1",
        'quorate fail train-1 --note "loss is NaN since step 4,000"',
    )
)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=names_of("run"))
@click.option("--note", metavar="TEXT", default="", help="Why; kept in the ledger.")
@writer
@click.pass_obj
def fail(settings: Settings, runs: tuple[str, ...], note: str, dry_run: bool) -> None:
    """Record that the work of runs has ended badly.

    A failed run is over and is not tried again; runs that follow it wait to be withdrawn, or fail.
    Its slots are free at once. For a machine that broke see: quorate node fail.
    """
    _end(settings, "fail-run", runs, note, dry_run=dry_run)


@click.command(
    epilog=examples(
        "quorate cancel train-1",
        "quorate cancel $(quorate get runs --phase Running -o name)",
        "quorate cancel --all --dry-run         # every run of yours",
        "quorate cancel sweep                   # an array: its tasks that wait or run",
        "quorate cancel 'sweep[3]' 'sweep[10-19]'     # tasks of an array",
        "quorate cancel --all --owner vision --dry-run",
        'quorate cancel train-1 --note "wrong learning rate"',
        "quorate cancel train-1 --now           # no grace to checkpoint",
    )
)
@click.argument("runs", metavar="[RUN]...", nargs=-1, shell_complete=names_of("run"))
@click.option(
    "--all",
    "is_all",
    is_flag=True,
    help="Every run of yours that waits or runs; needs --yes.",
)
@click.option("--user", metavar="USER", help="With --all: the runs of this user instead.")
@click.option(
    "--owner", metavar="OWNER", help="With --all: the runs of this owner, of all users or --user."
)
@click.option(
    "--all-users", is_flag=True, help="With --all: the runs of all users that you may see."
)
@click.option("--yes", is_flag=True, help="Cancel what --all finds without another question.")
@click.option(
    "--now",
    is_flag=True,
    help="Kill the work at once: no grace to checkpoint, also where it is stopping already.",
)
@click.option("--note", metavar="TEXT", default="", help="Why; kept in the ledger.")
@writer
@click.pass_obj
def cancel(
    settings: Settings,
    *,
    runs: tuple[str, ...],
    is_all: bool,
    user: str | None,
    owner: str | None,
    all_users: bool,
    yes: bool,
    now: bool,
    note: str,
    dry_run: bool,
) -> None:
    """Stop runs, or withdraw them from the queue.

    The work of a run that stops has its grace to checkpoint; with --now it has none, and what it
    has not saved is lost. The firm start of a cancelled run, if any, is dropped. The owner of a
    cancelled run that has just started by a conflict may not call another one for the pool's
    cool-down. A run that is cancelled already stays so.

    Of several runs, those that can be cancelled are; at the end the others are named, and the exit
    code is 1.
    """
    if is_all == bool(runs):
        raise click.UsageError(
            "name the runs: quorate cancel RUN..., or write: quorate cancel --all --yes"
        )
    if not is_all and (owner is not None or user is not None or all_users):
        raise click.UsageError("--owner, --user and --all-users go with --all")
    if all_users and user is not None:
        raise click.UsageError("write --user or --all-users, not both")
    if is_all:
        from quorate.cli.ask_and_print import own_runs

        is_mine = user is None and owner is None and not all_users
        if is_mine:
            user, owner = own_runs(settings)
        runs = _live_runs(settings, owner, user, has_below=not is_mine)
        if not runs:
            click.echo(_none_found(user, is_mine=is_mine), err=True)
            return
        if not yes and not dry_run:
            raise click.UsageError(
                f"this would cancel {len(runs)} run{'s' if len(runs) > 1 else ''} "
                f"({', '.join(runs[:_SHOWN_MAX])}{', ...' if len(runs) > _SHOWN_MAX else ''}); "
                "to do so, add --yes"
            )
    _end(settings, "cancel-run", runs, note, dry_run=dry_run, now=now)


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


def _end(
    settings: Settings,
    operation: str,
    runs: tuple[str, ...],
    note: str,
    *,
    dry_run: bool,
    now: bool = False,
) -> None:
    """Ask for one of the operations that end a run, for each of ``runs``."""
    from quorate.cli.ask_and_print import ask_each
    from quorate.cli.typed_names import names_of_typed, typed_run
    from quorate.operations.resources.run_operations import CancelRun, EndRun

    told = checked_note(note)
    asked: list[EndRun] = []
    for word in dict.fromkeys(runs):
        typed = typed_run(word)
        names = names_of_typed(typed)
        if operation == "cancel-run":
            # Tasks of an array are cancelled together, so that none starts in between.
            whole = names[0] if len(names) == 1 else typed
            asked.append(CancelRun(run=whole, note=told, dry_run=dry_run, now=now))
        else:
            asked += [EndRun(run=name, note=told, dry_run=dry_run) for name in names]
    ask_each(settings, operation, asked)


def _none_found(user: str | None, *, is_mine: bool) -> str:
    if user is None:
        return "no run waits or runs"
    others = "; for others: --user USER, --owner OWNER or --all-users" if is_mine else ""
    return f"no run of {user} waits or runs{others}"


def _live_runs(
    settings: Settings, owner: str | None, user: str | None, *, has_below: bool
) -> tuple[str, ...]:
    """Return the runs of an owner and a user, or of any, that wait or run and may be seen.

    ``has_below``: those of owners below ``owner`` are meant too, as far as they are listed for it.
    Those that wait come first, the newest of them first: a run that waits for another to be over
    must not start when that is cancelled.
    """
    from quorate.cli.ask_and_print import tree_asked
    from quorate.operations.resources.resource_operations import ListRuns

    trees = [
        each
        for phase in ("Pending", "Running")
        for each in reversed(
            tree_asked(settings, "list-runs", ListRuns(owner=owner, phase=phase))["items"]
        )
    ]
    return tuple(
        each["metadata"]["name"]
        for each in trees
        if user in (None, each["spec"]["user"])
        and (has_below or owner in (None, each["spec"]["owner"]))
    )


def checked_note(note: str) -> str:
    """Return ``note``, which is empty or one line; raises ``CommandError`` otherwise."""
    return one_line(note, "--note", NOTE_CHARS_MAX) if note else ""
