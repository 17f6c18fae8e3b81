"""``quorate node discover --kubeconfig``: its errors if a cluster cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from tests.cli.shell import Said, Shell


@contextmanager
def api_server(status: int, body: dict[str, Any]) -> Iterator[str]:
    """Yield the address of a server that answers everything with ``body``."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def discover(shell: Shell, server: str, cluster: str = "west") -> Said:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "w", "user": "u"}}],
        "clusters": [{"name": "w", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "old"}}],
    }
    path = shell.file("kubeconfig", json.dumps(config))
    return shell("node", "discover", "--kubeconfig", path, "--cluster", cluster)


def gpu_node(name: str, **labels: str) -> dict[str, Any]:
    status = {"allocatable": {"nvidia.com/gpu": "8"}}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def test_a_cluster_that_is_no_name_is_the_fault_of_the_option(shell: Shell) -> None:
    said = discover(shell, "http://127.0.0.1:1", "We st")
    assert (said.code, said.out) == (2, "")
    assert "--cluster must be a name like west, got 'We st'" in said.err


def test_a_kubeconfig_that_is_missing_is_said_without_a_service(shell: Shell) -> None:
    said = shell("node", "discover", "--kubeconfig", "nowhere", "--cluster", "west")
    assert said.code == 4
    assert "nowhere: cannot be read: No such file or directory; correct its path" in said.err
    assert "service" not in said.err


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (401, "get a new token or certificate"),
        (403, "allow the user of the kubeconfig to list nodes"),
        (404, "name the right server?"),
    ],
)
def test_a_refusal_names_the_server_and_the_remedy(shell: Shell, status: int, remedy: str) -> None:
    with api_server(status, {"kind": "Status", "message": "No"}) as server:
        said = discover(shell, server)
    assert (said.code, said.out) == (4, "")
    assert f"{server} refused: GET /api/v1/nodes: {status} No; " in said.err
    assert remedy in said.err


def test_that_no_node_offers_gpus_is_said_only_if_so(shell: Shell) -> None:
    with api_server(200, {"items": [gpu_node("g1", region="us")]}) as server:
        said = discover(shell, server)
    assert said.code == 1
    assert "node g1 is left out" in said.err
    assert "every node with GPUs is left out; correct each as listed" in said.err
    assert "none offers" not in said.err
    with api_server(200, {"items": [{"metadata": {"name": "cpu"}}]}) as server:
        said = discover(shell, server)
    assert (
        "none of the cluster's 1 nodes can be declared: no node offers nvidia.com/gpu"
    ) in said.err
