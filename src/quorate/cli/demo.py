"""``quorate demo``: the whole life of a few runs, every step typed and shown as it was printed."""

from __future__ import annotations

import click

from quorate.cli.settings import Settings, examples


@click.command(epilog=examples("quorate demo", "quorate demo --dir tour"))
@click.option(
    "--dir", "folder", metavar="DIR", help="Work in this new folder, not a temporary one."
)
@click.pass_obj
def demo(settings: Settings, folder: str | None) -> None:
    """Show the whole life of a few runs.

    In a fresh folder: a fleet of three domains, a family of teams with budgets and a sponsor; runs
    that start, share, borrow and wait; why they wait and what helps; who paid; and a ledger in
    which one flipped bit is found. Every command is carried out as shown. Takes a few seconds.
    """
    from quorate.cli.demo_stage import open_stage
    from quorate.cli.demo_story import tell
    from quorate.cli.session import on_file

    on_file(settings, "demo")
    with open_stage(settings, folder) as stage:
        tell(stage)
