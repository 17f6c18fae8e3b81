"""Every store passes the same contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.ports.store_port import EventStore
from quorate.testing.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    def make_store(self) -> EventStore:
        return MemoryStore()

    def reopen(self, store: EventStore) -> EventStore:
        store.close()
        return MemoryStore(store.blocks())


class TestSqliteStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "ledger.db"

    def make_store(self) -> EventStore:
        return SqliteStore.create(self.path)

    def reopen(self, store: EventStore) -> EventStore:
        store.close()
        return SqliteStore.open(self.path)
