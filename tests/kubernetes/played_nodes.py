"""Nodes of a cluster, with the changes that kubelets and administrators make."""

from __future__ import annotations

from typing import Any

from quorate.adapters.kubernetes.kube_api import KubeApi
from quorate.adapters.kubernetes.node_inventory import NODES


class PlayedNodes:
    """Nodes that one test creates, changes and removes."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._names: set[str] = set()

    def add(self, name: str, *, gpus: int = 0, **labels: str) -> None:
        """Create a node that is ready."""
        dotted = {key.replace("_", "."): value for key, value in labels.items()}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": dotted}}
        self._api.create(NODES, body)
        self._names.add(name)
        self._say(name, {"capacity": {"nvidia.com/gpu": str(gpus)}})
        self.ready(name, is_ready=True)

    def ready(self, name: str, *, is_ready: bool) -> None:
        """Report as the kubelet of a node whether the node is ready."""
        status = "True" if is_ready else "False"
        self._say(name, {"conditions": [{"type": "Ready", "status": status}]})

    def cordon(self, name: str, *, is_cordoned: bool) -> None:
        self._api.merge(f"{NODES}/{name}", {"spec": {"unschedulable": is_cordoned or None}})

    def offer(self, name: str, gpus: int) -> None:
        """Report as the device plugin of a node that it has ``gpus`` GPUs."""
        self._say(name, {"allocatable": {"nvidia.com/gpu": str(gpus)}})

    def taint(self, name: str, *keys: str, effect: str = "NoExecute") -> None:
        """Set the taints of a node to exactly these."""
        taints = [{"key": key, "effect": effect} for key in keys]
        self._api.merge(f"{NODES}/{name}", {"spec": {"taints": taints}})

    def remove(self, name: str) -> None:
        self._api.delete(f"{NODES}/{name}")
        self._names.discard(name)

    def remove_all(self) -> None:
        for name in sorted(self._names):
            self.remove(name)

    def _say(self, name: str, status: dict[str, Any]) -> None:
        self._api.merge(f"{NODES}/{name}/status", {"status": status})
