"""A service that watches the nodes of a cluster: which marks it records, reverts and leaves."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from quorate.adapters.kubernetes.cluster_owner import OWNER_CONFIG
from quorate.adapters.kubernetes.node_taints import OUT_OF_SERVICE
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
    api.apply(f"/api/v1/namespaces/{HOME}", body)
    found = PlayedNodes(api)
    yield found
    found.remove_all()
    api.delete(f"/api/v1/namespaces/{HOME}/configmaps/{OWNER_CONFIG}")
    api.close()


def phases(http: httpx.Client) -> dict[str, str]:
    items = http.get("/api/v1/nodes").json()["items"]
    return {each["metadata"]["name"]: each["status"]["status"] for each in items}


def apply(http: httpx.Client, text: str) -> None:
    sources = read_source(text)
    assert isinstance(sources, tuple), sources
    asked = {"documents": [each.tree for each in sources]}
    assert http.post("/api/v1/apply", json=asked).is_success


def events(http: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http.get("/api/v1/ledger/events?limit=500").json()["items"]
    return found


def marks(http: httpx.Client) -> list[tuple[str, str, str]]:
    """Return the node, the status and the actor of every mark in the ledger."""
    return [
        (each["node"], each["status"], each["actor"])
        for each in events(http)
        if each["tag"].startswith("node-marked")
    ]


def until_phases(http: httpx.Client, **wanted: str) -> None:
    until(
        lambda: wanted.items() <= phases(http).items(),
        f"nodes are {wanted}",
        tell=lambda: phases(http),
    )


@pytest.mark.soak
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
            apply(http, WORLD)
            until_phases(http, w1="Ready", w2="Ready", w3="Ready", elsewhere="Ready")
            assert marks(http) == []
            nodes.ready("w1", is_ready=False)
            nodes.taint("w2", OUT_OF_SERVICE)
            nodes.cordon("w3", is_cordoned=True)
            until_phases(http, w1="Failed", w2="Failed", w3="Cordoned")
            nodes.ready("w1", is_ready=True)
            until_phases(http, w1="Ready")
            # A mark of an operator is never reverted.
            assert http.post("/api/v1/nodes/w1/fail", json={"note": "a GPU is broken"}).is_success
            # Changes without a watch are seen afterwards.
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
        # The watch of the previous service marked it.
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


def test_taints_and_gpus_that_are_missing_keep_new_work_away(
    cluster: Server, nodes: PlayedNodes, tmp_path: Path
) -> None:
    words = (
        *("--kubernetes-clusters", f"west={cluster.kubeconfig}", "--kubernetes-home", HOME),
        *("--kubernetes-declare-nodes", "west"),
        *("--kubernetes-tolerated-taints", "nvidia.com/gpu,dedicated"),
    )
    for name in ("t1", "t2", "t3", "t4", "t5"):
        nodes.add(name, gpus=8, **PLACE)
    nodes.taint("t5", "starting", effect="NoSchedule")
    with program(tmp_path, *words) as service:
        with client(service.wait_ready(), service.token) as http:
            apply(http, WORLD)
            until_phases(http, t1="Ready", t2="Ready", t3="Ready", t4="Ready")
            # A node that accepts no work in the cluster is not declared before it accepts work.
            assert "t5" not in phases(http)
            nodes.taint("t1", "maintenance", effect="NoSchedule")
            nodes.taint("t2", "broken")
            nodes.taint("t3", "dedicated")
            nodes.offer("t4", 7)
            nodes.taint("t5", "nvidia.com/gpu", effect="NoSchedule")
            until_phases(http, t1="Cordoned", t2="Cordoned", t3="Ready", t4="Cordoned", t5="Ready")
            noted = (each for each in events(http) if each["tag"].startswith("node-marked"))
            notes = {each["node"]: each["note"] for each in noted}
            assert "maintenance:NoSchedule; kubectl taint node t1 maintenance-" in notes["t1"]
            assert "broken:NoExecute" in notes["t2"]
            assert notes["t4"] == "it offers 7 GPUs, but was declared with 8"
            nodes.taint("t1")
            nodes.taint("t2")
            nodes.offer("t4", 8)
            until_phases(http, t1="Ready", t2="Ready", t3="Ready", t4="Ready", t5="Ready")
        assert service.end() == 0
