"""The words and shapes of the systems that Quorate descends from, sent to a real service."""

from __future__ import annotations

import json
from contextlib import chdir
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from quorate.cli.main import main
from quorate.cli.settings import Settings
from tests.service.conftest import Stage

ENVELOPE = {
    "id": "seeded",
    "flavor": "H100",
    "selector": {"region": "us-west"},
    "window": {"start": "2026-01-01T00:00:00Z", "end": "2040-01-01T00:00:00Z"},
    "concurrency": 4,
    "lending": {"allow": True, "toACL": ["*"], "lendC": 2, "lendB": 0.5},
}
NEW = count()
FLAT = {"owner": "rai", "flavor": "H100", "totalGPUs": 8, "groupGPUs": 4, "spares": 1}


@pytest.mark.parametrize("wrap", [lambda tree: tree, lambda tree: {"document": tree}])
@pytest.mark.parametrize(
    "head",
    [
        lambda name, spec: {"name": name} | spec,
        lambda name, spec: {"metadata": {"name": name}, "spec": spec},
        lambda name, spec: {
            "apiVersion": "quorate.dev/v1",
            "kind": "Run",
            "metadata": {"name": name},
            "spec": spec,
        },
    ],
    ids=["spec", "headless", "whole"],
)
def test_a_run_is_submitted_in_any_shape_and_shown_in_ours(
    stage: Stage, head: Any, wrap: Any
) -> None:
    name = f"shaped-{next(NEW)}"
    sent = stage.admin.post("/api/v1/runs", json=wrap(head(name, FLAT)))
    assert sent.status_code == 200, sent.text
    spec = stage.admin.get(f"/api/v1/runs/{name}").json()["spec"]
    assert spec["resources"] == {"gpuType": "H100", "totalGPUs": 8}
    assert spec["locality"] == {"groupGPUs": 4}
    assert spec["sparesPerGroup"] == 1
    assert stage.admin.post(f"/api/v1/runs/{name}/cancel", json={}).status_code == 200


def test_a_bare_budget_is_put_under_the_name_of_its_path(stage: Stage) -> None:
    sent = stage.admin.put("/api/v1/budgets/seeded", json={"owner": "rai", "envelopes": [ENVELOPE]})
    assert sent.status_code == 200, sent.text
    found = stage.admin.get("/api/v1/budgets/seeded").json()
    (envelope,) = found["spec"]["envelopes"]
    assert envelope["name"] == "seeded"
    assert envelope["end"] == "2040-01-01T00:00:00Z"
    assert envelope["lending"] == {
        "allow": True,
        "to": ["*"],
        "maxConcurrency": 2,
        "maxGPUHours": 0.5,
    }
    again = stage.admin.put("/api/v1/budgets/seeded", json=found)
    assert [each["change"] for each in again.json()["changes"]] == ["unchanged"]


def test_documents_are_applied_without_a_wrapper(stage: Stage) -> None:
    owner = {"apiVersion": "quorate.dev/v1", "kind": "Owner", "metadata": {"name": "bare"}}
    several = {"kind": "List", "items": [owner, owner | {"metadata": {"name": "bare-2"}}]}
    for body, documents in ((owner, 1), (several, 2)):
        sent = stage.admin.post("/api/v1/apply", json=body)
        assert sent.status_code == 200, sent.text
        assert len(sent.json()["changes"]) == documents


def test_a_misspelt_field_of_a_request_is_still_told(stage: Stage) -> None:
    sent = stage.admin.post("/api/v1/runs", json={"documnet": FLAT})
    assert sent.status_code == 422
    assert sent.json()["lines"] == ["documnet: there is no such field; did you mean 'document'?"]


def test_a_synonym_that_contradicts_our_word_names_both(stage: Stage) -> None:
    spec = FLAT | {"resources": {"gpuType": "H100", "totalGPUs": 16}}
    sent = stage.admin.post("/api/v1/runs", json={"name": "both"} | spec)
    assert sent.status_code == 422
    (line,) = sent.json()["lines"]
    assert "totalGPUs: means the same as resources.totalGPUs, but differs: 8, not 16" in line


def test_a_tenant_s_put_takes_what_its_get_gives(stage: Stage) -> None:
    made = {"id": "trip", "max_nodes": 3, "fair_share_target": 0.15, "parents": ["core"]}
    assert stage.admin.post("/api/v1/tenants", json=made).status_code == 200
    given = stage.admin.get("/api/v1/tenants/trip").json()
    again = stage.admin.put("/api/v1/tenants/trip", json=given)
    assert again.status_code == 200, again.text
    assert [each["change"] for each in again.json()["changes"]] == ["unchanged"]
    given["spec"]["quota"]["maxNodes"] = 5
    assert stage.admin.put("/api/v1/tenants/trip", json=given).status_code == 200
    changed = stage.admin.get("/api/v1/tenants/trip").json()
    assert changed["spec"] == given["spec"]
    other = stage.admin.put("/api/v1/tenants/bare", json=given)
    assert other.status_code == 422
    assert other.json()["lines"] == ['id: the body has "trip", but the path has "bare"']
    unknown = stage.admin.put(
        "/api/v1/tenants/trip", json=given | {"spec": {"quota": {"maxNode": 5}}}
    )
    assert unknown.json()["lines"] == ["maxNode: there is no such field; did you mean 'max_nodes'?"]


def test_a_bare_file_is_submitted_by_the_command_line(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stage.served.token is not None
    (tmp_path / "run.json").write_text(json.dumps(FLAT | {"name": "typed"}), encoding="utf-8")
    environ = {"QUORATE_SERVER": stage.served.url, "QUORATE_TOKEN": stage.served.token}
    with chdir(tmp_path):
        code = main(["submit", "-f", "run.json", "--dry-run"], Settings(environ=environ))
        assert code == 0, capsys.readouterr()
        assert "run/typed" in capsys.readouterr().out
        assert main(["plan", "-f", "run.json", "--dry-run"], Settings(environ=environ)) == 0
