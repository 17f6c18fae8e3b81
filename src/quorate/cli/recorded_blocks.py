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

_SQLITE: Final = b"SQLite format 3\x00"


def recorded_blocks(settings: Settings, source: str | None) -> list[list[Event]]:
    """Return the events of each block of ``source``, verified; None means the current ledger."""
    if source is not None and not _is_ledger(source):
        return [events for _, events in open_blocks(export_blocks(source))]
    store = open_to_read(settings) if source is None else read_store(source)
    with store:
        return [events for _, events in open_blocks(store.blocks())]


def _is_ledger(source: str) -> bool:
    """Return whether ``source`` is a URL or file of a store; the store reports a missing file."""
    path = Path(source)
    if not path.is_file():
        return True
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE
