"""The answers of a service that does not reach etcd, until it reaches etcd again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import httpx
import pytest

from tests.bounds import until
from tests.etcd.daemons import Cluster, Daemon, cluster
from tests.etcd.fault_proxy import Links
from tests.etcd_server import Member
from tests.service.conftest import documents_of
from tests.service.program import START_S, got
from tests.service.worlds import run_tree

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]

_ETCD = "m0"


@pytest.fixture
def links() -> Iterator[Links]:
    with Links() as made:
        yield made


@pytest.fixture
def pair(etcd_member: Member, links: Links, tmp_path: Path) -> Iterator[Cluster]:
    def endpoint(name: str) -> str:
        return f"127.0.0.1:{links.listen(name, _ETCD, etcd_member.port)}"

    with cluster(endpoint, tmp_path.name, tmp_path, daemons=2) as found:
        leader, _ = found.by_role()
        with found.client(leader) as http:
            until(lambda: is_declared(http), "the fleet is declared", START_S)
        yield found


def is_declared(http: httpx.Client) -> bool:
    documents = documents_of("fleet.yaml", "teams.yaml")
    return http.post("/apply", json={"documents": documents}).is_success


def submit(http: httpx.Client, name: str) -> httpx.Response:
    body = {"document": run_tree(name, "rai", 1)}
    return http.post("/runs", json=body, headers={"Idempotency-Key": name})


def unready(daemon: Daemon) -> httpx.Response | None:
    """Return the answer of ``/readyz`` of a service that has noticed the loss of etcd."""
    answer = got(f"{daemon.address}/readyz")
    is_said = answer.status_code == 503 and "cannot be read: etcd" in answer.json()["detail"]
    return answer if is_said else None


@pytest.fixture
def sharing(etcd_member: Member, links: Links, tmp_path: Path) -> Iterator[Cluster]:
    """Two services that run work on one machine, in a work folder that only one can lock."""

    def endpoint(name: str) -> str:
        return f"127.0.0.1:{links.listen(name, _ETCD, etcd_member.port)}"

    words = ("--executor", "local", "--executor-allow-root", "--work-folder", f"{tmp_path}/work")
    with cluster(endpoint, f"{tmp_path.name}-work", tmp_path, *words, daemons=2) as found:
        yield found


PAGES = (
    *("/runs", "/runs/known", "/queue", "/nodes", "/owners/rai", "/budgets", "/leases"),
    *("/map", "/top", "/cluster", "/clock"),
)
"""Answers of the state in memory, as docs/quorum.md lists them."""
OF_HISTORY = ("/ledger/events", "/runs/known/explanation")
"""Answers that a service reads from etcd, as docs/quorum.md lists them."""


def check_pages(http: httpx.Client) -> None:
    """Check that a service without etcd answers pages of its state, with their age."""
    for path in PAGES:
        read = http.get(path)
        assert read.is_success, (path, read.text)
        assert int(read.headers["quorate-lag-ms"]) > 0, path
    for path in OF_HISTORY:
        read = http.get(path)
        assert read.status_code == 503, (path, read.text)
        assert "etcd" in read.json()["detail"], path


def test_service_without_etcd_reads_what_it_knows_and_says_what_is_wrong(
    pair: Cluster, links: Links
) -> None:
    _, (cut,) = pair.by_role()
    with pair.client(cut) as http:
        until(lambda: submit(http, "known").is_success, "it takes commands", START_S)
    links.cut([(cut.name, _ETCD)])
    answer = until(lambda: unready(cut), "it is not ready", START_S)
    assert answer.headers["retry-after"]
    assert got(f"{cut.address}/healthz").is_success
    with pair.client(cut) as http:
        # No reader has read anything yet, so the service answers from its memory.
        check_pages(http)
        status = http.get("/cluster")
        assert (status.status_code, status.json()["role"]) == (200, "follower")
        members = http.get("/cluster/members")
        assert members.status_code == 503, members.text
        assert "etcd" in members.json()["detail"]
    links.mend()
    pair.by_role()
    with pair.client(cut) as http:
        until(lambda: submit(http, "after").is_success, "it takes commands", START_S)


def test_leader_without_etcd_takes_no_command_once_its_lease_is_over(
    pair: Cluster, links: Links
) -> None:
    names = (f"lost-{number}" for number in count())

    def refused() -> httpx.Response | None:
        leader, (other,) = pair.by_role()
        with pair.client(leader) as http:
            until(lambda: submit(http, "known").is_success, "it takes commands", START_S)
        links.cut([(leader.name, _ETCD)])
        until(lambda: other.standing().get("role") == "leader", "the other one leads", START_S)
        until(lambda: unready(leader), "it has noticed", START_S)
        with pair.client(leader) as http:
            check_pages(http)
            answer = submit(http, next(names))
        links.mend()
        # A service that was deposed before it was cut off knows the leader, and forwards.
        return None if answer.is_success else answer

    answer = until(refused, "a leader is cut off", START_S)
    assert answer.status_code == 503, answer.text
    assert answer.headers["retry-after"]
    assert "nothing was recorded" in answer.json()["detail"]
    assert "does not reach etcd" in answer.json()["detail"]
    pair.by_role()
    for each in pair.daemons:
        with pair.client(each) as http:
            until(lambda http=http: submit(http, "kept").is_success, "it is taken", START_S)  # type: ignore[misc]


def test_leader_without_etcd_gives_up_its_work_folder_before_another_leads(
    sharing: Cluster, links: Links
) -> None:
    leader, (other,) = sharing.by_role()
    with sharing.client(leader) as http:
        until(lambda: is_declared(http), "the fleet is declared", START_S)
    links.cut([(leader.name, _ETCD)])
    with sharing.client(leader) as http:
        # The ledger thread waits for etcd now.
        assert submit(http, "lost").status_code in (503, 504)
    until(lambda: other.standing().get("role") == "leader", "the other one leads", START_S)
    assert other.program is not None
    assert "won the election" not in other.program.err, "it could not lead: the folder was held"
    links.mend()
    sharing.by_role()
