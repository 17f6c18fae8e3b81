"""The objects of a drill: nodes, other pods, an owner with its budget, a pool, and runs."""

from __future__ import annotations

from typing import Any, Final

from tests.kubernetes.played_nodes import PlayedNodes
from tests.kubernetes.resources import Resources

SPACE, HOME = "drill-rai", "drill-home"
GPUS: Final = 8
BYSTANDERS: Final = ("stranger", "stranger-of-another-ledger")
_PLACE: Final = {"region": "us", "fabric_domain": "A", "gpu_flavor": "H100"}


def prepare(made: Resources, nodes: PlayedNodes, count: int) -> None:
    """Create ``count`` nodes, other pods on the first node, and everything to which runs refer."""
    for name in (SPACE, HOME):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        made.api.apply(f"/api/v1/namespaces/{name}", body)
    for number in range(count):
        nodes.add(f"drill-{number}", gpus=GPUS, **_PLACE)
    for name, labels in zip(BYSTANDERS, ({}, {"quorate.dev/ledger": "another"}), strict=True):
        container = {"name": "work", "image": "played", "command": ["stays"]}
        made.api.create(
            f"/api/v1/namespaces/{SPACE}/pods",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "labels": labels},
                "spec": {"containers": [container], "nodeName": "drill-0"},
            },
        )
    made.create("Owner", "rai", {})
    made.create("Budget", "rai", budget(GPUS * count))
    pool = {"selector": {"cluster": "west"}, "executor": "kubernetes", "cluster": "west"}
    made.create("Pool", "west", pool)


def clear(made: Resources) -> None:
    """Remove all that ``prepare`` and a service have created, except nodes and namespaces."""
    made.clear()
    for kind in ("pods", "services"):
        for each in made.api.list_all(f"/api/v1/namespaces/{SPACE}/{kind}")[0]:
            path = f"/api/v1/namespaces/{SPACE}/{kind}/{each['metadata']['name']}"
            made.api.delete(path, grace_s=0)
    for each in made.api.list_all(f"/api/v1/namespaces/{HOME}/configmaps")[0]:
        made.api.delete(f"/api/v1/namespaces/{HOME}/configmaps/{each['metadata']['name']}")


def work(gpus: int, command: list[str]) -> dict[str, Any]:
    """Return a run whose pods execute ``command``."""
    return {
        "owner": "rai",
        "pool": "west",
        "resources": {"gpuType": "H100", "totalGPUs": gpus},
        "image": "played",
        "command": command,
        "processes": "node",
        "runtime": {"checkpoint": "1s", "expectedDuration": "1m"},
    }


def budget(gpus: int) -> dict[str, Any]:
    """Return a budget that pays for ``gpus`` GPUs at once."""
    line = {
        "name": "all",
        "flavor": "H100",
        "selector": {"cluster": "west"},
        "concurrency": gpus,
        "start": "2026-01-01T00:00:00Z",
        "end": "2100-01-01T00:00:00Z",
    }
    return {"owner": "rai", "envelopes": [line]}
