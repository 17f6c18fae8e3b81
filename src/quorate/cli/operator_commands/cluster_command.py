"""``quorate cluster``: a ledger in etcd, and the services that share it."""

from __future__ import annotations

import click

from quorate.cli.global_options import (
    actor_option,
    examples,
    ledger_options,
    output_option,
    reader,
)
from quorate.cli.settings import Settings


@click.group(epilog=examples("quorate cluster status --help"))
def cluster() -> None:
    """Create a ledger that services share, show these services, or make their leader step down."""


@cluster.command(
    epilog=examples(
        "quorate cluster init --ledger 'etcd://a:2379,b:2379,c:2379/fleet?archive=/srv/quorate'",
    )
)
@ledger_options
@actor_option
@output_option
@click.pass_obj
def init(settings: Settings) -> None:
    """Check etcd and the archive, and create a ledger there for several services.

    Every etcd member in the URL must answer, have a supported version and have no alarms. The
    archive must accept a file. If a check fails, all faults are listed, and nothing is created.
    Otherwise the command does what `quorate init` does, and prints what to do on the other
    machines.
    """
    import shlex

    from quorate.adapters.key_file import key_path
    from quorate.adapters.stores import store_urls
    from quorate.cli.operator_commands.init_command import make_ledger
    from quorate.ports.errors import LedgerExistsError
    from quorate.views.exits import CommandError, Exit

    url = settings.ledger
    if not store_urls.has_leader(url):
        raise CommandError(
            Exit.USAGE,
            f"{store_urls.shown(url)}: several services can share only a ledger in etcd; give its "
            "URL with --ledger 'etcd://HOST:PORT,HOST:PORT,HOST:PORT/NAME', or create a ledger in "
            "a file with: quorate init",
        )
    faults = store_urls.faults_of_servers(url)
    if faults:
        raise CommandError(Exit.UNUSABLE, *faults, "nothing was created")
    if store_urls.store_exists(url):
        raise LedgerExistsError(url)
    make_ledger(settings, "cluster init")
    for caution in store_urls.cautions(url):
        click.echo(f"warning: {caution}", err=True)
    if settings.is_table:
        key = key_path(settings.ledger_path)
        click.echo(f"on each other machine: copy {key} to the same path, then start")
        click.echo(f"  quorate serve --ledger {shlex.quote(url)} --listen ADDRESS:8414 ...")
        click.echo("and see who leads: quorate cluster members")


@cluster.command(epilog=examples("quorate cluster status --help"))
@reader
@click.pass_obj
def status(settings: Settings) -> None:
    """Show which service leads, and how old the state of the answering service may be."""
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
    """Make the leader hand its role to another service, as before you stop the leader's machine."""
    from quorate.cli.ask_and_print import ask
    from quorate.operations.common_requests import Nothing

    ask(settings, "step-down", Nothing())
