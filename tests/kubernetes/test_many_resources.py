"""Many runs as custom resources, while the service is killed and the line to its cluster is cut.

Nothing may be lost, doubled or left behind, and no GPU of a node be given twice.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

import httpx
import pytest

from quorate.adapters.kubernetes.kube_api import KubeApi
from quorate.adapters.kubernetes.resource_objects import RUN
from tests.bounds import until
from tests.kubernetes.cut_line import line_to
from tests.kubernetes.engines import Server
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.played_nodes import PlayedNodes
from tests.kubernetes.resources import Resources, installed
from tests.oracles.effort import sized
from tests.service.program import client, program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.usefixtures("only_resources", "only_gpu_nodes"),
]

SPACE, HOME = "many-rai", "many-home"
NODES = sized(6, 200)
RUNS = sized(30, 500)
KILLS = sized(2, 20)
GPUS = 8
WITHIN_S = 900.0
PLACE = {"region": "us", "fabric_domain": "A", "gpu_flavor": "H100"}
ENDED = {"Completed", "Cancelled"}


def work(gpus: int, ms: int) -> dict[str, Any]:
    return {
        "owner": "rai",
        "pool": "west",
        "resources": {"gpuType": "H100", "totalGPUs": gpus},
        "image": "played",
        "command": ["ends", str(ms)],
        "processes": "node",
        "runtime": {"checkpoint": "1s", "expectedDuration": "1m"},
    }


BUDGET = {
    "owner": "rai",
    "envelopes": [
        {
            "name": "all",
            "flavor": "H100",
            "selector": {"cluster": "west"},
            "concurrency": 8 * NODES,
            "start": "2026-01-01T00:00:00Z",
            "end": "2100-01-01T00:00:00Z",
        }
    ],
}


class Watching:
    """Looks at the pods again and again: ``crowded`` has nodes whose GPUs were given twice."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._is_over = Event()
        self.crowded: list[dict[str, int]] = []
        self.looks = 0
        self._thread = Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._api.close()

    def _look(self) -> None:
        while not self._is_over.wait(0.1):
            trees, _ = self._api.list_all(f"/api/v1/namespaces/{SPACE}/pods")
            used: Counter[str] = Counter()
            for tree in trees:
                if tree.get("status", {}).get("phase") in ("Succeeded", "Failed"):
                    continue
                limits = tree["spec"]["containers"][0]["resources"]["limits"]
                used[tree["spec"].get("nodeName", "")] += int(limits["nvidia.com/gpu"])
            del used[""]
            wrong = {node: gpus for node, gpus in used.items() if gpus > GPUS}
            self.looks += 1
            if wrong:
                self.crowded.append(wrong)


@pytest.fixture
def made(cluster: Server) -> Iterator[Resources]:
    api = installed(cluster)
    for name in (SPACE, HOME):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        api.apply(f"/api/v1/namespaces/{name}", body)
    nodes = PlayedNodes(api)
    for number in range(NODES):
        nodes.add(f"many-{number}", gpus=GPUS, **PLACE)
    kubelet = Kubelet(cluster.api(), SPACE)
    kubelet.start()
    found = Resources(api, SPACE)
    yield found
    found.clear()
    kubelet.close()
    nodes.remove_all()
    api.close()


def submitted(http: httpx.Client) -> Counter[str]:
    """Return how often each run was submitted."""
    found: Counter[str] = Counter()
    first = 1
    while True:
        page = http.get("/api/v1/ledger/events", params={"limit": 1_000, "from": first}).json()
        for each in page["items"]:
            if each["tag"].startswith("run-submitted"):
                found[each["run"]["name"]] += 1
        if page["next"] == first:
            return found
        first = page["next"]


def test_many_runs_end_though_the_service_is_killed_and_the_line_is_cut(
    cluster: Server, made: Resources, tmp_path: Path
) -> None:
    chance = random.Random(20)
    line, config = line_to(cluster, tmp_path)
    words = (
        *("--kubernetes-clusters", f"west={config}"),
        *("--kubernetes-namespace", "many-{owner}", "--kubernetes-home", HOME),
        *("--kubernetes-resources", "west", "--kubernetes-declare-nodes", "west"),
    )
    made.create("Owner", "rai", {})
    made.create("Budget", "rai", BUDGET)
    pool = {"selector": {"cluster": "west"}, "executor": "kubernetes", "cluster": "west"}
    made.create("Pool", "west", pool)
    names = [f"job-{number}" for number in range(RUNS)]
    dropped = set(chance.sample(names, RUNS // 5))
    token = ""
    counts: Counter[str] = Counter()
    phases: dict[str, str] = {}
    with Watching(cluster.api()) as watching:
        for part in range(KILLS + 1):
            with program(tmp_path, *words) as service:
                url = service.wait_ready()
                token = token or service.token
                for name in names[part :: KILLS + 1]:
                    gpus = chance.choice((1, 2, 4, 8, 8 * min(4, NODES)))
                    made.create("Run", name, work(gpus, chance.randint(50, 600)))
                    if name in dropped and chance.random() < 0.5:
                        made.delete("Run", name)
                if part % 2:
                    line.cut()
                    for name in dropped.intersection(names[: RUNS // 2]):
                        made.delete("Run", name)
                    cluster.compact(made.api.list_all(RUN.all_path)[1])
                    line.mend()
                if part < KILLS:
                    service.end(signal.SIGKILL)
                    continue
                for name in dropped:
                    made.delete("Run", name)
                until(
                    lambda: _is_over(made, set(names) - dropped),
                    "every run has ended, and what was deleted is gone",
                    within_s=WITHIN_S,
                    server=service.process,
                    tell=lambda: _phases(made),
                )
                until(lambda: not made.all("GPULease"), "no lease is left")
                with client(url, token) as http:
                    counts = submitted(http)
                    phases = {
                        each["metadata"]["name"]: each["status"]["phase"]
                        for each in http.get("/api/v1/runs?limit=1000").json()["items"]
                    }
                assert service.end() == 0
    line.close()
    assert set(counts.values()) == {1}, "no run was submitted twice"
    assert set(phases.values()) <= ENDED
    assert {each.rpartition("-")[0] for each in counts} >= set(names) - dropped
    assert made.api.list_all(f"/api/v1/namespaces/{SPACE}/pods")[0] == []
    assert watching.looks > 0
    assert watching.crowded == [], "no GPU was given twice"


def _phases(made: Resources) -> Counter[str]:
    return Counter(each.get("status", {}).get("phase", "") for each in made.all("Run"))


def _is_over(made: Resources, kept: set[str]) -> bool:
    found = {
        each["metadata"]["name"]: each.get("status", {}).get("phase") for each in made.all("Run")
    }
    return found.keys() == kept and set(found.values()) == {"Completed"}
