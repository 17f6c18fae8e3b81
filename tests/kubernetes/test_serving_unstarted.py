"""A run whose pods the cluster refuses releases its GPUs, waits, and shows why everywhere."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from quorate.adapters.kubernetes.pod_manifest import GPU
from tests.bounds import WAIT_S, until
from tests.kubernetes.engines import Server
from tests.kubernetes.test_serving_resources import SPACES, Site, declare_nodes, is_limited, work
from tests.service.program import client, program

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_resources")]

LIMITS = f"/api/v1/namespaces/{SPACES[0]}/limitranges"


@pytest.fixture
def limited(cluster: Server) -> Iterator[Site]:
    """Return a site in which each container may have one GPU."""
    site = Site(cluster)
    head = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "gpus"}}
    limits = {"limits": [{"type": "Container", "max": {GPU: "1"}}]}
    site.api.create(LIMITS, head | {"spec": limits})
    until(lambda: is_limited(site), "the API server heeds the limit")
    yield site
    site.api.delete(f"{LIMITS}/gpus")
    site.close()


def held_back(site: Site, name: str) -> dict[str, tuple[str, str]] | None:
    """Return the conditions of a run that waits after a refused start; None otherwise."""
    trees = site.resources.status("Run", name).get("conditions") or ()
    found = {each["type"]: (each["status"], each["reason"]) for each in trees}
    return found if found.get("Requeued") == ("False", "PodsReadyTimeout") else None


def refusal(http: httpx.Client, run: str) -> str:
    """Return why such a run waits; empty if it does not."""
    found = http.get(f"/api/v1/runs/{run}").json()["status"].get("refusal") or {}
    return str(found["message"]) if found.get("code") == "start-refused" else ""


def described(site: Site, run: str) -> str:
    """Return the output of ``kubectl describe`` for a run."""
    words = ("describe", "runs.quorate.dev", run, "--namespace", SPACES[0])
    done = subprocess.run(
        ["kubectl", "--kubeconfig", site.cluster.kubeconfig, *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT_S,
    )
    return done.stdout


def events(tags: list[dict[str, Any]], run: str) -> list[tuple[str, str]]:
    return [
        (each["tag"].partition("/")[0], each["reason"])
        for each in tags
        if each["tag"].startswith(("run-stopping", "run-requeued")) and each["run"] == run
    ]


def test_a_run_whose_pods_are_refused_gives_its_gpus_to_others_and_waits_with_the_reason(
    limited: Site, tmp_path: Path
) -> None:
    made = limited.resources
    with (
        program(tmp_path, *limited.words(), "--kubernetes-pods-ready-s", "0") as service,
        client(service.wait_ready(), service.token) as http,
    ):
        declare_nodes(http)
        limited.declare()
        made.create("Run", "wide", work(16, "stays"))
        # The pauses end by themselves, so the start is refused, and shown, again and again.
        said = until(lambda: held_back(limited, "wide"), "it gave its GPUs back, and waits")
        assert said["Evicted"] == ("True", "PodsReadyTimeout")
        assert said["Admitted"] == ("False", "StartRefused")
        assert "PodsReady" not in said
        name = made.status("Run", "wide")["ledgerName"]
        told = until(lambda: refusal(http, name), "the ledger says why it waits")
        assert "maximum nvidia.com/gpu usage per Container is 1" in told
        event = made.until_told("wide", "Evicted")
        assert (event["type"], event["source"]["component"]) == ("Warning", "quorate")
        assert "maximum nvidia.com/gpu usage per Container is 1" in event["message"]
        if shutil.which("kubectl"):
            assert "PodsReadyTimeout" in described(limited, "wide").partition("\nEvents:")[2]
        made.create("Run", "narrow", work(1, "ends", "50"))
        made.until_phase("narrow", "Completed")
        tags = http.get("/api/v1/ledger/events", params={"limit": 1_000}).json()["items"]
        assert events(tags, name)[:2] == [
            ("run-stopping", "StartRefused"),
            ("run-requeued", "StartRefused"),
        ]
        made.delete("Run", "wide")
        made.until_gone("Run", "wide")
        service.end()
