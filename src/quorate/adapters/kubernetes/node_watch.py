"""The nodes of one cluster, kept up to date by a watch that may be lost at any time.

A watch that its server ends goes on where it was. After one that was lost, or cannot go on (410
Gone), the nodes are listed anew; until then there is no answer, so that no old word of a node
becomes a failure.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, Final

from quorate.adapters.kubernetes.kube_api import GONE, Change, KubeApi
from quorate.adapters.kubernetes.node_health import SeenNode, SeenNodes, seen_node
from quorate.adapters.kubernetes.node_inventory import NODES
from quorate.ports.errors import ClusterError, ClusterRefusedError

_LOG = logging.getLogger(__name__)

AGAIN_S: Final = 0.2
"""How long until a lost watch is opened again; twice as long after each that fails."""
AGAIN_S_MAX: Final = 15.0


class NodeWatch:
    """The nodes of ``cluster``; ``tell`` is called, on another thread, when one has changed."""

    def __init__(self, api: KubeApi, cluster: str, tell: Callable[[], None]) -> None:
        self._api = api
        self._cluster = cluster
        self._tell = tell
        self._lock = Lock()
        self._nodes: dict[str, SeenNode] = {}
        self._unready_s: dict[str, float] = {}
        self._version = ""
        self._is_closing = Event()
        self._trouble = ""
        self._thread = Thread(target=self._follow, name="node-watch", daemon=True)

    def start(self) -> None:
        """Begin to list and to watch."""
        self._thread.start()

    def close(self) -> None:
        """Stop watching, and return when the watch has ended."""
        self._is_closing.set()
        self._api.close()
        if self._thread.is_alive():
            self._thread.join()

    def seen(self) -> SeenNodes | None:
        """Return all nodes; None while the cluster does not say which there are."""
        with self._lock:
            if not self._version:
                return None
            return SeenNodes(nodes=dict(self._nodes), unready_s=dict(self._unready_s))

    # --- Its own thread ---

    def _follow(self) -> None:
        again_s = AGAIN_S
        while not self._is_closing.is_set():
            try:
                if not self._version:
                    self._list()
                again_s = AGAIN_S
                self._mended()
                for event in self._api.watch(NODES, self._version):
                    self._take(event.change, event.object)
            except ClusterError as error:
                with self._lock:
                    self._version = ""
                if not (isinstance(error, ClusterRefusedError) and error.status == GONE):
                    self._complain(error)
            else:
                continue
            self._is_closing.wait(again_s)
            again_s = min(2 * again_s, AGAIN_S_MAX)

    def _complain(self, error: ClusterError) -> None:
        if not self._is_closing.is_set() and self._trouble != str(error):
            self._trouble = str(error)
            _LOG.warning("cluster %s: its nodes are not seen: %s", self._cluster, error)

    def _mended(self) -> None:
        if self._trouble:
            self._trouble = ""
            _LOG.info("cluster %s: its nodes are seen again", self._cluster)

    def _list(self) -> None:
        trees, version = self._api.list_all(NODES)
        with self._lock:
            self._nodes = {}
            for tree in trees:
                self._put(tree)
            gone = self._unready_s.keys() - self._nodes.keys()
            for name in gone:
                del self._unready_s[name]
            self._version = version
        self._tell()

    def _take(self, change: Change, tree: dict[str, Any]) -> None:
        is_news = False
        with self._lock:
            self._version = tree["metadata"]["resourceVersion"]
            if change is Change.DELETED:
                name = str(tree["metadata"]["name"])
                self._unready_s.pop(name, None)
                is_news = self._nodes.pop(name, None) is not None
            elif change is not Change.BOOKMARK:
                is_news = self._put(tree)
        if is_news:
            self._tell()

    def _put(self, tree: dict[str, Any]) -> bool:
        """Take a node as the cluster has it; return whether anything of it is new."""
        name = str(tree["metadata"]["name"])
        node, before = seen_node(tree, self._cluster), self._nodes.get(name)
        self._nodes[name] = node
        if node.is_ready:
            self._unready_s.pop(name, None)
        else:
            self._unready_s.setdefault(name, monotonic())
        return node != before
