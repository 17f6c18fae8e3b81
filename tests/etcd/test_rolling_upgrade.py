"""Services of two versions share a ledger while they are upgraded one after the other."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from quorate.adapters.stores import store_urls
from quorate.ledger.chain import Verified, verify_blocks
from quorate.version import __version__
from tests.bounds import until
from tests.etcd.daemons import Cluster, Daemon, cluster
from tests.etcd.planted_versions import NEWER, NEWER_VERSION, OLDER
from tests.etcd_server import Member
from tests.service.conftest import documents_of
from tests.service.program import CLI, START_S
from tests.service.worlds import run_tree

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]


def submit(served: Cluster, daemon: Daemon, name: str) -> None:
    """Submit a run through one service, until it is accepted."""
    body = {"document": run_tree(name, "rai", 1)}

    def tried() -> bool:
        answer = http.post("/runs", json=body, headers={"Idempotency-Key": name})
        assert answer.is_success or answer.status_code in (503, 504), answer.text
        return answer.is_success

    with served.client(daemon) as http:
        until(tried, f"{name} is accepted", START_S)


def upgrade(served: Cluster, daemon: Daemon, code: str) -> None:
    """End a service like its unit, and start it as another version."""
    assert daemon.program is not None
    assert daemon.program.end() == 0, daemon.log()
    daemon.kill()
    daemon.code = code
    daemon.begin()
    daemon.wait_ready()
    served.by_role()


def lead(served: Cluster, wanted: Daemon) -> None:
    """Make one of two services lead."""
    leader, _ = served.by_role()
    if leader is not wanted:
        with served.client(leader) as http:
            assert http.post("/cluster/step-down").is_success
        until(lambda: wanted.standing().get("role") == "leader", "the other leads", START_S)
        served.by_role()


def versions(http: httpx.Client) -> dict[str, str]:
    return {each["name"]: each["version"] for each in http.get("/cluster/members").json()["items"]}


@pytest.mark.parametrize("newer", [NEWER, CLI], ids=["to-a-newer-one", "from-an-older-one"])
def test_services_of_two_versions_share_a_ledger(
    etcd_member: Member, tmp_path: Path, newer: str
) -> None:
    older = CLI if newer == NEWER else OLDER
    said = {CLI: __version__, NEWER: NEWER_VERSION, OLDER: ""}
    endpoint = etcd_member.endpoint
    with cluster(endpoint, tmp_path.name, tmp_path, daemons=2, code=older) as served:
        first, (second,) = served.by_role()
        with served.client(first) as http:
            documents = documents_of("fleet.yaml", "teams.yaml")
            assert http.post("/apply", json={"documents": documents}).is_success
        # The leader is upgraded last.
        upgrade(served, second, newer)
        runs: list[str] = []
        for leader in (first, second):
            lead(served, leader)
            for each in (first, second):
                runs.append(f"run-{len(runs)}")
                submit(served, each, runs[-1])
            with served.client(first) as old, served.client(second) as new:
                wanted = {first.name: said[older], second.name: said[newer]}
                assert versions(old) == versions(new) == wanted
        upgrade(served, first, newer)
        for each in (first, second):
            submit(served, each, f"after-{each.name}")
            with served.client(each) as http:
                found = {item["metadata"]["name"] for item in http.get("/runs").json()["items"]}
            assert set(runs) <= found
        url = first.ledger
    with store_urls.read_store(url) as store:
        assert isinstance(verify_blocks(list(store.blocks()), deep=True), Verified)


def test_older_service_that_meets_an_unknown_event_says_so_and_the_newer_ones_go_on(
    etcd_member: Member, tmp_path: Path
) -> None:
    endpoint = etcd_member.endpoint
    with cluster(endpoint, tmp_path.name, tmp_path, daemons=2, code=OLDER) as served:
        old, (new,) = served.by_role()
        upgrade(served, new, CLI)
        lead(served, new)
        with served.client(new) as http:
            issued = http.post("/tokens", json={"role": "admin", "user": "ada"}).json()
            assert http.delete(f"/tokens/{issued['token']['id']}").is_success

        def refused() -> str:
            return str(old.standing().get("detail", ""))

        assert old.program is not None
        why = until(
            refused,
            "the older one is not ready",
            START_S,
            server=old.program.process,
            tell=lambda: (old.standing(), old.log()),
        )
        assert "written by a newer Quorate" in why
        with served.client(new) as http:
            documents = documents_of("fleet.yaml", "teams.yaml")
            assert http.post("/apply", json={"documents": documents}).is_success
        submit(served, new, "goes-on")
        upgrade(served, old, CLI)
        submit(served, old, "upgraded")
        assert old.standing()["role"] in ("leader", "follower")
        with served.client(new) as http:
            assert set(versions(http).values()) == {__version__}
