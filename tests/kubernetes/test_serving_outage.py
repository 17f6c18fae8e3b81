"""A service whose cluster does not answer is ready, names the cluster, and serves other pools."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from quorate.documents.text_source import read_source
from tests.bounds import until
from tests.kubernetes.cut_line import line_to
from tests.kubernetes.engines import Server
from tests.kubernetes.resources import installed
from tests.service.program import client, program

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_resources")]

HOME = "outage-home"
PARTS = ("kubernetes/west", "kubernetes/west nodes", "kubernetes/west custom resources")
WORLD = """\
apiVersion: quorate.dev/v1
kind: Pool
metadata: {name: west}
spec: {selector: {cluster: west}, executor: kubernetes, cluster: west}
---
apiVersion: quorate.dev/v1
kind: Pool
metadata: {name: own}
spec: {selector: {cluster: own}, executor: local}
---
apiVersion: quorate.dev/v1
kind: Node
metadata: {name: here, labels: {region: us, cluster: own, fabric.domain: A}}
spec: {flavor: H100, gpus: 8}
---
apiVersion: quorate.dev/v1
kind: Owner
metadata: {name: rai}
---
apiVersion: quorate.dev/v1
kind: Budget
metadata: {name: rai}
spec:
  owner: rai
  envelopes:
    - {name: all, flavor: H100, selector: {region: us}, concurrency: 16,
       start: 2026-01-01T00:00:00Z, end: 2100-01-01T00:00:00Z}
"""


def ready(http: httpx.Client) -> dict[str, Any]:
    """Return the answer of ``/readyz``, which must report ready."""
    answer = http.get("/readyz")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def outage(http: httpx.Client, name: str) -> float | None:
    """Return the metric of the outage ``name``; None if there is none."""
    text = http.get("/metrics").text
    found = re.search(rf'^quorate_outage{{of="{name}"}} (\S+)$', text, re.MULTILINE)
    return None if found is None else float(found[1])


def complete_one(http: httpx.Client, name: str) -> None:
    """Let a run on the service's own machine complete."""
    spec = {
        "owner": "rai",
        "pool": "own",
        "resources": {"gpuType": "H100", "totalGPUs": 1},
        "command": ["true"],
    }
    head = {"apiVersion": "quorate.dev/v1", "kind": "Run", "metadata": {"name": name}}
    answer = http.post("/api/v1/runs", json={"document": {**head, "spec": spec}})
    assert answer.is_success, answer.text

    def look() -> bool:
        phase = http.get(f"/api/v1/runs/{name}").json()["status"]["phase"]
        return bool(phase == "Completed")

    until(look, f"{name} completes")


@pytest.mark.soak
def test_a_cluster_that_is_away_is_told_and_keeps_no_other_pool_from_work(
    cluster: Server, tmp_path: Path
) -> None:
    api = installed(cluster)
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}
    api.create("/api/v1/namespaces", body)
    api.close()
    line, config = line_to(cluster, tmp_path)
    words = (
        *("--kubernetes-clusters", f"west={config}", "--kubernetes-home", HOME),
        *("--executor", "local", "--executor-allow-root", "--kubernetes-resources", "west"),
    )
    line.cut()
    with program(tmp_path, *words) as service:
        url, token = service.wait_ready(), service.token
        service.logged("the cluster does not answer, and the service continues without it")
        with client(url, token) as http:
            sources = read_source(WORLD)
            assert isinstance(sources, tuple), sources
            asked = {"documents": [each.tree for each in sources]}
            assert http.post("/api/v1/apply", json=asked).is_success
            complete_one(http, "while-it-was-never-there")
            until(lambda: "outages" in ready(http), "readyz names the outage")
            for name in PARTS:
                until(lambda name=name: name in ready(http).get("outages", {}), f"{name} is named")  # type: ignore[misc]
                text = ready(http)["outages"][name]
                assert re.match(
                    r"since 2\d\d\d-.*Z: .* does not answer: .*; check that its API ", text
                )
            assert [outage(http, name) for name in PARTS] == [1.0, 1.0, 1.0]
            line.mend()
            until(lambda: "outages" not in ready(http), "the outage is over")
            service.logged("the pods of this ledger can be watched again")
            assert [outage(http, name) for name in PARTS] == [0.0, 0.0, 0.0]
            line.cut()
            until(lambda: "outages" in ready(http), "readyz names the next outage")
            complete_one(http, "while-it-was-lost")
        assert service.end() == 0
    line.close()
