"""Bugs planted into services of one ledger, each found by a schedule that is made for it.

A schedule brings two services and their clients, step by step, to the instant at which the bug has
an effect. First, services without the bug go through the same schedule: then all answers to their
clients are right, and the services continue. No step depends on the time that anything takes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from quorate.testing.client_history import (
    Operation,
    Read,
    Submit,
    Verdict,
    Written,
    check_orders,
)
from tests.bounds import until
from tests.etcd.daemons import Cluster, Daemon, cluster
from tests.etcd.fault_play import check
from tests.etcd.fault_proxy import Links
from tests.etcd.planted_service import (
    APPEND,
    BUG_FILE,
    CODE,
    ORDER,
    ROOM_FILE,
    STOP_FILE,
    WENT_ON_FILE,
    Bug,
)
from tests.etcd.rest_client import RestClient
from tests.etcd.shared_room import obeyed_in
from tests.etcd_server import Member
from tests.oracles.effort import few_of
from tests.service.program import START_S, client
from tests.service.worlds import run_tree

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_ETCD = "m0"


@dataclass(slots=True)
class Pair:
    """Two services and their clients; ``url`` is their ledger without links in between."""

    services: Cluster
    links: Links
    folder: Path
    url: str
    clients: list[RestClient] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def by_role(self) -> tuple[Daemon, Daemon]:
        """Return the leader and the other service, when both agree."""
        leader, (other,) = self.services.by_role()
        return leader, other

    def client(self) -> RestClient:
        """Return another client; it waits for answers as long as a test may wait."""
        name = f"c{len(self.clients)}"
        made = RestClient(name, [], self.services.token, 1, answer_s=START_S, tree_of=a_tree)
        self.clients.append(made)
        return made

    def run(self) -> str:
        """Return the name of another run."""
        return f"e-{next(self.numbers)}-run"

    def submit(self, daemon: Daemon, run: str) -> Operation:
        """Submit ``run`` once through one service."""
        asking = self.client()
        with client(f"{daemon.address}/api/v1", self.services.token) as http:
            return asking.ask(http, run, Submit(asking.name))

    def record(self, daemon: Daemon) -> str:
        """Return a run whose submission was acknowledged; earlier tries may have been lost."""

        def recorded() -> str:
            run = self.run()
            answer = self.submit(daemon, run).answer
            is_done = isinstance(answer, Written) and answer.verdict is Verdict.DONE
            return run if is_done else ""

        return until(recorded, "a submission is acknowledged", START_S, tell=self.told)

    def read(self, daemon: Daemon, run: str) -> None:
        """Read ``run`` from one service, which answers from its own state."""
        asking = self.client()
        with client(f"{daemon.address}/api/v1", self.services.token) as http:
            until(
                lambda: http.get(f"/runs/{run}").is_success,
                "the service answers",
                START_S,
                tell=self.told,
            )
            asking.ask(http, run, Read())

    @contextmanager
    def stopped_at(self, instant: str) -> Iterator[Daemon]:
        """Let the leader pause while it records a run; yield the other service.

        After the block the leader continues. On return it has finished the interrupted step, and
        its client has its answer, which may come before that.
        """
        stopped, asking = until(
            lambda: self._stop(instant), "the leader stops", START_S, tell=self.told
        )
        (other,) = (each for each in self.services.daemons if each is not stopped)
        (other.folder / STOP_FILE).unlink()
        try:
            yield other
        finally:
            stopped.go_on()
            asking.join(START_S)
        went_on = stopped.folder / WENT_ON_FILE
        until(went_on.exists, "it has done what it stopped in", START_S, tell=self.told)
        went_on.unlink()
        assert not asking.is_alive(), "the client has no answer"

    def _stop(self, instant: str) -> tuple[Daemon, Thread] | None:
        """Return the paused service and its client's thread; None if no service leads."""
        run = self.run()
        for each in self.services.daemons:
            (each.folder / STOP_FILE).write_text(f"{instant} {run}", "utf-8")
        asking = Thread(target=self.submit, args=(self.services.daemons[0], run), name="asking")
        asking.start()
        until(
            lambda: any(map(is_stopped, self.services.daemons)) or not asking.is_alive(),
            "the leader has stopped, or there is none",
            START_S,
            tell=self.told,
        )
        for each in self.services.daemons:
            if is_stopped(each):
                return each, asking
        return None

    def told(self) -> object:
        """Return the last answers to clients, and the logs of the services."""
        last = [each.operations[-1:] for each in self.clients[-5:]]
        return last, [each.log() for each in self.services.daemons]

    def violations(self) -> list[str]:
        """Return the faults of the ledger, of the answers, and of the obeyed orders."""
        operations = [each for some in self.clients for each in some.operations]
        room = self.services.daemons[0].folder / ROOM_FILE
        return check(self.url, operations) + check_orders(obeyed_in(room))


def a_tree(run: str, nonce: str) -> dict[str, Any]:
    return run_tree(run, "team", 1, nonce=nonce)


def documents() -> list[dict[str, Any]]:
    """Return a node, and an owner whose runs all fit there."""
    envelope = {
        "name": "all",
        "flavor": "H100",
        "selector": {"region": "*"},
        "concurrency": 100,
        "start": "2020-01-01T00:00:00Z",
        "end": "2040-01-01T00:00:00Z",
    }
    specs: list[tuple[str, str, dict[str, Any]]] = [
        *(("Node", f"n{number}", {"flavor": "H100", "gpus": 8}) for number in range(8)),
        ("Owner", "team", {}),
        ("Budget", "team", {"owner": "team", "envelopes": [envelope]}),
    ]
    labels = {"region": "r", "cluster": "c", "fabric.domain": "A"}
    return [
        {
            "apiVersion": "quorate.dev/v1",
            "kind": kind,
            "metadata": {"name": name} | ({"labels": labels} if kind == "Node" else {}),
            "spec": spec,
        }
        for kind, name, spec in specs
    ]


def is_stopped(daemon: Daemon) -> bool:
    """Return whether every thread of a service is stopped."""
    assert daemon.program is not None
    how = os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG
    found = os.waitid(os.P_PID, daemon.program.process.pid, how)
    return found is not None and found.si_code == os.CLD_STOPPED


@contextmanager
def pair_of(member: Member, folder: Path, *, is_cut: bool) -> Iterator[Pair]:
    """Serve a new ledger by two services; if etcd ``is_cut`` off, each has a link to it."""
    with Links() as links:

        def endpoint(name: str) -> str:
            if not is_cut:
                return member.endpoint
            return f"127.0.0.1:{links.listen(name, _ETCD, member.port)}"

        made = cluster(
            endpoint, folder.name, folder, "--executor", "simulated", daemons=2, code=CODE
        )
        with made as services:
            url = f"etcd://{member.endpoint}/{folder.name}?local={folder / 'test'}"
            pair = Pair(services, links, folder, f"{url}&archive={folder / 'old'}")
            with services.client(services.daemons[0]) as http:
                until(lambda: is_applied(http), "the fleet is declared", START_S, tell=pair.told)
            yield pair


def is_applied(http: httpx.Client) -> bool:
    return http.post("/apply", json={"documents": documents()}).is_success


# --- Schedules ---


def stopped_in_an_append(pair: Pair) -> None:
    """Pause the leader with a block that it has decided; the next leader records another one."""
    with pair.stopped_at(APPEND) as other:
        pair.record(other)


def killed_after_an_answer(pair: Pair) -> None:
    """Kill the leader as soon as it has acknowledged something; the other service leads."""
    leader, other = pair.by_role()
    pair.record(leader)
    leader.kill()
    pair.record(other)


def read_while_cut_off(pair: Pair) -> None:
    """Cut the leader off from etcd, and read from it after the next leader has recorded more."""
    leader, other = pair.by_role()
    run = pair.record(leader)
    # Data that it has read before can be read without etcd.
    pair.read(leader, run)
    pair.links.cut([(leader.name, _ETCD)])
    try:
        # A write in the meantime would prevent it from answering.
        until(lambda: leads(other), "the other service leads", START_S, tell=pair.told)
        pair.record(other)
        pair.read(leader, run)
    finally:
        pair.links.mend()


def leads(daemon: Daemon) -> bool:
    return bool(daemon.standing().get("role") == "leader")


def stopped_before_an_order(pair: Pair) -> None:
    """Pause the leader with a recorded order; the next leader sends this order and others."""
    with pair.stopped_at(ORDER) as other:
        pair.record(other)


def go_on(pair: Pair) -> None:
    """Return when both services accept commands, including the interrupted one."""
    for each in pair.services.daemons:
        if each.program is None:
            each.begin()
            each.wait_ready()
    pair.by_role()
    for each in pair.services.daemons:
        pair.record(each)


@dataclass(frozen=True, slots=True)
class Case:
    """A schedule in which ``bug`` has an effect, and the expected report."""

    schedule: Callable[[Pair], None]
    bug: Bug
    said: str


CASES = {
    "no-compare": Case(stopped_in_an_append, Bug.NO_COMPARE, "is not in the ledger"),
    "early-answer": Case(killed_after_an_answer, Bug.EARLY_ANSWER, "is not in the ledger"),
    "stale-reads": Case(read_while_cut_off, Bug.STALE_READS, "but an earlier answer had"),
    "old-term": Case(stopped_before_an_order, Bug.OLD_TERM, "was obeyed after an order of term"),
}


@pytest.mark.parametrize("again", few_of(range(5), 1))
@pytest.mark.parametrize("name", CASES)
def test_a_planted_bug_is_found_and_sound_services_pass_the_same_schedule(
    etcd_member: Member, tmp_path: Path, name: str, again: int
) -> None:
    del again
    case = CASES[name]
    with pair_of(etcd_member, tmp_path, is_cut=case.schedule is read_while_cut_off) as pair:
        case.schedule(pair)
        go_on(pair)
        assert pair.violations() == []
        for each in pair.services.daemons:
            (each.folder / BUG_FILE).write_text(case.bug, "utf-8")
        case.schedule(pair)
        assert [each for each in pair.violations() if case.said in each], pair.told()
