"""A service that follows custom resources, as a process, on a real API server."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from quorate.adapters.kubernetes.pod_manifest import GPU
from quorate.ports.errors import ClusterRefusedError
from tests.bounds import until
from tests.kubernetes.cut_line import line_to
from tests.kubernetes.engines import Server
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.played_nodes import PlayedNodes
from tests.kubernetes.resources import Resources, installed
from tests.service.program import client, program

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_resources")]

SPACES = ("cr-rai", "cr-home")
FORBIDDEN = 403
POOL = {"selector": {"cluster": "west"}, "executor": "kubernetes", "cluster": "west"}
BUDGET = {
    "owner": "rai",
    "envelopes": [
        {
            "name": "west",
            "flavor": "H100",
            "selector": {"region": "us"},
            "concurrency": 16,
            "start": "2026-01-01T00:00:00Z",
            "end": "2100-01-01T00:00:00Z",
        }
    ],
}


def node(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "quorate.dev/v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"region": "us", "cluster": "west", "fabric.domain": "A"},
        },
        "spec": {"flavor": "H100", "gpus": 8},
    }


def work(gpus: int, *command: str, **more: Any) -> dict[str, Any]:
    return {
        "owner": "rai",
        "pool": "west",
        "resources": {"gpuType": "H100", "totalGPUs": gpus},
        "image": "played",
        "command": list(command),
        "processes": "node",
        "runtime": {"checkpoint": "5s", "expectedDuration": "1h"},
        **more,
    }


class Site:
    """A cluster with two nodes, and a kubelet."""

    def __init__(self, cluster: Server) -> None:
        self.cluster = cluster
        self.api = installed(cluster)
        for name in SPACES:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            self.api.apply(f"/api/v1/namespaces/{name}", body)
        self.nodes = PlayedNodes(self.api)
        for name in ("cr-1", "cr-2"):
            self.nodes.add(name)
        self.kubelet = Kubelet(cluster.api(), SPACES[0])
        self.kubelet.start()
        self.resources = Resources(self.api, SPACES[0])

    def close(self) -> None:
        self.resources.clear()
        self.api.delete(f"/api/v1/namespaces/{SPACES[1]}/configmaps/quorate")
        self.kubelet.close()
        self.nodes.remove_all()
        self.api.close()

    def words(self, kubeconfig: Path | None = None) -> tuple[str, ...]:
        return (
            *("--kubernetes-clusters", f"west={kubeconfig or self.cluster.kubeconfig}"),
            *("--kubernetes-namespace", "cr-{owner}", "--kubernetes-home", SPACES[1]),
            *("--kubernetes-resources", "west"),
        )

    def declare(self) -> None:
        """Declare a pool, an owner and a budget."""
        self.resources.create("Pool", "west", POOL)
        self.resources.create("Owner", "rai", {})
        self.resources.create("Budget", "rai", BUDGET)


@pytest.fixture
def site(cluster: Server) -> Iterator[Site]:
    found = Site(cluster)
    yield found
    found.close()


def declare_nodes(http: httpx.Client) -> None:
    documents = [node("cr-1"), node("cr-2")]
    assert http.post("/api/v1/apply", json={"documents": documents}).is_success


def only_lease(made: Resources) -> dict[str, Any] | None:
    """Return the only lease, if it has a status."""
    found = made.all("GPULease")
    return found[0] if len(found) == 1 and "status" in found[0] else None


def _run_of(lease: dict[str, Any]) -> str:
    """Return the run of a lease; empty before its status is written."""
    return str(lease.get("status", {}).get("run", ""))


def submitted(http: httpx.Client) -> Counter[tuple[str, str]]:
    """Return how often each run was submitted, and by which actor."""
    events: list[dict[str, Any]] = http.get("/api/v1/ledger/events?limit=1000").json()["items"]
    return Counter(
        (each["run"]["name"].rpartition("-")[0], each["actor"])
        for each in events
        if each["tag"].startswith("run-submitted")
    )


def is_limited(site: Site) -> bool:
    """Return whether a pod of 2 GPUs is refused: a limit applies a moment after it is created."""
    pods = f"/api/v1/namespaces/{SPACES[0]}/pods"
    container = {"name": "c", "image": "i", "resources": {"limits": {GPU: "2"}}}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe"},
        "spec": {"schedulerName": "none", "containers": [container]},
    }
    try:
        site.api.create(pods, body)
    except ClusterRefusedError as error:
        if error.status != FORBIDDEN:
            raise
        return True
    site.api.delete(f"{pods}/probe", grace_s=0)
    return False


def hold_up(site: Site) -> None:
    """Create runs whose pods do not start: they show why, and the second starts in the end."""
    made = site.resources
    made.create("Run", "unpulled", work(8, "unpulled"))
    made.until_condition("Run", "unpulled", "PodsReady", "False", "ImagePullBackOff")
    assert made.status("Run", "unpulled")["reason"] == "ImagePullBackOff"
    made.delete("Run", "unpulled")
    made.until_gone("Run", "unpulled")
    path = f"/api/v1/namespaces/{SPACES[0]}/limitranges"
    limits = {"limits": [{"type": "Container", "max": {GPU: "1"}}]}
    head = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "gpus"}}
    site.api.create(path, head | {"spec": limits})
    until(lambda: is_limited(site), "the API server heeds the limit")
    made.create("Run", "limited", work(8, "stays"))
    made.until_condition("Run", "limited", "PodsReady", "False", "StartRefused")
    (told,) = (
        each["message"]
        for each in made.status("Run", "limited")["conditions"]
        if each["type"] == "PodsReady"
    )
    assert "maximum nvidia.com/gpu usage per Container is 1" in told
    event = made.until_told("limited", "StartRefused")
    assert event["type"] == "Warning"
    assert "maximum nvidia.com/gpu usage per Container is 1" in event["message"]
    site.api.delete(f"{path}/gpus")
    made.until_condition("Run", "limited", "PodsReady", "True", "Started")
    assert made.until_told("limited", "Started")["type"] == "Normal"
    made.delete("Run", "limited")
    made.until_gone("Run", "limited")


def test_resources_in_any_order_become_runs_and_a_deleted_one_is_cancelled(
    site: Site, tmp_path: Path
) -> None:
    made = site.resources
    with program(tmp_path, *site.words()) as service:
        url, token = service.wait_ready(), service.token
        with client(url, token) as http:
            declare_nodes(http)
            made.create("Run", "short", work(8, "ends", "200"), user="ada")
            made.create("Budget", "rai", BUDGET)
            made.create("Run", "bad", work(8, "stays", env={"RANK": "0"}))
            made.create("Run", "elsewhere", {**work(8, "stays"), "owner": "vision"})
            made.until_condition("Run", "short", "Accepted", "False", "Missing")
            made.until_condition("Budget", "rai", "Accepted", "False", "Missing")
            made.until_condition("Run", "bad", "Accepted", "False", "Invalid")
            made.until_condition("Run", "elsewhere", "Accepted", "False", "WrongNamespace")
            made.create("Owner", "rai", {})
            made.create("Pool", "west", POOL)
            made.until_phase("short", "Completed")
            made.until_condition("Run", "short", "Finished", "True", "Completed")
            hold_up(site)
            made.create("Run", "long", work(16, "stays"))
            made.create("Run", "waits", work(8, "stays"))
            made.until_condition("Run", "long", "Admitted", "True", "Admitted")
            made.until_condition("Run", "waits", "Admitted", "False", "WaitingForQuota")
            lease = until(lambda: only_lease(made), "the lease is an object with its status")
            assert lease["status"]["run"] == "long"
            assert lease["status"]["payer"] == "rai/west"
            assert lease["metadata"]["ownerReferences"][0]["name"] == "long"
            assert made.status("Run", "long")["leases"] == [lease["metadata"]["name"]]
            # A resource in use is not removed, and shows why.
            made.delete("Budget", "rai")
            made.until_condition("Budget", "rai", "Deleted", "False", "InUse")
            made.delete("Run", "long")
            made.until_gone("Run", "long")
            made.until_phase("waits", "Running")
            made.delete("Run", "waits")
            made.until_gone("Run", "waits")
            made.until_gone("Budget", "rai")
            until(lambda: not made.all("GPULease"), "no lease is left")
            names = {
                each["metadata"]["name"]: each["status"]["phase"]
                for each in http.get("/api/v1/runs").json()["items"]
            }
            assert sorted(names.values()) == [*["Cancelled"] * 4, "Completed"]
            assert submitted(http) == {
                ("short", "rai/ada"): 1,
                ("unpulled", "rai/kubernetes"): 1,
                ("limited", "rai/kubernetes"): 1,
                ("long", "rai/kubernetes"): 1,
                ("waits", "rai/kubernetes"): 1,
            }
            assert http.get("/api/v1/budgets").json()["items"] == []
        assert service.end() == 0


@pytest.mark.soak
def test_a_cut_line_and_a_killed_service_lose_and_double_nothing(
    site: Site, tmp_path: Path
) -> None:
    made = site.resources
    line, config = line_to(site.cluster, tmp_path)
    site.declare()
    with program(tmp_path, *site.words(config)) as first:
        url, token = first.wait_ready(), first.token
        with client(url, token) as http:
            declare_nodes(http)
            made.create("Run", "one", work(8, "stays"))
            made.create("Run", "two", work(8, "stays"))
            made.until_phase("one", "Running")
            made.until_phase("two", "Running")
            until(lambda: len(site.kubelet.started) == 2, "two pods have started")
            line.cut()
            made.delete("Run", "one")
            made.create("Run", "three", work(8, "stays"))
            line.mend()
            made.until_gone("Run", "one")
            made.until_phase("three", "Running")
            until(lambda: len(site.kubelet.started) == 3, "three pods have started")
        first.end(signal.SIGKILL)
    # Without a service, a resource with a finalizer stays, and a new one gets none.
    made.delete("Run", "two")
    made.create("Run", "four", work(8, "stays"))
    made.create("Run", "five", work(8, "ends", "100"))
    made.delete("Run", "five")
    made.until_gone("Run", "five")
    assert made.get("Run", "two") is not None
    with (
        program(tmp_path, *site.words(config)) as second,
        client(second.wait_ready(), token) as http,
    ):
        made.until_gone("Run", "two")
        made.until_phase("four", "Running")
        made.until_phase("three", "Running")
        until(lambda: len(site.kubelet.started) == 4, "the pod of the fourth has started")
        # A new resource with the same name is another run.
        made.delete("Run", "four")
        made.until_gone("Run", "four")
        made.create("Run", "four", work(8, "ends", "100"))
        made.until_phase("four", "Completed")
        actor = "rai/kubernetes"
        assert submitted(http) == {
            ("one", actor): 1,
            ("two", actor): 1,
            ("three", actor): 1,
            ("four", actor): 2,
        }
        until(
            lambda: [_run_of(each) for each in made.all("GPULease")] == ["three"],
            "the lease of the run that goes on is the only one left",
            tell=lambda: made.all("GPULease"),
        )
        assert second.end() == 0
    line.close()
