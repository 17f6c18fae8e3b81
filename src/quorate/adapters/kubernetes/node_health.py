"""What a cluster says of its nodes, and which of them have failed; pure.

A node has failed when the cluster does not have it any more, when it has the taint that says it is
out of service, or when it was not ready for longer than it may be. A cordon is no failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from quorate.adapters.kubernetes.node_inventory import LeftOut, node_of
from quorate.model.specs import Node

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""The taint that an administrator gives to a node that is shut down for good or broken."""


class Health(StrEnum):
    """What the ledger should say of a node; ``UNSURE`` where it stays as it is."""

    READY = "ready"
    CORDONED = "cordoned"
    FAILED = "failed"
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenNode:
    """A node of the cluster; ``declared`` is the node of Quorate, None where it has no GPUs."""

    is_ready: bool
    is_cordoned: bool = False
    is_out_of_service: bool = False
    declared: Node | LeftOut | None = None


def seen_node(tree: Mapping[str, Any], cluster: str) -> SeenNode:
    """Return what the object of a node says."""
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
        declared=node_of(tree, cluster),
    )


@dataclass(frozen=True, slots=True)
class Finding:
    """The health of a node, and why; ``due_s`` is when it fails if it does not get ready."""

    health: Health
    why: str = ""
    due_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenNodes:
    """All nodes of a cluster at one instant, on a clock that never runs back.

    ``unready_s`` says since when each node that is not ready was seen so.
    """

    nodes: Mapping[str, SeenNode]
    unready_s: Mapping[str, float] = field(default_factory=dict)

    def finding(self, name: str, now_s: float, not_ready_s: float) -> Finding:
        """Return what is found of a node that may be not ready for ``not_ready_s``."""
        node = self.nodes.get(name)
        if node is None:
            return Finding(Health.FAILED, "the cluster has no such node")
        if node.is_out_of_service:
            return Finding(Health.FAILED, f"it has the taint {OUT_OF_SERVICE}")
        if not node.is_ready:
            due_s = self.unready_s[name] + not_ready_s
            if now_s < due_s:
                return Finding(Health.UNSURE, due_s=due_s)
            return Finding(Health.FAILED, f"not ready for {not_ready_s:g} s")
        if node.is_cordoned:
            return Finding(Health.CORDONED, "cordoned in the cluster")
        return Finding(Health.READY, "ready in the cluster")
