"""``ledger backup`` and ``ledger restore``: copies of a ledger, verified, and what they lack."""

from __future__ import annotations

from pathlib import Path

import click

from quorate.adapters.stores.head_file import head_path
from quorate.adapters.stores.ledger_backup import SECRETS, copy_ledger
from quorate.cli.printing import print_tree, telling
from quorate.cli.settings import Settings
from quorate.ledger.chain import Head
from quorate.model.closed_words import counted
from quorate.service.secret_checks import trouble_with_secrets
from quorate.views.runs.outcome_view import receipt_line


def back_up(settings: Settings, source: Path, out: Path, *, with_keys: bool) -> None:
    """Copy the ledger ``source`` to ``out`` and say what was copied."""
    secrets = tuple(SECRETS) if with_keys else ()
    head = copy_ledger(source, out, secrets=secrets)
    done = f"backed up {_counts(head)} of {source} to {out}, hash {head.hash.hex()}"
    with telling(done):
        if not settings.is_table:
            print_tree(settings, _tree(out, head, secrets))
            return
        click.echo(done)
        click.echo(receipt_line(head))
        names = " and ".join(f"the {name}" for name in SECRETS)
        if with_keys:
            click.echo(f"with {names}: keep this copy where only you can read it")
        else:
            click.echo(f"without {names}: keep copies of those, too, or add --with-keys")


def restore(settings: Settings, backup: Path, out: Path) -> None:
    """Make the ledger ``out`` of a backup, with the secrets that lie beside it."""
    secrets = tuple(name for name, place in SECRETS.items() if place(backup).exists())
    had_end = head_path(backup).exists()
    head = copy_ledger(backup, out, secrets=secrets)
    done = f"restored {_counts(head)} to {out}, hash {head.hash.hex()}"
    with telling(done):
        if not settings.is_table:
            print_tree(settings, _tree(out, head, secrets))
            return
        click.echo(done)
        click.echo(receipt_line(head))
        if not had_end:
            click.echo(
                f"a missing end of {backup} cannot be detected: no "
                f"{head_path(backup).name} lies beside it; compare the restored ledger with a "
                "checkpoint kept elsewhere: quorate ledger verify --against CHECKPOINT"
            )
        for line in trouble_with_secrets(str(out)):
            click.echo(line)


def _counts(head: Head) -> str:
    return f"{counted(head.seq, 'event')} in {counted(head.height, 'block')}"


def _tree(out: Path, head: Head, secrets: tuple[str, ...]) -> dict[str, object]:
    return {
        "ledger": str(out),
        "head": {"height": head.height, "sequence": head.seq, "hash": head.hash.hex()},
        "secrets": [str(SECRETS[name](out)) for name in secrets],
    }
