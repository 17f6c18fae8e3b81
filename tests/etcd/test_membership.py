"""The entries of services in a real etcd: they exist while a service renews its lease."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quorate.adapters.etcd.etcd_address import EtcdAddress
from quorate.adapters.etcd.etcd_client import EtcdClient
from quorate.adapters.etcd.etcd_requests import Put, Txn
from quorate.adapters.stores.etcd_records import EtcdKeys
from quorate.adapters.stores.store_etcd import EtcdStore
from quorate.ports.errors import StoreError
from quorate.ports.leader_port import LedStore, MemberRecord
from tests.bounds import until

ONE = MemberRecord(name="one", address="http://one:1", grpc="one:2", version="0.1")
TWO = MemberRecord(name="two", address="http://two:1")


@pytest.fixture
def store(address: EtcdAddress) -> Iterator[EtcdStore]:
    with EtcdStore.create(address) as store:
        yield store


def test_services_are_listed_by_name_for_as_long_as_they_live(store: EtcdStore) -> None:
    assert isinstance(store, LedStore)
    assert store.members() == []
    two, one = store.join(TWO), store.join(ONE)
    try:
        until(lambda: store.members() == [ONE, TWO], "both have their entries")
        one.close()
        assert store.members() == [TWO]
    finally:
        one.close()
        two.close()
    assert store.members() == []


def test_unreadable_entry_is_an_error_that_names_the_ledger(
    store: EtcdStore, client: EtcdClient, address: EtcdAddress
) -> None:
    key = EtcdKeys(address.name).members + b"x"
    client.commit(Txn(compare=(), then=(Put(key, b"{"),)))
    with pytest.raises(StoreError, match=f"{address.name}.*entry of a service is unreadable"):
        store.members()
