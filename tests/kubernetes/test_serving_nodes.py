"""A service that watches the nodes of a cluster: what it marks, takes back and leaves alone."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from quorate.adapters.kubernetes.node_health import OUT_OF_SERVICE
from quorate.documents.text_source import read_source
from tests.bounds import until
from tests.kubernetes.cut_line import line_to
from tests.kubernetes.engines import Server
from tests.kubernetes.played_nodes import PlayedNodes
from tests.service.program import client, program

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_gpu_nodes")]

HOME = "watched-home"
WORLD = """\
apiVersion: quorate.dev/v1
kind: Pool
metadata: {name: west}
spec: {selector: {cluster: west}, executor: kubernetes, cluster: west}
---
apiVersion: quorate.dev/v1
kind: Node
metadata: {name: elsewhere, labels: {region: us, cluster: own, fabric.domain: A}}
spec: {flavor: H100, gpus: 8}
"""
PLACE = {"region": "us", "fabric_domain": "A", "gpu_flavor": "H100"}


@pytest.fixture
def nodes(cluster: Server) -> Iterator[PlayedNodes]:
    api = cluster.api()
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}
    api.create("/api/v1/namespaces", body)
    found = PlayedNodes(api)
    yield found
    found.remove_all()
    api.close()


def phases(http: httpx.Client) -> dict[str, str]:
    items = http.get("/api/v1/nodes").json()["items"]
    return {each["metadata"]["name"]: each["status"]["status"] for each in items}


def marks(http: httpx.Client) -> list[tuple[str, str, str]]:
    """Return the node, the status and the actor of every mark in the ledger."""
    events: list[dict[str, Any]] = http.get("/api/v1/ledger/events?limit=500").json()["items"]
    return [
        (each["node"], each["status"], each["actor"])
        for each in events
        if each["tag"].startswith("node-marked")
    ]


def until_phases(http: httpx.Client, **wanted: str) -> None:
    until(
        lambda: wanted.items() <= phases(http).items(),
        f"nodes are {wanted}",
        tell=lambda: phases(http),
    )


def test_nodes_are_declared_fail_recover_and_are_cordoned_as_the_cluster_says(
    cluster: Server, nodes: PlayedNodes, tmp_path: Path
) -> None:
    line, config = line_to(cluster, tmp_path)
    words = (
        *("--kubernetes-clusters", f"west={config}", "--kubernetes-home", HOME),
        *("--kubernetes-declare-nodes", "west", "--kubernetes-not-ready-s", "0.2"),
    )
    for name in ("w1", "w2", "w3"):
        nodes.add(name, gpus=8, **PLACE)
    with program(tmp_path, *words) as first:
        url, token = first.wait_ready(), first.token
        with client(url, token) as http:
            sources = read_source(WORLD)
            assert isinstance(sources, tuple), sources
            asked = {"documents": [each.tree for each in sources]}
            assert http.post("/api/v1/apply", json=asked).is_success
            until_phases(http, w1="Ready", w2="Ready", w3="Ready", elsewhere="Ready")
            assert marks(http) == []
            nodes.ready("w1", is_ready=False)
            nodes.taint("w2", OUT_OF_SERVICE)
            nodes.cordon("w3", is_cordoned=True)
            until_phases(http, w1="Failed", w2="Failed", w3="Cordoned")
            nodes.ready("w1", is_ready=True)
            until_phases(http, w1="Ready")
            # What an operator has marked is never taken back.
            assert http.post("/api/v1/nodes/w1/fail", json={"note": "a GPU is broken"}).is_success
            # What changes while there is no watch is seen after it.
            line.cut()
            nodes.taint("w2")
            nodes.cordon("w3", is_cordoned=False)
            line.mend()
            until_phases(http, w1="Failed", w2="Ready", w3="Ready")
        first.end(signal.SIGKILL)
    nodes.remove("w2")
    with program(tmp_path, *words) as second, client(second.wait_ready(), token) as http:
        until_phases(http, w1="Failed", w2="Failed", w3="Ready", elsewhere="Ready")
        second.end(signal.SIGKILL)
    nodes.add("w2", gpus=8, **PLACE)
    with program(tmp_path, *words) as third, client(third.wait_ready(), token) as http:
        # It was the watch of the service before that marked it.
        until_phases(http, w1="Failed", w2="Ready", w3="Ready")
        actor = "kubernetes/west"
        found = marks(http)
        assert sorted(found[:3]) == [
            ("w1", "Failed", actor),
            ("w2", "Failed", actor),
            ("w3", "Cordoned", actor),
        ]
        assert found[3] == ("w1", "Ready", actor)
        assert found[4][:2] == ("w1", "Failed")
        assert found[4][2] != actor
        assert sorted(found[5:7]) == [("w2", "Ready", actor), ("w3", "Ready", actor)]
        assert found[7:] == [("w2", "Failed", actor), ("w2", "Ready", actor)]
        assert third.end() == 0
    line.close()
