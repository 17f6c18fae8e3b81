"""The watch of nodes on a real server: it begins at too old a version, and is then up to date."""

from __future__ import annotations

from threading import Event

import pytest

from quorate.adapters.kubernetes.node_inventory import NODES
from quorate.adapters.kubernetes.node_watch import NodeWatch
from tests.bounds import until
from tests.kubernetes.engines import Server
from tests.kubernetes.far_back import FromFarBack
from tests.kubernetes.played_nodes import PlayedNodes

pytestmark = pytest.mark.slow


@pytest.mark.soak
def test_a_watch_from_too_far_back_lists_anew_and_a_heartbeat_changes_nothing(
    uncached_nodes: Server,
) -> None:
    cluster = uncached_nodes
    admin = cluster.api()
    nodes = PlayedNodes(admin)
    nodes.add("watched-1")
    cluster.compact(admin.list_all(NODES)[1])
    api = FromFarBack(cluster.access, NODES)
    changed = Event()
    watch = NodeWatch(api, "west", changed.set)
    watch.start()

    def is_ready(name: str) -> bool | None:
        seen = watch.seen()
        node = None if seen is None else seen.nodes.get(name)
        return None if node is None else node.is_ready

    until(lambda: api.lists >= 2, "the nodes are listed anew after 410 Gone")
    until(lambda: is_ready("watched-1"), "the node is seen")
    nodes.ready("watched-1", is_ready=False)
    until(lambda: is_ready("watched-1") is False, "it is seen that it is not ready")
    seen = watch.seen()
    assert seen is not None
    since_s = seen.unready_s["watched-1"]
    # A heartbeat, and a label that has no meaning here.
    labels = {"metadata": {"labels": {"seen-by": "a-test"}}}
    admin.merge(f"{NODES}/watched-1", labels)
    nodes.ready("watched-1", is_ready=False)
    nodes.add("watched-2")
    until(lambda: is_ready("watched-2"), "what comes after it is seen")
    assert changed.is_set()
    seen = watch.seen()
    assert seen is not None
    assert seen.unready_s["watched-1"] == since_s
    nodes.remove_all()
    until(lambda: is_ready("watched-1") is None, "it is gone")
    watch.close()
    admin.close()
