"""One ledger for two clusters: a cap over envelopes of both holds at every instant and commit.

This needs a second API server, so ``make soak`` runs it.
``tests/unit/core/test_cap_over_clusters.py`` tests the decisions alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from quorate.documents.text_source import read_source
from tests.bounds import until
from tests.kubernetes.engines import Server
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.played_nodes import PlayedNodes
from tests.service.program import client, program

pytestmark = [pytest.mark.slow, pytest.mark.soak]

SPACES = ("two-rai", "two-home")
CAP = 16
GPUS = 8
OWNER = """\
apiVersion: quorate.dev/v1
kind: Owner
metadata: {name: rai}
---
apiVersion: quorate.dev/v1
kind: Budget
metadata: {name: rai}
spec:
  owner: rai
  envelopes:
    - {name: west, flavor: H100, selector: {cluster: west}, concurrency: 16,
       start: 2026-01-01T00:00:00Z, end: 2100-01-01T00:00:00Z}
    - {name: east, flavor: H100, selector: {cluster: east}, concurrency: 16,
       start: 2026-01-01T00:00:00Z, end: 2100-01-01T00:00:00Z}
  aggregateCaps:
    - {name: both, flavor: H100, envelopes: [west, east], maxConcurrency: 16}
"""
CLUSTER = """\
---
apiVersion: quorate.dev/v1
kind: Pool
metadata: {name: NAME}
spec: {selector: {cluster: NAME}, executor: kubernetes, cluster: NAME}
---
apiVersion: quorate.dev/v1
kind: Node
metadata: {name: two-NAME-1, labels: {region: us, cluster: NAME, fabric.domain: A}}
spec: {flavor: H100, gpus: 8}
---
apiVersion: quorate.dev/v1
kind: Node
metadata: {name: two-NAME-2, labels: {region: us, cluster: NAME, fabric.domain: A}}
spec: {flavor: H100, gpus: 8}
"""
CLUSTERS = ("west", "east")


def run(name: str, cluster: str) -> dict[str, Any]:
    spec = {
        "owner": "rai",
        "pool": cluster,
        "resources": {"gpuType": "H100", "totalGPUs": GPUS},
        "image": "played",
        "command": ["stays"],
        "processes": "node",
        "runtime": {"checkpoint": "1s", "expectedDuration": "1h"},
    }
    head = {"apiVersion": "quorate.dev/v1", "kind": "Run", "metadata": {"name": name}}
    return head | {"spec": spec}


@pytest.fixture
def kubelets(cluster: Server, uncached_nodes: Server) -> Iterator[dict[str, Kubelet]]:
    """Return the kubelets of two clusters with two nodes each."""
    found: dict[str, Kubelet] = {}
    with ExitStack() as stack:
        for name, server in zip(CLUSTERS, (cluster, uncached_nodes), strict=True):
            api = server.api()
            stack.callback(api.close)
            for space in SPACES:
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
                api.create("/api/v1/namespaces", body)
            nodes = PlayedNodes(api)
            stack.callback(nodes.remove_all)
            for number in (1, 2):
                nodes.add(f"two-{name}-{number}")
            kubelet = found[name] = Kubelet(server.api(), SPACES[0])
            stack.callback(kubelet.close)
            kubelet.start()
        yield found


def all_events(http: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http.get("/api/v1/ledger/events", params={"limit": 1_000}).json()[
        "items"
    ]
    return found


def most_leased(events: list[dict[str, Any]]) -> int:
    """Return the largest number of leased GPUs after any event."""
    leases: dict[str, int] = {}
    most = 0
    for each in events:
        tag = each["tag"].partition("/")[0]
        if tag == "lease-started":
            leases[each["lease"]] = sum(len(place["slots"]) for place in each["slots"])
        elif tag == "lease-ended":
            del leases[each["lease"]]
        most = max(most, sum(leases.values()))
    return most


def most_at_work(kubelets: dict[str, Kubelet]) -> int:
    """Return the largest number of GPUs on which pods of all clusters worked at one instant."""
    worked = [each for kubelet in kubelets.values() for each in kubelet.worked()]
    return max(
        sum(len(each.slots) for each in worked if each.began_ms <= at_ms < each.ended_ms)
        for at_ms in [each.began_ms for each in worked]
    )


def running(http: httpx.Client) -> set[str]:
    items = http.get("/api/v1/runs?limit=100").json()["items"]
    return {each["metadata"]["name"] for each in items if each["status"]["phase"] == "Running"}


def test_a_cap_over_two_clusters_holds_whatever_is_submitted_at_once(
    cluster: Server,
    uncached_nodes: Server,
    kubelets: dict[str, Kubelet],
    tmp_path: Path,
) -> None:
    words = (
        "--kubernetes-clusters",
        f"west={cluster.kubeconfig},east={uncached_nodes.kubeconfig}",
        *("--kubernetes-namespace", "two-{owner}", "--kubernetes-home", SPACES[1]),
    )
    world = OWNER + "".join(CLUSTER.replace("NAME", name) for name in CLUSTERS)
    sources = read_source(world)
    assert isinstance(sources, tuple), sources
    with (
        program(tmp_path, *words) as service,
        client(service.wait_ready(), service.token) as http,
    ):

        def post(path: str, body: dict[str, Any]) -> None:
            answer = http.post(f"/api/v1/{path}", json=body)
            assert answer.is_success, answer.text

        def at_work() -> set[str]:
            return {run for run in names if any(each.at_work(run) for each in kubelets.values())}

        post("apply", {"documents": [each.tree for each in sources]})
        names = {f"{place}-{number}": place for place in CLUSTERS for number in (1, 2)}
        with ThreadPoolExecutor(len(names)) as people:
            documents = [{"document": run(name, place)} for name, place in names.items()]
            list(people.map(lambda each: post("runs", each), documents))
        # Each cluster has room and an envelope for both of its runs, but the cap allows fewer.
        first = running(http)
        assert len(first) * GPUS == CAP
        for name in names.keys() - first:
            refusal = http.get(f"/api/v1/runs/{name}").json()["status"]["refusal"]
            assert "cap rai/both" in {each["limit"] for each in refusal["shortages"]}
        until(lambda: at_work() == first, "the pods of both work")
        post(f"runs/{min(first)}/cancel", {})
        until(lambda: len(at_work() - {min(first)}) == 2, "the next one works in its place")
        assert len(running(http)) * GPUS == CAP
        for name in names.keys() - {min(first)}:
            post(f"runs/{name}/cancel", {})
        until(lambda: not at_work(), "no pod works any more")
        assert most_leased(all_events(http)) == CAP
        assert most_at_work(kubelets) == CAP
        service.end()
