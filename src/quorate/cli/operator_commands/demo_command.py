"""``quorate demo``: five scenes on this machine, with real commands and their output."""

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
    """Demonstrate Quorate in five scenes, with real processes on this machine.

    The demo works in a new folder, with its own service. It shows a run that is paid for before it
    is placed; a run that is refused with numbers, and the command that starts it; a node that
    fails; a lottery, verified by another program; an edited event in a copy of the ledger, and its
    detection; and who paid.

    Every command is run as shown. The demo takes about half a minute, and leaves no processes.
    """
    from quorate.cli.demo.demo_place import open_stage
    from quorate.cli.demo.demo_story import tell
    from quorate.cli.session import on_file

    on_file(settings, "demo")
    with open_stage(settings, folder) as stage:
        tell(stage)
