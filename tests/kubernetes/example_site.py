"""The cluster of the worked examples: two domains, two owners, and a pool with quick conflicts."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Self

from tests.kubernetes.engines import Server
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.played_nodes import PlayedNodes
from tests.kubernetes.resources import Resources, installed

HOME = "ex-home"
SPACES = {owner: f"ex-{owner}" for owner in ("rai", "vision")}
POOL = {
    "selector": {"cluster": "west"},
    "executor": "kubernetes",
    "cluster": "west",
    "reservationNotice": "2s",
    "minRuntime": "1s",
    "disruptionRate": 1,
}


def budget(owner: str, name: str, gpus: int) -> dict[str, Any]:
    line = {
        "name": name,
        "flavor": "H100",
        "selector": {"cluster": "west"},
        "concurrency": gpus,
        "start": "2026-01-01T00:00:00Z",
        "end": "2100-01-01T00:00:00Z",
    }
    return {"owner": owner, "envelopes": [line]}


def work(owner: str, gpus: int, **more: Any) -> dict[str, Any]:
    return {
        "owner": owner,
        "pool": "west",
        "resources": {"gpuType": "H100", "totalGPUs": gpus},
        "image": "played",
        "command": ["stays"],
        "processes": "node",
        "runtime": {"checkpoint": "1s", "expectedDuration": "2h"},
        **more,
    }


class Example:
    """A cluster of two domains of 72 GPUs, with resources of two owners; it ends with the block."""

    def __init__(self, cluster: Server) -> None:
        self.cluster = cluster
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._begin(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _begin(self, stack: ExitStack) -> None:
        self.api = installed(self.cluster)
        stack.callback(self.api.close)
        for name in (HOME, *SPACES.values()):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            self.api.apply(f"/api/v1/namespaces/{name}", body)
        self.nodes = PlayedNodes(self.api)
        stack.callback(self.nodes.remove_all)
        for domain in "ab":
            for number in range(9):
                place = {"region": "us", "fabric_domain": domain, "gpu_flavor": "H100"}
                self.nodes.add(f"ex-{domain}{number}", gpus=8, **place)
        self.kubelets = {owner: Kubelet(self.cluster.api(), SPACES[owner]) for owner in SPACES}
        for each in self.kubelets.values():
            stack.callback(each.close)
            each.start()
        self.of = {owner: Resources(self.api, space) for owner, space in SPACES.items()}
        stack.callback(self._clear)

    def _clear(self) -> None:
        """Remove the objects that a service of another ledger would find."""
        self.of["rai"].clear()
        for space in SPACES.values():
            for kind in ("pods", "services"):
                for each in self.api.list_all(f"/api/v1/namespaces/{space}/{kind}")[0]:
                    path = f"/api/v1/namespaces/{space}/{kind}/{each['metadata']['name']}"
                    self.api.delete(path, grace_s=0)
        self.api.delete(f"/api/v1/namespaces/{HOME}/configmaps/quorate")

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments of a service with this cluster."""
        return (
            *("--kubernetes-clusters", f"west={self.cluster.kubeconfig}"),
            *("--kubernetes-namespace", "ex-{owner}", "--kubernetes-home", HOME),
            *("--kubernetes-resources", "west", "--kubernetes-declare-nodes", "west"),
        )

    def pods(self, owner: str) -> dict[str, int]:
        """Return the number of pods on the nodes of each domain."""
        trees, _ = self.api.list_all(f"/api/v1/namespaces/{SPACES[owner]}/pods")
        nodes = [each["spec"].get("nodeName", "") for each in trees]
        return {domain: sum(n.startswith(f"ex-{domain}") for n in nodes) for domain in "ab"}
