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

    The demo works in a new folder, with its own service. In the first scene, a run is paid for
    before it is placed. In the second, a run is refused with numbers, and a command from the
    refusal starts the run. In the third, a node fails. The fourth is a lottery that another program
    verifies. In the fifth, an edited event in a copy of the ledger is detected. At the end the demo
    shows who paid.

    Every command is run as shown. The demo takes about half a minute, and leaves no processes.
    """
    from quorate.cli.demo.demo_place import open_stage
    from quorate.cli.demo.demo_story import tell
    from quorate.cli.session import on_file

    on_file(settings, "demo")
    with open_stage(settings, folder) as stage:
        tell(stage)
