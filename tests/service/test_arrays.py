"""Arrays of runs through a service: REST, the Python client, and what other tenants may see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate import Client
from quorate.core.commands import Applied
from quorate.documents import render
from quorate.model.specs import Owner
from quorate.testing.builders import budget, envelope, fleet
from tests.service.serving import Served, new_ledger, serving
from tests.service.test_batches import token
from tests.service.worlds import run_tree

Tree = dict[str, Any]


def array_tree(name: str, tasks: str, **spec: Any) -> Tree:
    return run_tree(name, "team", gpus=1, array={"tasks": tasks}, **spec)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    money = budget("b", "team", envelope("e", 64, start_ms=0, end_ms=4_000_000_000_000))
    specs: tuple[Applied, ...] = (Owner(name="team"), Owner(name="other"), *fleet({"A": 64}), money)
    with serving(new_ledger(tmp_path)) as found:
        with found.client(found.token) as admin:
            trees = [render(spec) for spec in specs]
            made = admin.post("/api/v1/apply", json={"documents": trees})
            assert made.status_code == 200, made.text
        yield found


@pytest.mark.slow
def test_an_array_is_one_document_and_one_item_by_rest(served: Served) -> None:
    with served.client(served.token) as client:
        made = client.post("/api/v1/runs", json={"document": array_tree("sweep", "0-9%4")})
        assert made.status_code == 200, made.text
        again = client.post("/api/v1/runs", json={"document": array_tree("sweep", "0-9%4")})
        assert {each["change"] for each in again.json()["changes"]} == {"unchanged"}
        other = client.post("/api/v1/runs", json={"document": array_tree("sweep", "0-9%5")})
        assert other.status_code == 409, other.text
        named = client.post("/api/v1/runs", json={"document": run_tree("sweep", "team")})
        assert "an array of the name sweep exists" in named.text
        listed = client.get("/api/v1/runs", params={"grouped": "true"}).json()["items"]
        assert [each["metadata"]["name"] for each in listed] == ["sweep"]
        assert listed[0]["spec"]["array"] == {"tasks": "0-9%4"}
        assert listed[0]["status"]["tasks"] == {"Pending": 6, "Running": 4}
        assert len(client.get("/api/v1/runs").json()["items"]) == 10
        task = client.get("/api/v1/runs/sweep[3]").json()
        assert task["spec"]["array"] == {"name": "sweep", "tasks": "0-9%4", "task": 3}
        assert client.get("/api/v1/runs/sweep[1-2]/explanation").status_code >= 400
        cancelled = client.post("/api/v1/runs/sweep[2-5]/cancel", json={})
        assert cancelled.status_code == 200, cancelled.text
        whole = client.get("/api/v1/runs/sweep").json()
        assert whole["status"]["tasks"] == {"Pending": 2, "Running": 4, "Cancelled": 4}
        pages: list[str] = []
        params: Tree = {"grouped": "true", "limit": 1}
        client.post("/api/v1/runs", json={"document": run_tree("last", "team", gpus=1)})
        while True:
            page = client.get("/api/v1/runs", params=params).json()
            pages += [each["metadata"]["name"] for each in page["items"]]
            if "next" not in page:
                break
            params["cursor"] = page["next"]
        assert pages == ["sweep", "last"]
        client.post("/api/v1/runs/sweep/cancel", json={})
        whole = client.get("/api/v1/runs/sweep").json()
        assert whole["status"]["tasks"] == {"Cancelled": 10}
        assert whole["status"]["phase"] == "Cancelled"


@pytest.mark.slow
def test_an_array_is_submitted_and_followed_by_the_client(served: Served) -> None:
    assert served.token is not None
    with Client(served.url, token=served.token) as client:
        client.submit(gpus=1, team="team", flavor="H100", name="sweep", array="1-3", command=["x"])
        client.submit(
            gpus=1, team="team", flavor="H100", name="last", after=["sweep"], command=["x"]
        )
        found = client.runs.get("sweep")
        assert (found.status.phase, dict(found.status.tasks)) == ("Running", {"Running": 3})
        assert found.spec.array is not None
        assert found.spec.array.tasks == "1-3"
        for index in (1, 2, 3):
            assert client.runs.get("last").status.phase == "Pending"
            client.complete_run(run=f"sweep[{index}]")
        assert client.runs.get("sweep").status.phase == "Completed"
        assert client.runs.get("last").status.phase == "Running"


@pytest.mark.slow
def test_another_tenant_learns_nothing_of_an_array(served: Served) -> None:
    with served.client(served.token) as admin:
        made = admin.post("/api/v1/runs", json={"document": array_tree("secret", "0-2")})
        assert made.status_code == 200, made.text
    with served.client(token(served, "eve", "other")["secret"]) as eve:
        for method, path in (
            ("GET", "/api/v1/runs/{}"),
            ("GET", "/api/v1/runs/{}/description"),
            ("GET", "/api/v1/runs/{}/explanation"),
            ("POST", "/api/v1/runs/{}/cancel"),
            ("POST", "/api/v1/runs/{}/complete"),
        ):
            told = [
                eve.request(method, path.format(name), json={} if method == "POST" else None)
                for name in ("secret", "nowhere")
            ]
            texts = [each.text.replace("secret", "nowhere") for each in told]
            assert told[0].status_code == told[1].status_code == 404, (path, told[0].text)
            assert texts[0].partition("traceId")[0] == texts[1].partition("traceId")[0], path
        assert eve.get("/api/v1/runs", params={"grouped": "true"}).json()["items"] == []
        follower = run_tree("mine", "other", gpus=1, follow={"after": ["secret"]})
        refused = eve.post("/api/v1/runs", json={"document": follower})
        assert refused.status_code == 404, refused.text
