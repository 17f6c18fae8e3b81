"""``ledger backup``, ``restore`` and ``migrate``: verified copies of a ledger."""

from __future__ import annotations

import click

from quorate.adapters.stores.head_file import head_path
from quorate.adapters.stores.ledger_backup import SECRETS
from quorate.adapters.stores.ledger_copy import copy_store, move_store
from quorate.adapters.stores.store_urls import ledger_path, shown
from quorate.cli.printing import print_tree, telling
from quorate.cli.settings import Settings
from quorate.ledger.chain import Head
from quorate.model.closed_words import counted
from quorate.service.secret_checks import trouble_with_secrets
from quorate.views.runs.outcome_view import receipt_line


def back_up(settings: Settings, source: str, out: str, *, with_keys: bool) -> None:
    """Copy the ledger at the URL ``source`` to ``out``, and print what was copied."""
    secrets = tuple(SECRETS) if with_keys else ()
    head = copy_store(source, out, secrets=secrets)
    places = f"of {shown(source)} to {shown(out)}"
    done = f"backed up {_counts(head)} {places}, hash {head.hash.hex()}"
    with telling(done):
        if not settings.is_table:
            print_tree(settings, _tree(out, head, secrets))
            return
        click.echo(done)
        click.echo(receipt_line(head))
        names = " and ".join(f"the {name}" for name in SECRETS)
        if with_keys:
            click.echo(f"the copy has {names}: keep it where only you can read it")
        else:
            click.echo(f"the copy lacks {names}: copy these, too, or add --with-keys")


def restore(settings: Settings, backup: str, out: str) -> None:
    """Create the ledger at the URL ``out`` from a backup, with the secrets beside the backup."""
    path = ledger_path(backup)
    secrets = tuple(name for name, place in SECRETS.items() if place(path).exists())
    had_end = head_path(path).exists()
    head = copy_store(backup, out, secrets=secrets)
    done = f"restored {_counts(head)} to {shown(out)}, hash {head.hash.hex()}"
    with telling(done):
        if not settings.is_table:
            print_tree(settings, _tree(out, head, secrets))
            return
        click.echo(done)
        click.echo(receipt_line(head))
        if not had_end:
            click.echo(
                f"the restore cannot detect whether {shown(backup)} is truncated: there is no "
                f"{head_path(path).name} beside it; compare the restored ledger with a "
                "checkpoint kept elsewhere: quorate ledger verify --against CHECKPOINT"
            )
        for line in trouble_with_secrets(out):
            click.echo(line)


def migrate(settings: Settings, source: str, out: str) -> None:
    """Move the ledger at the URL ``source`` to ``out``, and print the next step."""
    head, secrets = move_store(source, out)
    done = f"moved {_counts(head)} of {shown(source)} to {shown(out)}, hash {head.hash.hex()}"
    with telling(done):
        if not settings.is_table:
            print_tree(settings, _tree(out, head, secrets))
            return
        click.echo(done)
        click.echo(receipt_line(head))
        click.echo(
            f"from now on serve {shown(out)}; keep {shown(source)} as a copy, but do not serve it "
            "again"
        )
        for line in trouble_with_secrets(out):
            click.echo(line)


def _counts(head: Head) -> str:
    return f"{counted(head.seq, 'event')} in {counted(head.height, 'block')}"


def _tree(out: str, head: Head, secrets: tuple[str, ...]) -> dict[str, object]:
    return {
        "ledger": shown(out),
        "head": {"height": head.height, "sequence": head.seq, "hash": head.hash.hex()},
        "secrets": [str(SECRETS[name](ledger_path(out))) for name in secrets],
    }
