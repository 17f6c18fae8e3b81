"""A service with a small fleet, four teams and real work, which the dashboard shows.

Some runs work, one waits for money and one for room, a spare has replaced a lost node, and one
lottery was drawn.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from tests.bounds import until
from tests.service.serving import LOCAL, Served, new_ledger, serving

API: Final = "quorate.dev/v1"
WINDOW: Final = {"start": "2026-01-01T00:00:00Z", "end": "2030-01-01T00:00:00Z"}
_LEFT: Final = ("Pending", "Running")
TRAIN: Final = """
import itertools, time
for step in itertools.count(1):
    print(f"step {step}, loss {0.4 + 5 / (1 + step / 8):.4f}", flush=True)
    time.sleep(0.4)
"""


def _document(kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": kind,
        "metadata": {"name": name} | metadata,
        "spec": spec,
    }


def _nodes(place: tuple[str, str, str], flavor: str, count: int, gpus: int) -> list[dict[str, Any]]:
    region, cluster, domain = place
    labels = {"region": region, "cluster": cluster, "fabric.domain": domain}
    return [
        _document(
            "Node",
            f"{domain.lower()}{number}",
            {"flavor": flavor, "gpus": gpus},
            labels=labels,
        )
        for number in range(1, count + 1)
    ]


def _team(name: str, flavor: str, region: str, gpus: int, **more: Any) -> Iterator[dict[str, Any]]:
    yield _document("Owner", name, {})
    envelope = {
        "name": region.partition("-")[2],
        "flavor": flavor,
        "selector": {"region": region},
        "concurrency": gpus,
        "maxGPUHours": 4_000,
    }
    yield _document("Budget", name, {"owner": name, "envelopes": [envelope | WINDOW | more]})


DOCUMENTS: Final = [
    _document(
        "Pool",
        "default",
        {
            "reservationNotice": "6s",
            "minRuntime": "2s",
            "maxGrace": "3s",
            "coolDown": "10m",
        },
    ),
    _document(
        "Pool",
        "shared",
        {
            "selector": {"fabric.domain": "S"},
            "discipline": "rounds",
            "policy": "max_min_fairness_perf",
            "roundLength": "6m",
        },
    ),
    *_nodes(("ap-south", "c3", "S"), "V100", 2, 4),
    *_nodes(("us-west", "c1", "A"), "H100", 6, 8),
    *_nodes(("us-west", "c1", "B"), "H100", 6, 8),
    *_nodes(("us-west", "c1", "C"), "H100", 4, 8),
    *_nodes(("eu-north", "c2", "N"), "A100", 2, 4),
    *_team("language", "H100", "us-west", 48),
    *_team("vision", "A100", "eu-north", 4),
    *_team("speech", "A100", "eu-north", 4),
    *_team("robotics", "A100", "eu-north", 4),
    *_team("audio", "H100", "us-west", 4),
    *_team("biology", "V100", "ap-south", 8),
    *_team(
        "lab",
        "H100",
        "us-west",
        32,
        lending={"allow": True, "to": ["language"], "maxConcurrency": 24},
    ),
]


def run_document(name: str, owner: str, flavor: str, gpus: int, **spec: Any) -> dict[str, Any]:
    """Return a run whose work reports steps and losses."""
    work = {"command": ["python3", "-u", "-c", TRAIN], "processes": "node"}
    asked = {"owner": owner, "resources": {"gpuType": flavor, "totalGPUs": gpus}}
    return _document("Run", name, asked | work | spec)


@dataclass
class World:
    """The service, and tokens of three roles."""

    served: Served
    admin: str
    user: str
    auditor: str

    def client(self) -> httpx.Client:
        """Return a client of the admin."""
        return self.served.client(self.admin)

    def submit(self, *documents: dict[str, Any]) -> None:
        """Submit runs together, as the admin."""
        with self.client() as client:
            done = client.post("/api/v1/runs/batch", json={"documents": documents})
            assert done.status_code == 200, done.text

    def get(self, path: str) -> Any:
        """Return the answer to a request of the admin."""
        with self.client() as client:
            found = client.get(f"/api/v1{path}")
            assert found.status_code == 200, found.text
            return json.loads(found.content)


def _token(client: httpx.Client, role: str, user: str, tenant: str = "") -> str:
    body = {"role": role, "user": user, "tenant": tenant}
    found = client.post("/api/v1/tokens", json=body)
    assert found.status_code == 200, found.text
    return str(found.json()["token"]["secret"])


REPORT: Final = "max-min-fairness.html"


def write_report(path: Path) -> None:
    """Have a small simulation write its report to ``path``."""
    examples = Path(__file__).parents[2] / "examples"
    command = [sys.executable, "-m", "quorate", "simulate", "--policy", "max_min_fairness_perf"]
    command += ["--trace", str(examples / "simulation" / "jobs.csv")]
    command += ["--throughputs", str(examples / "rates.json")]
    command += ["--cluster", "h100=2,l40s=3", "--gpus-per-node", "2", "--report", str(path)]
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def world_in(folder: Path) -> Iterator[World]:
    """Yield a service whose lottery was drawn; its work ends with it."""
    reports = folder / "reports"
    reports.mkdir()
    write_report(reports / REPORT)
    flags = LOCAL | {"reports.folder": str(reports)}
    with serving(new_ledger(folder), flags) as served:
        assert served.token is not None
        with served.client(served.token) as client:
            applied = client.post("/api/v1/apply", json={"documents": DOCUMENTS})
            assert applied.status_code == 200, applied.text
            world = World(
                served,
                admin=served.token,
                user=_token(client, "user", "ann", "language"),
                auditor=_token(client, "auditor", "eve"),
            )
        try:
            _play(world)
            yield world
        finally:
            _end(world)


def _fold(name: str, gpus: int, rate: float) -> dict[str, Any]:
    """Return a run of the pool with rounds."""
    shared = {"pool": "shared", "throughputs": {"V100": rate}, "totalSteps": 200_000}
    return run_document(name, "biology", "V100", gpus, **shared)


def _play(world: World) -> None:
    """Let work run, lose a node, call a conflict, and let runs wait."""
    borrowing = {"allowBorrow": True, "sponsors": ["lab"]}
    world.submit(
        run_document(
            "pretrain-7b",
            "language",
            "H100",
            32,
            locality={"groupGPUs": 16},
            sparesPerGroup=8,
        )
    )
    world.submit(run_document("eval-suite", "language", "H100", 8, funding=borrowing))
    world.submit(run_document("distill", "lab", "H100", 12))
    world.submit(run_document("sweep", "lab", "H100", 28))
    world.submit(run_document("detect", "vision", "A100", 4))
    world.submit(run_document("listen", "speech", "A100", 4))
    world.submit(run_document("grasp", "robotics", "A100", 4))
    world.submit(run_document("segment", "vision", "A100", 6))
    world.submit(run_document("ablation", "language", "H100", 96, funding=borrowing))
    world.submit(
        *(_fold(*each) for each in (("fold-a", 4, 9.5), ("fold-b", 4, 4), ("fold-c", 8, 6)))
    )
    with world.client() as client:
        # A node on which pretrain-7b works, so that a spare replaces it.
        lease = client.get("/api/v1/leases/pretrain-7b%2F0").json()
        lost = lease["status"]["slots"][0]["node"]
        assert client.post(f"/api/v1/nodes/{lost}/fail", json={}).status_code == 200
        assert client.post("/api/v1/nodes/c4/cordon", json={}).status_code == 200
    until(lambda: _is_drawn(world), "a lottery is drawn", every_s=0.5)


def _end(world: World) -> None:
    """Cancel every run, those that wait first, and wait until no process is left."""
    runs = world.get("/runs?newest=true")["items"]
    left = [each["metadata"]["name"] for each in runs if each["status"]["phase"] in _LEFT]
    with world.client() as client:
        for name in left:
            assert client.post(f"/api/v1/runs/{name}/cancel", json={}).status_code == 200
    until(lambda: not world.get("/leases")["items"], "all work has ended", every_s=0.5)


def _is_drawn(world: World) -> bool:
    outcomes = world.get("/resolver/outcomes")["items"]
    running = world.get("/runs/grasp")["status"]["phase"] == "Running"
    return running and any(each["status"]["seed"] for each in outcomes)
