"""``quorate demo``: five scenes on this machine, every step typed and shown as it was printed."""

from __future__ import annotations

import click

from quorate.cli.global_options import examples
from quorate.cli.settings import Settings


@click.command(epilog=examples("quorate demo", "quorate demo --dir tour"))
@click.option(
    "--dir", "folder", metavar="DIR", help="Work in this new folder, not a temporary one."
)
@click.pass_obj
def demo(settings: Settings, folder: str | None) -> None:
    """Show five scenes of the life of a fleet, with real processes.

    In a fresh folder, against a service of its own: a run that is paid for before it is placed; one
    that is refused with numbers, and the command that starts it; a node that dies; a lottery, drawn
    again by another program; an event of the ledger edited in a copy, and found. And who paid.

    Every command is carried out as shown. Takes about half a minute, and leaves nothing running.
    """
    from quorate.cli.demo.demo_place import open_stage
    from quorate.cli.demo.demo_story import tell
    from quorate.cli.session import on_file

    on_file(settings, "demo")
    with open_stage(settings, folder) as stage:
        tell(stage)
