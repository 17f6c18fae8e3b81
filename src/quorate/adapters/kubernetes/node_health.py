"""Reads the health of a cluster's nodes, and decides which of them have failed. Pure.

A node has failed when the cluster no longer has it, when it has the out-of-service taint, or when
it was not ready for too long. A cordoned node has not failed, but gets no new work. The same holds
for a node with a taint that keeps pods away, and for a node that offers fewer GPUs than the ledger
has for it. (If GPUs are missing, the kubelet of the node would refuse pods.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from quorate.adapters.kubernetes.node_inventory import LeftOut, gpus_of, node_of
from quorate.adapters.kubernetes.node_taints import OUT_OF_SERVICE, Taint, closing, taints_of
from quorate.model.specs import Node


class Health(StrEnum):
    """The status that the ledger should have for a node; ``UNSURE`` leaves the status unchanged."""

    READY = "ready"
    CORDONED = "cordoned"
    FAILED = "failed"
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenNode:
    """A node of the cluster; ``gpus`` is how many of its GPUs are allocatable now.

    ``declared`` is the Quorate node that is made from the node, or the reason why none can be made.
    It is None if the node has no GPUs.
    """

    is_ready: bool
    is_cordoned: bool = False
    is_out_of_service: bool = False
    taints: tuple[Taint, ...] = ()
    gpus: int = 0
    declared: Node | LeftOut | None = None


def seen_node(tree: Mapping[str, Any], cluster: str) -> SeenNode:
    """Return the ``SeenNode`` of a Node object."""
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    return SeenNode(
        is_ready=any(
            each.get("type") == "Ready" and each.get("status") == "True"
            for each in status.get("conditions") or []
        ),
        is_cordoned=spec.get("unschedulable") is True,
        is_out_of_service=any(
            each.get("key") == OUT_OF_SERVICE for each in spec.get("taints") or []
        ),
        taints=taints_of(tree),
        gpus=gpus_of(tree),
        declared=node_of(tree, cluster),
    )


@dataclass(frozen=True, slots=True)
class Finding:
    """The health of a node, and the reason.

    A node that is still not ready at ``due_s`` has failed. ``taint`` is a taint of the node that
    evicts pods, except pods that tolerate the taint.
    """

    health: Health
    why: str = ""
    due_s: float | None = None
    taint: Taint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How long a node may be not ready, and the keys of the taints that work tolerates."""

    not_ready_s: float
    taints: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenNodes:
    """All nodes of a cluster at one instant of a monotonic clock.

    ``unready_s`` has each node that is not ready, with the instant at which the node was first seen
    not ready.
    """

    nodes: Mapping[str, SeenNode]
    unready_s: Mapping[str, float] = field(default_factory=dict)

    def finding(self, name: str, now_s: float, tolerance: Tolerance, gpus: int = 0) -> Finding:
        """Return the finding for a node that has ``gpus`` GPUs in the ledger.

        If ``gpus`` is 0, the number of GPUs is not checked.
        """
        node = self.nodes.get(name)
        if node is None:
            return Finding(Health.FAILED, "the cluster does not have this node")
        if node.is_out_of_service:
            return Finding(Health.FAILED, f"it has the taint {OUT_OF_SERVICE}")
        if not node.is_ready:
            due_s = self.unready_s[name] + tolerance.not_ready_s
            if now_s < due_s:
                return Finding(Health.UNSURE, due_s=due_s)
            return Finding(Health.FAILED, f"not ready for {tolerance.not_ready_s:g} s")
        return _of_ready(name, node, tolerance, gpus)


def _of_ready(name: str, node: SeenNode, tolerance: Tolerance, gpus: int) -> Finding:
    """Return the finding for a ready node: whether it takes new work."""
    taint = closing(node.taints, tolerance.taints)
    if taint is not None:
        remedy = f"kubectl taint node {name} {taint.key}-"
        why = f"it has the taint {taint}; {remedy}, or add its key to kubernetes.tolerated_taints"
        return Finding(Health.CORDONED, why, taint=taint if taint.is_ending_pods else None)
    if node.is_cordoned:
        return Finding(Health.CORDONED, "cordoned in the cluster")
    if node.gpus < gpus:
        return Finding(Health.CORDONED, f"it offers {node.gpus} GPUs, but was declared with {gpus}")
    return Finding(Health.READY, "ready in the cluster")
