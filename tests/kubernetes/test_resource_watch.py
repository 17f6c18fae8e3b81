"""The watch of custom resources and the writes to them, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from quorate.adapters.kubernetes.resource_objects import FINALIZER, RUN, Resource, resource_of
from quorate.adapters.kubernetes.resource_watch import ResourceWatch
from quorate.adapters.kubernetes.resource_writes import ResourceWriter
from quorate.ports.errors import ClusterDownError
from tests.bounds import until
from tests.kubernetes.engines import Server
from tests.kubernetes.far_back import FromFarBack
from tests.kubernetes.resources import Resources, installed

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_resources")]

WORK = {"owner": "o", "resources": {"gpuType": "F", "totalGPUs": 8}}
SPACE = "default"


@pytest.fixture
def made(cluster: Server) -> Iterator[Resources]:
    api = installed(cluster)
    found = Resources(api, SPACE)
    yield found
    found.clear()
    api.close()


def runs_of(watch: ResourceWatch) -> dict[str, Resource]:
    seen = watch.seen()
    return {} if seen is None else {each.name: each for each in seen.values() if each.kind == RUN}


def test_resources_are_listed_anew_after_410_gone_and_followed_from_there(
    cluster: Server, made: Resources
) -> None:
    made.create("Run", "a", WORK)
    tree = made.get("Run", "a")
    assert tree is not None
    assert {each["manager"] for each in tree["metadata"]["managedFields"]} == {"quorate"}
    api = FromFarBack(cluster.access, RUN.all_path)
    changed = Event()
    watch = ResourceWatch(api, "west", changed.set)
    watch.start()
    until(lambda: api.lists >= 2, "the runs are listed anew after 410 Gone")
    until(lambda: "a" in runs_of(watch), "the run is seen")
    made.create("Run", "b", WORK)
    until(lambda: "b" in runs_of(watch), "another run is seen")
    made.delete("Run", "a")
    until(lambda: "a" not in runs_of(watch), "it is seen that the run is gone")
    assert changed.is_set()
    watch.close()


def test_a_change_that_conflicts_is_made_of_the_newer_resource(
    cluster: Server, made: Resources
) -> None:
    made.create("Run", "r", WORK)
    api = cluster.api()
    watch = ResourceWatch(api, "west", lambda: None)
    writer = ResourceWriter(api, watch, "ledger")
    old = resource_of(RUN, api.get(made.path("Run", "r")))
    made.api.merge(made.path("Run", "r"), {"metadata": {"labels": {"mine": "yes"}}})
    held = writer.hold(old)
    assert held is not None
    assert held.is_held
    made.api.merge(made.path("Run", "r"), {"metadata": {"labels": {"mine": "still"}}})
    seen: list[str] = []

    def status(now: Resource) -> dict[str, Any]:
        seen.append(now.version)
        return {"phase": "Pending", "ledgerName": "r-1"}

    writer.write_status(old, status)
    assert len(seen) == 2, "the first attempt was of a version that others have changed"
    assert seen[0] == held.version, "it was the newest that was known, not the one that was given"
    tree = api.get(made.path("Run", "r"))
    assert tree["metadata"]["labels"] == {"mine": "still"}
    assert tree["metadata"]["finalizers"] == [FINALIZER]
    assert tree["status"] == {"phase": "Pending", "ledgerName": "r-1"}

    def racing(now: Resource) -> dict[str, Any]:
        made.api.merge(made.path("Run", "r"), {"metadata": {"labels": {"at": now.version}}})
        return {"phase": "Running"}

    with pytest.raises(ClusterDownError, match="changed it during each of 5 attempts"):
        writer.write_status(old, racing)
    made.delete("Run", "r")
    watch.put(RUN, api.get(made.path("Run", "r")))
    # The resource is being deleted: it gets no new finalizer, and ends with its old one.
    assert writer.hold(old) is None
    writer.let_go(held)
    made.until_gone("Run", "r")
    writer.write_status(old, status)
    writer.let_go(held)
    made.create("Run", "r", WORK)
    # Another resource with the same name is not changed.
    writer.write_status(old, status)
    assert made.status("Run", "r") == {}
    watch.close()
