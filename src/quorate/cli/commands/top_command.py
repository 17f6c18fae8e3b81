"""``quorate top``: the fleet at a glance."""

from __future__ import annotations

import click

from quorate.cli.completing import names_of
from quorate.cli.global_options import examples, reader
from quorate.cli.settings import Settings


@click.command(
    epilog=examples("quorate top", "quorate top --pool default -o wide", "quorate top --nodes")
)
@click.option("--pool", metavar="POOL", help="Only this pool.", shell_complete=names_of("pool"))
@click.option("--nodes", is_flag=True, help="Show each node, and who has how much of it.")
@reader
@click.pass_obj
def top(settings: Settings, pool: str | None, nodes: bool) -> None:
    """Show the fleet, and who has how much of it.

    By flavor, by domain and by owner. In a bar # is in use, x out of service and . free. QUEUED are
    the GPUs that waiting runs ask for. Owners that are not yours to see are shown together, as
    (others).
    """
    from quorate.cli.ask_and_print import ask
    from quorate.operations.fleet.looking_operations import FleetTop, ShowMap

    if nodes:
        ask(settings, "fleet-map", ShowMap(pool=pool))
        return
    ask(settings, "fleet-top", FleetTop(pool=pool))
