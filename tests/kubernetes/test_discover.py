"""``quorate node discover`` on a real cluster: its output can be applied."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.kubernetes.engines import Server

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_gpu_nodes")]
LABELS = {"region": "us", "gpu.flavor": "H100", "fabric.domain": "A"}


def test_the_gpu_nodes_of_a_cluster_are_printed_as_documents_that_can_be_applied(
    cluster: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path, capsys)
    config = str(cluster.kubeconfig)
    words = ("node", "discover", "--kubeconfig", config, "--cluster", "west")
    assert "is the device plugin installed?" in shell(*words).err
    api = cluster.api()
    for name, labels, gpus in (("g1", LABELS, "8"), ("g2", {}, "4"), ("cpu", LABELS, "0")):
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        api.create("/api/v1/nodes", body)
        status = {"status": {"capacity": {"nvidia.com/gpu": gpus}}}
        api.merge(f"/api/v1/nodes/{name}/status", status)
    found = shell(*words)
    assert "node g2 is left out" in found.err
    shell.file("nodes.yaml", found.out)
    shell.ok("init")
    assert "node/g1 created" in shell.ok("apply", "-f", "nodes.yaml")
    (node,) = shell("get", "nodes", "-o", "json").json["items"]
    assert node["spec"] == {"flavor": "H100", "gpus": 8}
    assert node["metadata"]["labels"]["cluster"] == "west"
    for name in ("g1", "g2", "cpu"):
        api.delete(f"/api/v1/nodes/{name}")
    api.close()
