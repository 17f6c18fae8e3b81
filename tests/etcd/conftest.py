"""One member of etcd for each process that runs tests; each test uses a separate name in it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from quorate.adapters.etcd.etcd_address import EtcdAddress, parse_address
from quorate.adapters.etcd.etcd_client import EtcdClient
from tests.etcd_server import (
    PROGRAMS_FOLDER,
    Member,
    find_etcd,
    locked,
    one_member,
    shared_folder,
)

_NUMBERS = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a server as ``heavy``, because the server takes seconds to start."""
    for item in items:
        if "etcd_program" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.heavy)


@pytest.fixture(scope="session")
def etcd_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shared = shared_folder(tmp_path_factory)
    with locked(shared):
        return find_etcd(shared / PROGRAMS_FOLDER)


@pytest.fixture(scope="session")
def etcd_member(etcd_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    with one_member(etcd_program, tmp_path_factory.mktemp("etcd")) as member:
        yield member


@pytest.fixture
def etcd_url(etcd_member: Member, tmp_path: Path) -> str:
    """Return the URL of a ledger that does not exist yet."""
    return f"etcd://{etcd_member.endpoint}/test-{next(_NUMBERS)}?local={tmp_path / 'ledger'}"


@pytest.fixture
def address(etcd_url: str) -> EtcdAddress:
    return parse_address(etcd_url.removeprefix("etcd:"))


@pytest.fixture
def client(address: EtcdAddress) -> Iterator[EtcdClient]:
    client = EtcdClient(address)
    yield client
    client.close()
