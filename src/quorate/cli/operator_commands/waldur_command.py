"""``quorate waldur``: the status of the link to Waldur."""

from __future__ import annotations

import click

from quorate.cli.global_options import examples, reader
from quorate.cli.settings import Settings


@click.group(epilog=examples("quorate waldur status"))
def waldur() -> None:
    """Show the status of the link to Waldur."""


@waldur.command(epilog=examples("quorate waldur status", "quorate waldur status -o wide"))
@reader
@click.pass_obj
def status(settings: Settings) -> None:
    """Show the budget that counts for each linked owner, the last answers, and unsent reports."""
    from quorate.cli.ask_and_print import ask
    from quorate.operations.common_requests import Nothing

    ask(settings, "accounting-status", Nothing())
