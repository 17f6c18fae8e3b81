"""``quorate complete``, ``fail``, ``cancel`` and ``tick``: end runs, or record due changes."""

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
@click.option(
    "--note", metavar="TEXT", default="", help="A note on the result; kept in the ledger."
)
@writer
@click.pass_obj
def complete(settings: Settings, runs: tuple[str, ...], note: str, dry_run: bool) -> None:
    """Record that the work of runs is done.

    The slots of the runs become free at once, and the unused GPU-hours of their holds are released.
    Then the scheduler tries to start waiting runs.
    """
    _end(settings, "complete-run", runs, note, dry_run=dry_run)


@click.command(
    epilog=examples(
        "quorate fail train-1",
        'quorate fail train-1 --note "loss is NaN since step 4,000"',
    )
)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=names_of("run"))
@click.option("--note", metavar="TEXT", default="", help="The reason; kept in the ledger.")
@writer
@click.pass_obj
def fail(settings: Settings, runs: tuple[str, ...], note: str, dry_run: bool) -> None:
    """Record that the work of runs has failed.

    A failed run is over and does not start again; its slots become free at once. Runs that follow a
    failed run fail, too, or wait until they are cancelled. For a broken machine see
    `quorate node fail`.
    """
    _end(settings, "fail-run", runs, note, dry_run=dry_run)


@click.command(
    epilog=examples(
        "quorate cancel train-1",
        "quorate cancel $(quorate get runs --phase Running -o name)",
        "quorate cancel --all --dry-run         # all your runs",
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
    help="All your runs that wait or run; needs --yes.",
)
@click.option("--user", metavar="USER", help="With --all: the runs of this user instead.")
@click.option(
    "--owner",
    metavar="OWNER",
    help="With --all: the runs of this owner; with --user only those of that user.",
)
@click.option(
    "--all-users",
    is_flag=True,
    help="With --all: the runs of all users that you may see.",
)
@click.option("--yes", is_flag=True, help="Confirm --all: cancel all selected runs.")
@click.option(
    "--now",
    is_flag=True,
    help="Kill the work at once, without a grace period, even if the work is already stopping.",
)
@click.option("--note", metavar="TEXT", default="", help="The reason; kept in the ledger.")
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

    A running run has its grace period to checkpoint; with --now it has no grace period, and loses
    unsaved work. The firm start of a cancelled run, if any, is dropped. If other runs were just
    stopped by a conflict so that the run could start, its owner cannot cause another conflict
    during the pool's cool-down. Cancelling a cancelled run changes nothing.

    If the request for one of several runs is refused, the other runs are still cancelled. The
    refusals are listed at the end, and the exit code is 1.
    """
    if is_all == bool(runs):
        raise click.UsageError(
            "name the runs: quorate cancel RUN..., or write: quorate cancel --all --yes"
        )
    if not is_all and (owner is not None or user is not None or all_users):
        raise click.UsageError("--owner, --user and --all-users need --all")
    if all_users and user is not None:
        raise click.UsageError("give --user or --all-users, not both")
    if is_all:
        from quorate.cli.ask_and_print import own_runs

        is_mine = user is None and owner is None and not all_users
        if is_mine:
            user, owner = own_runs(settings, to_cancel=True)
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
    """Record changes that are due, such as ends of windows and of rounds.

    A hold that has run out is extended, or the next payer takes over; if no payer has money, the
    run is stopped. Runs whose firm start is due are started, and conflicts that are due are
    settled. A firm start that cannot be kept is moved, and the cause is recorded. Then the
    scheduler tries to start waiting runs, and malleable runs grow if no run waits. Every command
    that writes does all this, too.
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
    """Request for each of ``runs`` the operation named ``operation``, which ends a run."""
    from quorate.cli.ask_and_print import ask_each
    from quorate.cli.typed_names import names_of_typed, typed_run
    from quorate.operations.resources.run_operations import CancelRun, EndRun

    told = checked_note(note)
    asked: list[EndRun] = []
    for word in dict.fromkeys(runs):
        typed = typed_run(word)
        names = names_of_typed(typed)
        if operation == "cancel-run":
            # Tasks of an array are cancelled in one request, so that cancelling a task starts no
            # other task.
            whole = names[0] if len(names) == 1 else typed
            asked.append(CancelRun(run=whole, note=told, dry_run=dry_run, now=now))
        else:
            asked += [EndRun(run=name, note=told, dry_run=dry_run) for name in names]
    ask_each(settings, operation, asked)


def _none_found(user: str | None, *, is_mine: bool) -> str:
    if user is None:
        return "there is no waiting or running run"
    others = "; for others: --user USER, --owner OWNER or --all-users" if is_mine else ""
    return f"{user} has no waiting or running run{others}"


def _live_runs(
    settings: Settings, owner: str | None, user: str | None, *, has_below: bool
) -> tuple[str, ...]:
    """Return the names of the waiting and running runs of an owner and a user.

    None means any owner, or any user. If ``has_below``, the result includes runs of owners below
    ``owner``. Waiting runs come before running runs, and newer runs before older ones. In this
    order, a run that follows other runs is cancelled before them, so that their end does not start
    it.
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
    """Return ``note``; raises ``CommandError`` if it is neither empty nor one short line."""
    return one_line(note, "--note", NOTE_CHARS_MAX) if note else ""
