"""The events of a ledger or an export, block by block, for commands that replay them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quorate.adapters.stores.store_urls import read_store
from quorate.cli.ledger_import import export_blocks
from quorate.cli.session import open_to_read
from quorate.cli.settings import Settings
from quorate.ledger.chain import open_blocks
from quorate.model.events import Event
from quorate.views.exits import CommandError, Exit

_SQLITE: Final = b"SQLite format 3\x00"


def recorded_blocks(settings: Settings, source: str | None) -> list[list[Event]]:
    """Return the events of each block of a ledger or an export, after verifying the hashes.

    Without ``source``, the blocks are those of the current ledger.
    """
    if source is None:
        _check_file(settings)
    elif not _is_ledger(source):
        return [events for _, events in open_blocks(export_blocks(source))]
    store = open_to_read(settings) if source is None else read_store(source)
    with store:
        return [events for _, events in open_blocks(store.blocks())]


def _check_file(settings: Settings) -> None:
    """Raise ``CommandError`` if a service is chosen; the error says how to export its ledger."""
    target = settings.service()
    if target is not None:
        raise CommandError(
            Exit.USAGE,
            f"this command reads a whole ledger from a file, but {target.words} is chosen; save "
            "the ledger of the service: quorate ledger export --out ledger.jsonl, and add: "
            "--from-ledger ledger.jsonl",
        )


def _is_ledger(source: str) -> bool:
    """Return whether ``source`` names a store, by a URL or a file; false for an export.

    The result is also true for a missing file: opening the store then reports the missing file.
    """
    path = Path(source)
    if not path.is_file():
        return True
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE
