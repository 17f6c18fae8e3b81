"""Makes Quorate nodes from the GPU nodes of a cluster and their labels.

Quorate's own labels come first (``region``, ``cluster``, ``fabric.domain``, ``rack``,
``gpu.flavor``). If a node lacks one of these labels, Quorate uses the label with the same meaning
that cloud providers or NVIDIA's GPU operator set. A node with an unknown fabric becomes a separate
domain, because its fast network may not connect it to other nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quorate.adapters.kubernetes.pod_manifest import GPU
from quorate.documents.labels import DOMAINS, FLAVORS, RACKS, REGIONS
from quorate.documents.values import is_name
from quorate.model.amounts import GPUS_PER_NODE_MAX
from quorate.model.selector import CLUSTER
from quorate.model.specs import Node

NODES: Final = "/api/v1/nodes"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A node that has GPUs but cannot be declared, with the reason and the remedy."""

    name: str
    why: str


def nodes_of(trees: Iterable[Mapping[str, Any]], cluster: str) -> tuple[list[Node], list[LeftOut]]:
    """Return the nodes of ``cluster`` with GPUs, by name, and the nodes that are left out.

    A node without GPUs is in neither list.
    """
    found: list[Node] = []
    left_out: list[LeftOut] = []
    for tree in sorted(trees, key=lambda each: str(each["metadata"]["name"])):
        made = node_of(tree, cluster)
        if isinstance(made, Node):
            found.append(made)
        elif made is not None:
            left_out.append(made)
    return found, left_out


def node_of(tree: Mapping[str, Any], cluster: str) -> Node | LeftOut | None:
    """Return the Quorate node for a node of ``cluster``; None if it has no GPUs."""
    name = str(tree["metadata"]["name"])
    gpus = gpus_of(tree)
    if gpus == 0:
        return None
    labels = tree["metadata"].get("labels") or {}
    place = {
        FLAVORS: _first(labels, FLAVORS),
        REGIONS: _first(labels, REGIONS),
        DOMAINS: _first(labels, DOMAINS) or name,
        (CLUSTER,): labels.get(CLUSTER) or cluster,
    }
    for keys, value in place.items():
        if not is_name(value):
            said = f"has the value {value!r}, which is not a valid name" if value else "is missing"
            remedy = f"kubectl label node {name} {keys[0]}=NAME"
            return LeftOut(name, f"its label {keys[-1]} {said}; set the label: {remedy}")
    if not is_name(name):
        return LeftOut(name, "its name is longer than 128 characters")
    if gpus > GPUS_PER_NODE_MAX:
        return LeftOut(name, f"it has {gpus} GPUs, but a node may have at most {GPUS_PER_NODE_MAX}")
    rack = _first(labels, RACKS)
    return Node(
        name=name,
        flavor=place[FLAVORS],
        gpus=gpus,
        region=place[REGIONS],
        cluster=place[CLUSTER,],
        domain=place[DOMAINS],
        rack=rack if is_name(rack) else None,
    )


def gpus_of(tree: Mapping[str, Any]) -> int:
    """Return how many GPUs a node lists as allocatable, else as capacity; 0 if it lists no GPUs."""
    status = tree.get("status") or {}
    for table in (status.get("allocatable"), status.get("capacity")):
        text = str((table or {}).get(GPU, ""))
        if text.isdecimal():
            return int(text)
    return 0


def _first(labels: Mapping[str, Any], keys: Iterable[str]) -> str:
    return next((str(labels[key]) for key in keys if labels.get(key)), "")
