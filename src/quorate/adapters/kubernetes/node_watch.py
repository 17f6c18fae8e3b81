"""The nodes of one cluster, kept up to date by a watch.

After a lost watch the nodes are listed again. Until then ``seen`` returns None, so that Quorate
declares no node failed because of outdated information.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import Any

from quorate.adapters.kubernetes.kube_api import Change, KubeApi
from quorate.adapters.kubernetes.node_health import SeenNode, SeenNodes, seen_node
from quorate.adapters.kubernetes.node_inventory import NODES
from quorate.adapters.kubernetes.object_watch import ObjectWatch


class NodeWatch:
    """The nodes of ``cluster``; the watch's thread calls ``tell`` when a node has changed."""

    def __init__(self, api: KubeApi, cluster: str, tell: Callable[[], None]) -> None:
        self._api = api
        self._cluster = cluster
        self._tell = tell
        self._lock = Lock()
        self._nodes: dict[str, SeenNode] = {}
        self._unready_s: dict[str, float] = {}
        self._is_known = False
        what = f"the nodes of cluster {cluster}"
        self._watch = ObjectWatch(api, NODES, self, what=what, lists_after_loss=True)

    @property
    def trouble(self) -> str:
        """Why the nodes cannot be watched; empty while they can."""
        return self._watch.trouble

    def start(self) -> None:
        """Start to list and to watch."""
        self._watch.start()

    def close(self) -> None:
        """Stop watching, and wait until the watch has ended."""
        self._watch.close()
        self._api.close()
        self._watch.join()

    def seen(self) -> SeenNodes | None:
        """Return all nodes; None while they are not known."""
        with self._lock:
            if not self._is_known:
                return None
            return SeenNodes(nodes=dict(self._nodes), unready_s=dict(self._unready_s))

    # --- On the thread of the watch ---

    def listed(self, list_now: Callable[[], list[dict[str, Any]]]) -> None:
        """Replace all nodes."""
        trees = list_now()
        with self._lock:
            self._nodes = {}
            for tree in trees:
                self._put(tree)
            gone = self._unready_s.keys() - self._nodes.keys()
            for name in gone:
                del self._unready_s[name]
            self._is_known = True
        self._tell()

    def took(self, change: Change, tree: dict[str, Any]) -> None:
        """Apply one change of a node."""
        with self._lock:
            if change is Change.DELETED:
                name = str(tree["metadata"]["name"])
                self._unready_s.pop(name, None)
                is_news = self._nodes.pop(name, None) is not None
            else:
                is_news = self._put(tree)
        if is_news:
            self._tell()

    def lost(self) -> None:
        """Forget the nodes until they are listed again."""
        with self._lock:
            self._is_known = False

    def _put(self, tree: dict[str, Any]) -> bool:
        """Store a node as the cluster has it; return whether it changed."""
        name = str(tree["metadata"]["name"])
        node, before = seen_node(tree, self._cluster), self._nodes.get(name)
        self._nodes[name] = node
        if node.is_ready:
            self._unready_s.pop(name, None)
        else:
            self._unready_s.setdefault(name, monotonic())
        return node != before
