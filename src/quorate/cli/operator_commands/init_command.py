"""``quorate init``: creates a ledger, its signing key and its lottery's secret, or nothing."""

from __future__ import annotations

import click

from quorate.cli.global_options import actor_option, examples, file_option, output_option
from quorate.cli.settings import Settings


@click.command(
    epilog=examples(
        "quorate init",
        "quorate --ledger fleet.db init",
    )
)
@file_option
@actor_option
@output_option
@click.pass_obj
def init(settings: Settings) -> None:
    """Create a ledger, its signing key and its lottery's secret.

    Existing files are not overwritten. Beside the ledger are two files that only you can read:
    PATH.key signs checkpoints, and PATH.lottery determines every draw of the ledger's lotteries.
    Keep copies of both files elsewhere.
    """
    make_ledger(settings, "init")


def make_ledger(settings: Settings, command: str) -> None:
    """Create the ledger of ``settings`` for ``command``, and print its files and the next step."""
    import shlex

    from quorate.adapters.key_file import key_path, lottery_path
    from quorate.adapters.stores.store_urls import has_leader
    from quorate.cli.creation import create_ledger
    from quorate.cli.printing import print_tree, telling
    from quorate.cli.session import clock_of, on_file

    asked = on_file(settings, command)
    path = settings.ledger_path
    # A ledger in etcd is found by its URL; ``path`` only names the files beside it.
    named = settings.ledger if has_leader(settings.ledger) else str(path)
    ledger_id, public_key = create_ledger(
        settings.ledger, clock_of(settings), actor=settings.actor()
    )
    created = f"created ledger {ledger_id} in {path}"
    with telling(created):
        if not settings.is_table:
            tree = {"ledger": str(path), "ledgerId": ledger_id, "publicKey": public_key}
            print_tree(settings, tree)
            return
        # The next command must use this file, not the service that other commands use.
        prefix = settings.prefix if asked is None else ("--ledger", named)
        apply = shlex.join(["quorate", *prefix, "apply"])
        click.echo(created)
        click.echo(f"signing key in {key_path(path)}; keep a copy of it elsewhere")
        click.echo(
            f"lottery's secret in {lottery_path(path)}; keep a copy of it, and keep it secret"
        )
        click.echo(f"public key {public_key}")
        click.echo(f"next: {apply} -f FILE, with nodes, owners and budgets")
        if asked is not None:
            click.echo(
                f"warning: without --ledger {shlex.quote(named)} commands go to "
                f"{asked.place.server}, not to this file; to work on it: {asked.leave}",
                err=True,
            )
