"""Creates a ledger, its signing key and the secret of its lottery: all of them, or none."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from typing import Final

from quorate.adapters.key_file import (
    create_key,
    create_lottery_secret,
    key_path,
    load_key,
    load_lottery_secret,
    lottery_path,
)
from quorate.adapters.stores.store_urls import (
    create_store,
    ledger_path,
    open_store,
    remove_store,
    store_exists,
)
from quorate.ledger.chain import GENESIS
from quorate.ledger.checkpoint import public_key_of
from quorate.loop.engine import Engine
from quorate.ports.clock_port import Clock
from quorate.ports.errors import LedgerExistsError
from quorate.ports.store_port import EventStore

_ID_BYTES: Final = 8


def create_ledger(url: str, clock: Clock, *, actor: str) -> tuple[str, str]:
    """Create a ledger at ``url``; return its id and public key. A failure leaves no files.

    Raises ``StoreError`` and ``KeyFileError``. Existing files are not changed.
    """
    ledger_id = secrets.token_hex(_ID_BYTES)
    path = ledger_path(url)
    with ExitStack() as undo:
        key, lottery = key_path(path), lottery_path(path)
        # If an earlier creation of this ledger was interrupted, these files may already exist.
        made = {file for file in (key, lottery) if file.exists()} if store_exists(url) else set()
        store = _new_store(url)
        undo.callback(remove_store, url)
        undo.callback(store.close)
        if key not in made:
            create_key(key)
            undo.callback(key.unlink)
        if lottery not in made:
            create_lottery_secret(lottery)
            undo.callback(lottery.unlink)
        public_key = public_key_of(load_key(key)).hex()
        engine = Engine.create(
            store,
            clock,
            ledger_id=ledger_id,
            public_key=public_key,
            actor=actor,
            lottery_secret=load_lottery_secret(lottery),
        )
        engine.close()
        undo.pop_all()
    return ledger_id, public_key


def _new_store(url: str) -> EventStore:
    """Return an empty store: a new store, or a store whose creation was interrupted."""
    try:
        return create_store(url)
    except LedgerExistsError:
        store = open_store(url)
        if store.head() == GENESIS:
            return store
        store.close()
        raise
