"""A service starts and stops suspended workloads, on a real API server."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate.adapters.kubernetes.job_kinds import at
from quorate.adapters.kubernetes.kube_api import KubeApi
from quorate.adapters.kubernetes.seen_jobs import MESSAGE_NOTE, RUN_NOTE
from quorate.documents.text_source import read_source
from tests.bounds import stays, until
from tests.kubernetes.cut_line import line_to
from tests.kubernetes.engines import Server
from tests.kubernetes.granted import grant
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.played_jobs import PYTORCH, PlayedController, define, manifest
from tests.kubernetes.played_nodes import PlayedNodes
from tests.service.program import client, program

pytestmark = pytest.mark.slow

SPACES = ("jobs-rai", "jobs-home", "jobs-core")
WORLD = """\
apiVersion: quorate.dev/v1
kind: Pool
metadata: {name: jobs}
spec: {selector: {cluster: jobs}, executor: kubernetes, cluster: jobs, wholeNodes: true}
---
apiVersion: quorate.dev/v1
kind: Node
metadata: {name: jobs-1, labels: {region: us, cluster: jobs, fabric.domain: A}}
spec: {flavor: H100, gpus: 8}
---
apiVersion: quorate.dev/v1
kind: Node
metadata: {name: jobs-2, labels: {region: us, cluster: jobs, fabric.domain: A}}
spec: {flavor: H100, gpus: 8}
---
apiVersion: quorate.dev/v1
kind: Owner
metadata: {name: rai}
---
apiVersion: quorate.dev/v1
kind: Owner
metadata: {name: core}
---
apiVersion: quorate.dev/v1
kind: Budget
metadata: {name: rai}
spec:
  owner: rai
  envelopes:
    - {name: jobs, flavor: H100, selector: {region: us}, concurrency: 16,
       start: 2026-01-01T00:00:00Z, end: 2100-01-01T00:00:00Z}
"""


PLAIN = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "plain", "labels": {"kueue.x-k8s.io/queue-name": "rai"}},
    "spec": {
        # The API server of the tests is older than this field, and drops it.
        "suspend": True,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {"name": "w", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
                ],
            }
        },
    },
}


class Cluster:
    """The actions of a user and of the cluster's own components."""

    def __init__(self, api: KubeApi) -> None:
        self.api = api

    def create(self, body: dict[str, Any], space: str = SPACES[0]) -> None:
        path = f"/apis/{PYTORCH.group}/{PYTORCH.version}/namespaces/{space}/{PYTORCH.plural}"
        self.api.create(path, body)

    def job(self, name: str, space: str = SPACES[0]) -> dict[str, Any]:
        return self.api.get(PYTORCH.path(space, name))

    def note(self, name: str, key: str = MESSAGE_NOTE, space: str = SPACES[0]) -> str:
        metadata = self.job(name, space)["metadata"]
        return str((metadata.get("annotations") or {}).get(key, ""))

    def is_suspended(self, name: str) -> bool:
        return bool(at(self.job(name), PYTORCH.suspend))

    def pods(self) -> dict[str, str]:
        """Return the pods that have not ended, and the node of each."""
        trees, _ = self.api.list_all(f"/api/v1/namespaces/{SPACES[0]}/pods")
        return {
            each["metadata"]["name"]: each["spec"]["nodeName"]
            for each in trees
            if each["status"]["phase"] not in ("Succeeded", "Failed")
        }


@pytest.fixture
def played(cluster: Server) -> Iterator[Cluster]:
    api = cluster.api()
    for name in SPACES:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        api.create("/api/v1/namespaces", body)
    nodes = PlayedNodes(api)
    for name in ("jobs-1", "jobs-2"):
        nodes.add(name)
    define(api)
    kubelet = Kubelet(cluster.api(), SPACES[0])
    controller = PlayedController(cluster.api(), SPACES[0])
    kubelet.start()
    controller.start()
    yield Cluster(api)
    controller.close()
    kubelet.close()
    nodes.remove_all()
    api.close()


@pytest.mark.soak
def test_suspended_workloads_are_admitted_stopped_and_reported(
    cluster: Server, played: Cluster, tmp_path: Path
) -> None:
    service = grant(cluster, SPACES[1], SPACES[:1] + SPACES[2:], tmp_path)
    words = (
        *("--kubernetes-clusters", f"jobs={service.kubeconfig}", "--kubernetes-jobs", "jobs"),
        *("--kubernetes-namespace", "jobs-{owner}", "--kubernetes-home", SPACES[1]),
    )
    with program(tmp_path, *words) as first:
        url, token = first.wait_ready(), first.token
        with client(url, token) as http:
            sources = read_source(WORLD)
            assert isinstance(sources, tuple), sources
            trees = [each.tree for each in sources]
            assert http.post("/api/v1/apply", json={"documents": trees}).is_success
            played.create(manifest("short", "ends", "200", workers=2))
            until(lambda: PYTORCH.ended(played.job("short")) is not None, "short has ended")
            run = played.note("short", RUN_NOTE)
            until(lambda: phase(http, run) == "Completed", "its run has completed")
            assert http.get(f"/api/v1/runs/{run}").json()["status"]["funding"]["owned"]

            played.create(manifest("long", "defies", workers=2))
            until(lambda: sorted(played.pods().values()) == ["jobs-1", "jobs-2"], "long works")
            played.create(manifest("next", "stays"))
            until(lambda: "waits" in played.note("next"), "next waits")
            assert played.is_suspended("next")
            played.create(manifest("alien", "stays", owner="rai"), SPACES[2])
            until(
                lambda: "create it there" in played.note("alien", space=SPACES[2]),
                "no owner's namespace spends the money of another owner",
            )
            path = f"/apis/batch/v1/namespaces/{SPACES[0]}/jobs"
            is_known = at(played.api.create(path, PLAIN), ("spec", "suspend")) is True

            def said() -> str:
                notes = played.api.get(f"{path}/plain")["metadata"].get("annotations") or {}
                return str(notes.get(MESSAGE_NOTE, ""))

            why = "waits" if is_known else "create it with suspend: true"
            until(lambda: why in said(), "a Job says why it does not start")
        first.end(signal.SIGKILL)
    line, config = line_to(service, tmp_path)
    again = tuple(word.replace(str(service.kubeconfig), str(config)) for word in words)
    with program(tmp_path, *again) as second, client(second.wait_ready(), token) as http:
        before = played.pods()
        run = played.note("long", RUN_NOTE)
        stays(lambda: played.pods() == before, "a service that starts anew leaves it alone")
        line.cut()
        second.logged("cannot be watched")
        stays(lambda: phase(http, run) == "Running", "Jobs that are not seen are not deleted")
        assert http.post(f"/api/v1/runs/{run}/cancel", json={}).is_success
        stays(lambda: not played.is_suspended("long"), "nothing reaches a cluster that is away")
        line.mend()
        until(lambda: played.is_suspended("long"), "it is suspended")
        until(lambda: is_over(played, http, run), "its run is cancelled")
        until(lambda: list(played.pods()) == ["next-worker-0"], "next works")
        played.api.delete(PYTORCH.path(SPACES[0], "next"))
        until(lambda: not played.pods(), "its pods are gone")
        until(lambda: not http.get("/api/v1/leases").json()["items"], "no lease is left")
        second.end()
    line.close()


def phase(http: Any, run: str) -> str:
    return str(http.get(f"/api/v1/runs/{run}").json()["status"]["phase"])


def is_over(played: Cluster, http: Any, run: str) -> bool:
    """Return whether the run of ``long`` is cancelled.

    Its pods use their grace, and until then no other run gets their GPUs.
    """
    has_next_begun = not played.is_suspended("next")
    assert not (has_next_begun and any(name.startswith("long-") for name in played.pods()))
    return phase(http, run) == "Cancelled"
