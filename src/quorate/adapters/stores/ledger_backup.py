"""Copies a ledger, even while a service writes to it: its file, head file, and chosen secrets.

SQLite's backup reads one consistent state of the ledger and blocks no writer. The copy is one file
without a write-ahead log, with a head file beside it. ``copy_ledger`` verifies the copy.
"""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

from quorate.adapters.file_errors import damaged, translated
from quorate.adapters.key_file import copy_secret, key_path, lottery_path
from quorate.adapters.stores.head_file import HeadFile, check_absent
from quorate.adapters.stores.head_signing import EndSigner
from quorate.adapters.stores.sqlite_file import (
    check_directory,
    check_free,
    connected,
    connected_to_read,
    create_file,
    remove_file,
    resolved,
)
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.ledger.chain import GENESIS, Block, Broken, Head, verify_blocks
from quorate.ledger.checkpoint import unsigned_checkpoint

SECRETS: Final = {"signing key": key_path, "lottery's secret": lottery_path}
"""The secrets that a ledger keeps in files beside it, and their paths."""


def copy_ledger(source: Path, out: Path, *, secrets: tuple[str, ...] = ()) -> Head:
    """Copy the ledger ``source`` to ``out``, verify the copy, and return its head.

    ``secrets`` names the ``SECRETS`` to copy as well. Existing files are not changed, and a failure
    leaves no file. Raises ``CorruptLedgerError`` if the verification fails, and a ``StoreError`` or
    ``KeyFileError`` if a file cannot be read or written.
    """
    with SqliteStore.read(source) as store:
        from_path, end, first = store.path, store.kept_end(), _first(store)
    copy = resolved(out)
    with translated(copy), ExitStack() as undo:
        check_directory(copy.parent)
        check_free(copy)
        check_absent(copy)
        create_file(copy)
        undo.callback(remove_file, copy)
        with (
            closing(connected_to_read(from_path)) as reading,
            closing(connected(copy, "mode=rw")) as writing,
        ):
            _copy_pages(reading, writing)
        signer = EndSigner(from_path, first)
        # The copy must reach the head that was recorded before the copy began, and may be longer.
        file = HeadFile.create(copy, end or unsigned_checkpoint("", GENESIS, 0))
        undo.callback(file.close)
        head = _verified(copy)
        file.write(signer.record(head))
        for name in secrets:
            place = SECRETS[name](copy)
            copy_secret(SECRETS[name](from_path), place, name)
            undo.callback(place.unlink)
        undo.pop_all()
        file.close()
    return head


def _copy_pages(reading: sqlite3.Connection, writing: sqlite3.Connection) -> None:
    reading.backup(writing)
    # The copy is one self-contained file; its first writer turns the write-ahead log on again.
    writing.execute("PRAGMA journal_mode = DELETE")


def _first(store: SqliteStore) -> Block | None:
    return next(iter(store.blocks()), None)


def _verified(path: Path) -> Head:
    """Return the head of the ledger at ``path``; raises ``CorruptLedgerError`` if it is damaged."""
    with SqliteStore.read(path) as store:
        found = verify_blocks(store.blocks())
        if isinstance(found, Broken):
            raise damaged(path, found.what, height=found.height)
        return store.head()
