"""``quorate watch``: shows what happens to a run, to reservations or in a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from quorate.cli.completing import names_of
from quorate.cli.global_options import examples, ledger_options
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit

if TYPE_CHECKING:
    from quorate.cli.live.watch_options import WatchOptions
    from quorate.operations.ledger.plan_operations import PictureRequest

INTERVAL_MS: Final = 2_000
_INTERVAL_MS_MIN: Final = 10
_RESERVATIONS: Final = "reservations"


@click.command(
    epilog=examples(
        "quorate watch train-1 --once",
        "quorate watch reservations --once",
        "quorate watch train-1 --count 2 --interval 1s",
        "quorate watch --pool default --count 2 --interval 500ms | head -50",
    )
)
@click.argument(
    "what", metavar="[RUN|reservations]", required=False, shell_complete=names_of("run")
)
@click.option(
    "--pool",
    metavar="POOL",
    help="Only events of this pool.",
    shell_complete=names_of("pool"),
)
@click.option(
    "--interval",
    metavar="DURATION",
    help="The interval of redrawing: 500ms, 2s, 1m.  [default: 2s]",
)
@click.option("--count", metavar="N", type=click.IntRange(min=1), help="Redraw N times, then end.")
@click.option("--once", is_flag=True, help="Print once: the same as --count 1.")
@ledger_options
@click.pass_obj
def watch(
    settings: Settings,
    *,
    what: str | None,
    pool: str | None,
    interval: str | None,
    count: int | None,
    once: bool,
) -> None:
    """Watch a run, the reservations or a pool.

    On a terminal the screen is redrawn, with countdowns. Without a terminal the state is printed
    once, and then a line for each new event. For a running run the output shows the steps, rate and
    metrics that the run reports with runtime.report, and when the last step is expected. Nothing is
    written. A ledger's file is read again only after a commit. A service sends new events by
    itself; the client reconnects after a lost connection.

    Ends with exit code 0 when the run is over, however it ended, or after --count; with 130 on
    Ctrl-C.
    """
    from quorate.cli.live.watch_options import WatchOptions

    if once and count is not None:
        raise click.UsageError("give either --once or --count N")
    options = WatchOptions(
        interval_ms=INTERVAL_MS if interval is None else _interval_ms(interval),
        redraws_max=1 if once else count,
        redraw=_is_terminal() and not once,
    )
    _follow(settings, _watched(what, pool), options)


def watch_run(settings: Settings, run: str) -> None:
    """Watch a run until it is over, with the defaults of the command."""
    from quorate.cli.live.watch_options import WatchOptions
    from quorate.operations.ledger.plan_operations import PictureRequest

    options = WatchOptions(interval_ms=INTERVAL_MS, redraws_max=None, redraw=_is_terminal())
    _follow(settings, PictureRequest(run=run), options)


def _follow(settings: Settings, watched: PictureRequest, options: WatchOptions) -> None:
    """Watch ``watched`` in a ledger's file or through a service."""
    target = settings.service()
    try:
        if target is None:
            from quorate.cli.live.watch_file import follow

            follow(settings, watched, options)
        else:
            from quorate.cli.live.watching_service import follow_service

            follow_service(settings, target, watched, options)
    except KeyboardInterrupt:
        # Ctrl-C is the usual way to stop watching, so it is not an error.
        raise CommandError(Exit.INTERRUPTED) from None


def _watched(what: str | None, pool: str | None) -> PictureRequest:
    from quorate.cli.typed_names import run_name
    from quorate.operations.ledger.plan_operations import PictureRequest

    if what == _RESERVATIONS:
        return PictureRequest(reservations=True, pool=pool)
    if what is not None and pool is not None:
        raise click.UsageError("a run is in one pool; give either RUN or --pool POOL")
    return PictureRequest(run=None if what is None else run_name(what), pool=pool)


def _interval_ms(text: str) -> int:
    from quorate.documents.field_reader import At, Fault
    from quorate.documents.times import duration

    faults: list[Fault] = []
    found = duration(low_ms=1)(text, At(("--interval",), faults))
    if found is not None and found < _INTERVAL_MS_MIN:
        raise CommandError(
            Exit.USAGE, f"--interval: must be {_INTERVAL_MS_MIN}ms or more, got {text}"
        )
    if found is None:
        raise CommandError(
            Exit.USAGE, *(f"--interval: {fault.message}; {fault.remedy}" for fault in faults)
        )
    return found


def _is_terminal() -> bool:
    import sys

    return sys.stdout.isatty()
