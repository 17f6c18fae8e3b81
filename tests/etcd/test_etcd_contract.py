"""A store in etcd passes the contract of stores."""

from __future__ import annotations

import pytest

from quorate.adapters.etcd.etcd_address import EtcdAddress
from quorate.adapters.stores.store_etcd import EtcdStore
from quorate.ports.store_port import EventStore
from quorate.testing.store_contract import StoreContract

pytestmark = pytest.mark.slow


class TestEtcdStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _address(self, address: EtcdAddress) -> None:
        self.address = address

    def make_store(self) -> EventStore:
        return EtcdStore.create(self.address)

    def reopen(self, store: EventStore) -> EventStore:
        store.close()
        return EtcdStore.open(self.address)


class TestEtcdStoreOfSmallSegments(StoreContract):
    """Every snapshot closes segments, so that reads go through the archive."""

    @pytest.fixture(autouse=True)
    def _address(self, address: EtcdAddress) -> None:
        self.address = address

    def make_store(self) -> EventStore:
        return EtcdStore.create(self.address, segment_bytes=1)

    def reopen(self, store: EventStore) -> EventStore:
        store.close()
        return EtcdStore.open(self.address, segment_bytes=1)
