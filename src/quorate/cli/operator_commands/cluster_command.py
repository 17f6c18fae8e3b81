"""``quorate cluster``: the services that share one ledger in etcd."""

from __future__ import annotations

import click

from quorate.cli.global_options import examples, reader
from quorate.cli.settings import Settings


@click.group(epilog=examples("quorate cluster status --help"))
def cluster() -> None:
    """Show the services that share a ledger, or make the leader step down."""


@cluster.command(epilog=examples("quorate cluster status --help"))
@reader
@click.pass_obj
def status(settings: Settings) -> None:
    """Show which service leads, and the maximal age of the answering service's state."""
    from quorate.cli.ask_and_print import ask
    from quorate.operations.common_requests import Nothing

    ask(settings, "cluster-status", Nothing())


@cluster.command(epilog=examples("quorate cluster members --help"))
@reader
@click.pass_obj
def members(settings: Settings) -> None:
    """List the services that share the ledger, with their addresses."""
    from quorate.cli.ask_and_print import ask
    from quorate.operations.common_requests import Nothing

    ask(settings, "cluster-members", Nothing())


@cluster.command("step-down", epilog=examples("quorate cluster step-down --help"))
@reader
@click.pass_obj
def step_down(settings: Settings) -> None:
    """Make the leader hand the leadership to another service, before its machine is stopped."""
    from quorate.cli.ask_and_print import ask
    from quorate.operations.common_requests import Nothing

    ask(settings, "step-down", Nothing())
