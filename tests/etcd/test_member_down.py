"""One of three members of etcd is down: the ledger can still be opened, written and served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.adapters.etcd.etcd_address import parse_address
from quorate.adapters.etcd.etcd_client import EtcdClient
from quorate.adapters.etcd.etcd_requests import Put, Txn
from quorate.adapters.stores import store_urls
from quorate.core.commands import Apply
from quorate.loop.engine import Engine
from quorate.model.specs import Owner
from quorate.ports.errors import StoreFullError
from quorate.testing.memory_engines import HandClock
from tests.etcd.etcd_trio import Trio, trio
from tests.etcd.test_serving_etcd import EXAMPLES, SUBMIT, quorate
from tests.etcd_server import pause
from tests.service.program import program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WAYS = ("killed", "hung")


@pytest.fixture
def members(etcd_program: Path, tmp_path: Path) -> Iterator[Trio]:
    with trio(etcd_program, tmp_path, "--unsafe-no-fsync") as found:
        yield found
        for process in found.processes:
            process.kill()


def lose(members: Trio, at: int, way: str) -> None:
    """Kill a member, or pause it so that it still accepts connections but does not answer."""
    process = members.processes[at]
    if way == "hung":
        pause(process)
    else:
        process.kill()
        process.wait()


def fill(client: EtcdClient) -> None:
    """Put one key until its history fills the space of etcd."""
    for _ in range(100):
        client.commit(Txn(compare=(), then=(Put(b"other", bytes(1 << 20)),)))


@pytest.mark.parametrize("way", WAYS)
def test_a_ledger_is_written_and_served_while_one_of_three_members_is_down(
    members: Trio, tmp_path: Path, way: str
) -> None:
    url = f"etcd://{members.endpoints}/fleet?local={tmp_path / 'ledger'}"
    quorate(tmp_path, url, "init")
    files = [str(EXAMPLES / name) for name in ("fleet.yaml", "teams.yaml")]
    quorate(tmp_path, url, "apply", "-f", files[0], "-f", files[1])
    lose(members, 0, way)
    with store_urls.open_store(url) as store:
        Engine.open(store, HandClock()).execute(Apply((Owner(name="late"),)), actor="test")
    assert "started on 2 H100 GPUs" in quorate(tmp_path, url, *SUBMIT)
    with program(tmp_path, "--ledger", url) as served:
        served.wait_ready()
        assert served.end() == 0


def test_space_is_recovered_while_one_of_three_members_is_down(
    etcd_program: Path, tmp_path: Path
) -> None:
    more = ("--unsafe-no-fsync", "--quota-backend-bytes", str(8 << 20))
    with trio(etcd_program, tmp_path, *more) as members:
        url = f"etcd://{members.endpoints}/fleet?local={tmp_path / 'ledger'}"
        with store_urls.create_store(url) as store:
            Engine.create(store, HandClock(), ledger_id="l", public_key="", actor="test")
        client = EtcdClient(parse_address(url.removeprefix("etcd:")))
        with pytest.raises(StoreFullError):
            fill(client)
        client.close()
        lose(members, 0, "killed")
        with store_urls.open_store(url) as store:
            Engine.open(store, HandClock()).execute(Apply((Owner(name="late"),)), actor="test")
