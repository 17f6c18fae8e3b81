"""Making a ledger and its key together: both, or neither."""

from __future__ import annotations

import secrets
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from quorate.adapters.key_file import create_key, key_path, load_key
from quorate.adapters.store_sqlite import SqliteStore
from quorate.ledger.chain import GENESIS
from quorate.ledger.checkpoint import public_key_of
from quorate.loop.engine import Engine
from quorate.ports.clock import Clock
from quorate.ports.errors import LedgerExistsError

_ID_BYTES: Final = 8


def create_ledger(path: Path, clock: Clock, *, actor: str) -> tuple[str, str]:
    """Return the id and the public key of a new ledger at ``path``; a failure leaves neither file.

    Raises ``StoreError`` and ``KeyFileError``; what exists is left alone.
    """
    ledger_id = secrets.token_hex(_ID_BYTES)
    with ExitStack() as undo:
        key = key_path(path)
        # A ledger that was begun and never finished may have its key already.
        key_was_made = path.exists() and key.exists()
        store = _new_store(path)
        undo.callback(_remove, path)
        undo.callback(store.close)
        if not key_was_made:
            create_key(key)
            undo.callback(key.unlink)
        public_key = public_key_of(load_key(key)).hex()
        engine = Engine.create(
            store, clock, ledger_id=ledger_id, public_key=public_key, actor=actor
        )
        engine.close()
        undo.pop_all()
    return ledger_id, public_key


def _new_store(path: Path) -> SqliteStore:
    """Return a store with nothing in it: a new one, or one whose making was interrupted."""
    try:
        return SqliteStore.create(path)
    except LedgerExistsError:
        store = SqliteStore.open(path)
        if store.head() == GENESIS:
            return store
        store.close()
        raise


def _remove(path: Path) -> None:
    """Remove the ledger that was just made, because the rest could not be."""
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).unlink()
