"""A service with a cluster, as a process: runs become pods, by the ledger."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from quorate.adapters.kubernetes.kube_api import KubeApi
from quorate.documents.text_source import read_source
from tests.bounds import until
from tests.kubernetes.engines import Server
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.played_nodes import PlayedNodes
from tests.service.program import client, program

pytestmark = pytest.mark.slow

SPACES = ("e2e-rai", "e2e-home")
WORLD = """\
apiVersion: quorate.dev/v1
kind: Pool
metadata: {name: west}
spec: {selector: {cluster: west}, executor: kubernetes, cluster: west}
---
apiVersion: quorate.dev/v1
kind: Node
metadata: {name: e2e-1, labels: {region: us, cluster: west, fabric.domain: A}}
spec: {flavor: H100, gpus: 8}
---
apiVersion: quorate.dev/v1
kind: Node
metadata: {name: e2e-2, labels: {region: us, cluster: west, fabric.domain: A}}
spec: {flavor: H100, gpus: 8}
---
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
    - {name: west, flavor: H100, selector: {region: us}, concurrency: 16,
       start: 2026-01-01T00:00:00Z, end: 2100-01-01T00:00:00Z}
"""


def run(name: str, gpus: int, *command: str, **more: Any) -> dict[str, Any]:
    spec = {
        "owner": "rai",
        "pool": "west",
        "resources": {"gpuType": "H100", "totalGPUs": gpus},
        "image": "played",
        "command": list(command),
        "processes": "node",
        "runtime": {"checkpoint": "5s", "expectedDuration": "1h"},
        **more,
    }
    return {
        "apiVersion": "quorate.dev/v1",
        "kind": "Run",
        "metadata": {"name": name},
        "spec": spec,
    }


class Asking:
    """A client of a service, which also reads the cluster."""

    def __init__(self, http: httpx.Client, admin: KubeApi) -> None:
        self.http = http
        self.admin = admin

    def post(self, path: str, body: dict[str, Any]) -> None:
        answer = self.http.post(f"/api/v1/{path}", json=body)
        assert answer.is_success, answer.text

    def until_phase(self, name: str, phase: str) -> None:
        def look() -> bool:
            return bool(self.http.get(f"/api/v1/runs/{name}").json()["status"]["phase"] == phase)

        until(look, f"{name} is {phase}")

    def pods(self) -> dict[str, str]:
        """Return the node of each pod."""
        trees, _ = self.admin.list_all(f"/api/v1/namespaces/{SPACES[0]}/pods")
        return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in trees}


@pytest.fixture
def admin(cluster: Server) -> Iterator[KubeApi]:
    api = cluster.api()
    for name in SPACES:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        api.create("/api/v1/namespaces", body)
    nodes = PlayedNodes(api)
    for name in ("e2e-1", "e2e-2"):
        nodes.add(name)
    kubelet = Kubelet(cluster.api(), SPACES[0])
    kubelet.start()
    yield api
    kubelet.close()
    nodes.remove_all()
    api.close()


def test_runs_become_pods_and_a_service_that_is_killed_goes_on_with_them(
    cluster: Server, admin: KubeApi, tmp_path: Path
) -> None:
    words = (
        *("--kubernetes-clusters", f"west={cluster.kubeconfig}"),
        *("--kubernetes-namespace", "e2e-{owner}", "--kubernetes-home", SPACES[1]),
    )
    with program(tmp_path, *words) as first:
        url, token = first.wait_ready(), first.token
        with client(url, token) as http:
            asking = Asking(http, admin)
            sources = read_source(WORLD)
            assert isinstance(sources, tuple), sources
            asking.post("apply", {"documents": [each.tree for each in sources]})
            asking.post("runs", {"document": run("short", 8, "ends", "200")})
            asking.until_phase("short", "Completed")
            until(lambda: not asking.pods(), "no pod is left of a run that has completed")
            asking.post("runs", {"document": run("bad", 8, "fails", "50", "4")})
            asking.until_phase("bad", "Failed")
            asking.post("runs", {"document": run("long", 16, "stays")})
            until(
                lambda: sorted(asking.pods().values()) == ["e2e-1", "e2e-2"], "both pods are bound"
            )
            before = asking.pods()
        first.end(signal.SIGKILL)
    with program(tmp_path, *words) as second, client(second.wait_ready(), token) as http:
        asking = Asking(http, admin)
        asking.until_phase("long", "Running")
        assert asking.pods() == before
        asking.post("runs/long/cancel", {})
        asking.until_phase("long", "Cancelled")
        until(lambda: not asking.pods(), "no pod is left of a run that was cancelled")
        assert http.get("/readyz").is_success
        second.end()
