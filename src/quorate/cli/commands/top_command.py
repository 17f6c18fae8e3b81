"""``quorate top``: the fleet at a glance."""

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
@click.option("--nodes", is_flag=True, help="Show each node, and who has how much of it; once.")
@click.option("--once", is_flag=True, help="Print it once, also on a terminal.")
@click.option(
    "--interval",
    "interval_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0.2),
    default=3.0,
    show_default=True,
    help="How often a terminal is redrawn.",
)
@reader
@click.pass_obj
def top(
    settings: Settings, *, pool: str | None, nodes: bool, once: bool, interval_s: float
) -> None:
    """Show the fleet, and who has how much of it.

    On a terminal it is redrawn with the runs that work and wait: q ends it, s changes the order
    (GPUs, time, owner, name), r reverses it, / leaves all runs out that do not have a text, w those
    that wait or work, arrows scroll. NO_COLOR turns colours off.

    Anywhere else, and with --once or -o, it is printed once: by flavor, by domain and by owner. In
    a bar # is in use, x out of service and . free. QUEUED are the GPUs that waiting runs ask for.
    Owners that are not yours to see are shown together, as (others).
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
