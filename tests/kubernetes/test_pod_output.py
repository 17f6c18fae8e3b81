"""The output of pods by ``quorate logs --pods``, from a simulated endpoint of a kubelet."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from quorate.adapters.kubernetes.kube_api import KubeApi
from quorate.adapters.kubernetes.node_inventory import NODES
from tests.cli.shell import Said, process
from tests.kubernetes.engines import Server
from tests.kubernetes.played_nodes import PlayedNodes
from tests.kubernetes.test_kubernetes_executor import make_namespace
from tests.service.certificates import certificate

pytestmark = pytest.mark.slow

SPACE = "quorate-output"
WORLD = """\
apiVersion: quorate.dev/v1
kind: Pool
metadata: {name: west}
spec: {selector: {cluster: west}, executor: kubernetes, cluster: west}
---
apiVersion: quorate.dev/v1
kind: Node
metadata: {name: output-1, labels: {region: us, cluster: west, fabric.domain: A}}
spec: {flavor: H100, gpus: 8}
---
apiVersion: quorate.dev/v1
kind: Owner
metadata: {name: output}
---
apiVersion: quorate.dev/v1
kind: Budget
metadata: {name: output}
spec:
  owner: output
  envelopes:
    - {name: west, flavor: H100, selector: {region: us}, concurrency: 8,
       start: 2020-01-01T00:00:00Z, end: 2100-01-01T00:00:00Z}
---
apiVersion: quorate.dev/v1
kind: Run
metadata: {name: train}
spec: {owner: output, pool: west, resources: {gpuType: H100, totalGPUs: 8}, image: i, command: [x]}
"""


class Endpoint(BaseHTTPRequestHandler):
    """The answer of a kubelet to the API server's request for the output of a container."""

    def do_GET(self) -> None:
        _, kind, *where = self.path.partition("?")[0].split("/")
        is_known = kind == "containerLogs" and where[0] == SPACE
        text = f"epoch 1 of {where[1]}\nepoch 2 of {where[1]}\n" if is_known else "unknown"
        self.send_response(200 if is_known else 404)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base has it
        """Log nothing."""


@pytest.fixture
def kubelet_port(tmp_path: Path) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(tmp_path))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def api(cluster: Server, kubelet_port: int) -> Iterator[KubeApi]:
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl on the path")
    found = cluster.api()
    make_namespace(found, SPACE)
    nodes = PlayedNodes(found)
    nodes.add("output-1")
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
    }
    found.merge(f"{NODES}/output-1/status", {"status": status})
    yield found
    nodes.remove_all()
    found.close()


def make_pod(api: KubeApi, name: str, run: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"quorate.dev/run": run}},
        "spec": {"nodeName": "output-1", "containers": [{"name": "work", "image": "i"}]},
    }
    api.create(f"/api/v1/namespaces/{SPACE}/pods", body)


@pytest.mark.soak
def test_lines_of_all_pods_of_a_run_are_printed_with_the_rights_of_the_caller(
    cluster: Server, api: KubeApi, tmp_path: Path
) -> None:
    make_pod(api, "run-train-1-0", "train")
    make_pod(api, "run-train-1-1", "train")
    make_pod(api, "run-other-1-0", "other")
    (tmp_path / "world.yaml").write_text(WORLD, "utf-8")

    def quorate(*words: str, config: Path = cluster.kubeconfig) -> Said:
        return process(tmp_path, *words, env={"KUBECONFIG": str(config)})

    assert quorate("init").code == 0
    assert quorate("apply", "-f", "world.yaml").code == 0
    refused = quorate("logs", "train")
    assert refused.code == 1
    assert "quorate logs train --pods" in refused.err
    said = quorate("runs", "logs", "train", "--pods")
    assert said.code == 0, said
    assert sorted(said.out.splitlines()) == [
        f"epoch {epoch} of run-train-1-{rank}" for epoch in (1, 2) for rank in (0, 1)
    ]
    assert "[pod/run-train-1-0/work] epoch 1" in quorate("logs", "train", "--pods", "--prefix").out
    gone = quorate("logs", "train", "--pods", config=tmp_path / "nowhere")
    assert gone.code == 4
    assert "kubectl ended with code 1" in gone.err
    assert quorate("logs", "train", "-n", "elsewhere").code == 2
    assert quorate("logs", "train", "--pods", "--from", "3").code == 2
