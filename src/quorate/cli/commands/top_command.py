"""``quorate top``: the GPU usage of the fleet, live."""

from __future__ import annotations

import click

from quorate.cli.completing import names_of
from quorate.cli.global_options import examples, reader
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit


@click.command(
    epilog=examples(
        "quorate top --once", "quorate top --pool default -o wide", "quorate top --nodes"
    )
)
@click.option("--pool", metavar="POOL", help="Only this pool.", shell_complete=names_of("pool"))
@click.option("--nodes", is_flag=True, help="Show the owners of the work on each node; print once.")
@click.option("--once", is_flag=True, help="Print once, also on a terminal.")
@click.option(
    "--interval",
    "interval_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0.2),
    default=3.0,
    show_default=True,
    help="The interval of redrawing.",
)
@reader
@click.pass_obj
def top(
    settings: Settings, *, pool: str | None, nodes: bool, once: bool, interval_s: float
) -> None:
    """Show the GPU usage of the fleet.

    On a terminal the screen is redrawn, with running and waiting runs. Keys: q quits, s changes the
    sort order (GPUs, time, owner, name), r reverses the order, / filters the runs by a text, w
    switches between waiting and running runs, arrows scroll. NO_COLOR turns colours off.

    Without a terminal, and with --once or -o, the output is printed once: by flavor, by domain and
    by owner. In a bar, # is a GPU in use, x a GPU out of service, and . a free GPU. QUEUED is the
    number of GPUs that waiting runs request. Owners that you may not see are combined as (others).
    """
    if settings.output == "table" and not (once or nodes) and _is_terminal():
        from quorate.cli.live.top_live import watch_fleet

        try:
            watch_fleet(settings, pool, interval_s)
        except KeyboardInterrupt:
            raise CommandError(Exit.INTERRUPTED) from None
        return
    from quorate.cli.ask_and_print import ask
    from quorate.operations.fleet.observe_operations import FleetTop, ShowMap

    if nodes:
        ask(settings, "fleet-map", ShowMap(pool=pool))
        return
    ask(settings, "fleet-top", FleetTop(pool=pool))


def _is_terminal() -> bool:
    import sys

    return sys.stdin.isatty() and sys.stdout.isatty()
