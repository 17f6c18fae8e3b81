"""How long three services on one ledger in etcd accept a revoked token, and the time of a failover.

The services and one member of etcd run on this machine as separate programs. An access token is
issued and, after all services accept it, revoked at one of the services in turn. The first figure
is the wall time from the response to the revocation until every service has refused the token; the
services mostly wait for each other. At the end, the leader is killed. The second figure is the time
until another service issues an access token, which is requested repeatedly.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import httpx

from benchmarks.durable import OUT
from benchmarks.figure import Effort, Figure
from tests.bounds import until
from tests.etcd.daemons import Cluster, Daemon, cluster
from tests.etcd_server import find_etcd, one_member
from tests.service.program import client

REFUSED_S = 1.0
ACCEPTED_S = 5.0
REVOCATIONS = 20


def measure(effort: Effort) -> list[Figure]:
    """Return the longest time for which a revoked token was accepted, and the failover's time."""
    OUT.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=OUT) as name:
        folder = Path(name)
        with (
            one_member(find_etcd(OUT / "engines"), folder) as member,
            cluster(member.endpoint, "fleet", folder) as services,
        ):
            services.by_role()
            count = effort.of(REVOCATIONS, 3)
            times = [
                _refused_after(services, services.daemons[number % len(services.daemons)])
                for number in range(count)
            ]
            failover_s = _failover(services)
    return [
        Figure(
            name="quorum: a revoked token is refused by every service",
            unit="s",
            value=max(times),
            better="less",
            target=REFUSED_S,
            details={"revocations": count, "median": median(times)},
        ),
        Figure(
            name="quorum: a command is taken after the leader was killed",
            unit="s",
            value=failover_s,
            better="less",
            target=ACCEPTED_S,
        ),
    ]


def _refused_after(services: Cluster, asked: Daemon) -> float:
    """Return how long any service still accepted a token that ``asked`` had revoked."""
    with services.client(asked) as http:
        issued = http.post("/tokens", json={"role": "admin", "user": "ada"})
        assert issued.is_success, issued.text
        name, token = issued.json()["token"]["id"], issued.json()["token"]["secret"]
        until(
            lambda: all(_takes(each, token) for each in services.daemons),
            "every service takes the token",
        )
        revoked = http.delete(f"/tokens/{name}")
        assert revoked.is_success, revoked.text
    began_s = perf_counter()
    until(
        lambda: not any(_takes(each, token) for each in services.daemons),
        "every service refuses the token",
        every_s=0.001,
    )
    return perf_counter() - began_s


def _failover(services: Cluster) -> float:
    """Return how long no command was accepted after the leader was killed."""
    leader, (other, _) = services.by_role()
    with services.client(other) as http:
        leader.kill()
        began_s = perf_counter()
        until(lambda: _is_taken(http), "a command is taken again")
        return perf_counter() - began_s


def _is_taken(http: httpx.Client) -> bool:
    return http.post("/tokens", json={"role": "admin", "user": "eve"}).is_success


def _takes(daemon: Daemon, token: str) -> bool:
    with client(f"{daemon.address}/api/v1", token) as http:
        return http.get("/whoami").is_success
