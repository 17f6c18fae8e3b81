from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from quorate.operations.table import OPERATIONS
from quorate.service.http.table_paths import places
from tests.service.conftest import Stage
from tests.service.serving import new_ledger, serving
from tests.service.worlds import run_tree

TOLD = "application/vnd.quorate.told+json"


def submit(client: httpx.Client, name: str, **more: Any) -> httpx.Response:
    return client.post("/api/v1/runs", json={"document": run_tree(name, "rai")}, **more)


def code(answer: httpx.Response) -> str:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    tree = answer.json()
    assert tree["status"] == answer.status_code
    assert tree["type"] == f"urn:quorate:problem:{tree['code']}"
    assert tree["lines"]
    return str(tree["code"])


def test_a_run_is_submitted_and_shown(stage: Stage) -> None:
    done = submit(stage.user, "shown")
    assert done.status_code == 200
    assert done.json()["changes"] == [{"kind": "Run", "name": "shown", "change": "submitted"}]
    assert done.json()["head"]["receipt"]
    found = stage.user.get("/api/v1/runs/shown")
    assert found.json()["metadata"]["name"] == "shown"
    assert found.headers["x-request-id"]
    assert found.headers["cache-control"] == "no-store"


def test_owner_and_user_come_from_the_token(stage: Stage) -> None:
    mine = submit(stage.user, "whose").json()["events"][0]
    assert mine["actor"] == "rai/ann"
    assert mine["run"]["user"] == "ann"
    theirs = stage.stranger.post("/api/v1/runs", json={"document": run_tree("theirs", "rai")})
    assert (theirs.status_code, code(theirs)) == (403, "forbidden")


def test_what_may_not_be_seen_is_not_there(stage: Stage) -> None:
    submit(stage.user, "hidden")
    answer = stage.stranger.get("/api/v1/runs/hidden")
    assert (answer.status_code, code(answer)) == (404, "unknown-name")
    names = [
        each["metadata"]["name"] for each in stage.stranger.get("/api/v1/runs").json()["items"]
    ]
    assert "hidden" not in names


def test_a_dry_run_says_what_would_be_and_does_not(stage: Stage) -> None:
    done = submit(stage.user, "dry", params={"dryRun": "true"})
    assert done.json()["dryRun"] is True
    assert stage.user.get("/api/v1/runs/dry").status_code == 404


def test_a_repeated_key_returns_the_first_answer(stage: Stage) -> None:
    headers = {"Idempotency-Key": "once"}
    first = submit(stage.user, "keyed", headers=headers)
    again = submit(stage.user, "keyed", headers=headers)
    assert first.status_code == again.status_code == 200
    assert first.content == again.content
    other = submit(stage.user, "keyed-2", headers=headers)
    assert (other.status_code, code(other)) == (422, "key-reused")


def test_a_repeated_key_returns_the_first_answer_after_a_restart(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    body = {"documents": [_owner("x")]}
    headers = {"Idempotency-Key": "once"}
    with serving(ledger) as served:
        token = served.token
        with served.client(token) as client:
            client.post("/api/v1/apply", json=body)
            first = client.post("/api/v1/runs", json=_run(), headers=headers)
            assert first.status_code == 200, first.text
    with serving(ledger) as served:
        assert served.token is None, "there is an admin's token already"
        with served.client(token) as client:
            assert (
                client.post("/api/v1/runs", json=_run(), headers=headers).content == first.content
            )


def _owner(name: str) -> dict[str, Any]:
    return {"apiVersion": "quorate.dev/v1", "kind": "Owner", "metadata": {"name": name}}


def _run() -> dict[str, Any]:
    return {"document": run_tree("r1", "x")}


def test_of_two_updates_of_one_version_one_wins(stage: Stage) -> None:
    etag = stage.admin.get("/api/v1/tenants/rai").headers["etag"]
    first = stage.admin.put(
        "/api/v1/tenants/rai", json={"max_nodes": 100}, headers={"If-Match": etag}
    )
    assert first.status_code == 200, first.text
    second = stage.admin.put(
        "/api/v1/tenants/rai", json={"max_nodes": 50}, headers={"If-Match": etag}
    )
    assert (second.status_code, code(second)) == (412, "stale-version")
    refusal = second.json()["refusals"][0]
    assert refusal["code"] == "stale-version"
    now = stage.admin.get("/api/v1/tenants/rai")
    assert now.headers["etag"] != etag
    same = stage.admin.get("/api/v1/tenants/rai", headers={"If-None-Match": now.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")


def test_documents_other_than_tenants_have_versions_too(stage: Stage) -> None:
    found = stage.admin.get("/api/v1/nodes/a1")
    document = {key: found.json()[key] for key in ("apiVersion", "kind", "metadata", "spec")}
    etag = found.headers["etag"]
    wrong = stage.admin.put(
        "/api/v1/nodes/a1", json={"document": document}, headers={"If-Match": '"no"'}
    )
    assert (wrong.status_code, code(wrong)) == (412, "stale-version")
    right = stage.admin.put(
        "/api/v1/nodes/a1", json={"document": document}, headers={"If-Match": etag}
    )
    assert right.status_code == 200, right.text


def test_people_are_told_in_lines_and_wide_ones_where_asked_for(stage: Stage) -> None:
    narrow = stage.admin.get("/api/v1/nodes", headers={"Accept": TOLD})
    wide = stage.admin.get("/api/v1/nodes", headers={"Accept": f"{TOLD}; wide=true"})
    assert narrow.headers["content-type"] == TOLD
    first = [each.json()["out"][0].splitlines()[0] for each in (narrow, wide)]
    assert len(first[1]) > len(first[0])
    told = stage.user.post(
        "/api/v1/runs", json={"document": run_tree("told", "rai")}, headers={"Accept": TOLD}
    ).json()
    assert told["done"].startswith("recorded sequence")
    assert told["out"][0] == "run/told submitted"


def test_usage_can_be_had_for_a_spreadsheet(stage: Stage) -> None:
    found = stage.admin.get(
        "/api/v1/tenants/rai/usage", params={"days": 90}, headers={"Accept": "text/csv"}
    )
    assert found.status_code == 200, found.text
    assert found.headers["content-type"].startswith("text/csv")
    assert "," in found.text.splitlines()[0]
    nodes = stage.admin.get("/api/v1/nodes", headers={"Accept": "text/csv"})
    assert nodes.status_code == 200, nodes.text
    assert nodes.text.splitlines()[0].startswith("NAME,")
    none = stage.admin.get("/api/v1/whoami", headers={"Accept": "text/csv"})
    assert (none.status_code, code(none)) == (406, "not-acceptable")


def test_an_export_comes_line_by_line(stage: Stage) -> None:
    found = stage.auditor.get("/api/v1/ledger/export")
    assert found.headers["content-type"] == "application/x-ndjson"
    assert found.headers["transfer-encoding"] == "chunked"
    lines = [json.loads(line) for line in found.text.splitlines()]
    assert len(lines) > 2
    assert stage.user.get("/api/v1/ledger/export").status_code == 403


def test_lists_are_paged(stage: Stage) -> None:
    names: list[str] = []
    params: dict[str, Any] = {"limit": 4}
    whole = stage.admin.get("/api/v1/nodes").json()["items"]
    for _ in whole:
        page = stage.admin.get("/api/v1/nodes", params=params).json()
        assert len(page["items"]) <= 4
        names += [each["metadata"]["name"] for each in page["items"]]
        if "next" not in page:
            break
        params["cursor"] = page["next"]
    assert names == [each["metadata"]["name"] for each in whole]
    some = stage.admin.get("/api/v1/nodes", params=[("names", "a1"), ("names", "b1")]).json()
    assert [each["metadata"]["name"] for each in some["items"]] == ["a1", "b1"]
    gone = stage.admin.get("/api/v1/nodes", params={"cursor": "nope"})
    assert (gone.status_code, code(gone)) == (410, "stale-cursor")


def test_names_with_a_slash_are_sent_escaped(stage: Stage) -> None:
    found = stage.admin.get("/api/v1/envelopes/rai%2Fwest")
    assert found.status_code == 200, found.text
    assert found.json()["metadata"]["name"] == "rai/west"


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("limt=5", "limt: there is no such parameter; did you mean 'limit'?"),
        ("limit=five", "limit: expected int or null, got str"),
        ("limit=0", "limit: expected int >= 1"),
        ("limit=5&limit=6", "limit: is given more than once; give it once"),
        ("newest=maybe", "newest: expected bool, got str"),
        ("limit", "query: must be NAME=VALUE pairs joined by &, in UTF-8"),
        ("owner=%ff", "query: must be NAME=VALUE pairs joined by &, in UTF-8"),
        ("dryRun=true", "dryRun: there is no such parameter"),
    ],
)
def test_a_wrong_query_is_refused_by_name(stage: Stage, query: str, says: str) -> None:
    found = stage.user.get(f"/api/v1/runs?{query}")
    assert (found.status_code, code(found)) == (400, "usage")
    assert found.json()["detail"].startswith(says)


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b'{"documnt": {}}', 422, "documnt: there is no such field; did you mean 'document'?"),
        (b'{"document": 5}', 422, "document: expected object or null, got int"),
        (b'{"dryRun": true}', 422, "dryRun: must be in the query: ?dryRun=true"),
        (b'{"idempotencyKey": "k"}', 422, "idempotencyKey: there is no such field"),
        (b'{"document": ', 400, "body at line 1"),
        (b'{"name": "a", "name": "b"}', 400, "body at line 1"),
        (b"[]", 400, "body: must be one JSON object"),
        (b"[{}]", 400, "body: must be one JSON object"),
        (b"{}{}", 400, "body: must be one JSON object"),
        (b"\xff", 400, "body: must be UTF-8"),
        (b'{"a":' * 5_000, 400, "body at line 1"),
        (b"", 400, "give either document or like"),
    ],
)
def test_a_wrong_body_is_refused_by_name(stage: Stage, body: bytes, status: int, says: str) -> None:
    found = stage.user.post(
        "/api/v1/runs", content=body, headers={"Content-Type": "application/json"}
    )
    assert found.status_code == status, found.text
    assert found.json()["detail"].startswith(says), found.text


def test_a_document_with_faults_names_all_of_them(stage: Stage) -> None:
    tree = run_tree("bad", "rai") | {"spec": {"owner": 5, "resources": {"totalGPUs": -1}}}
    found = stage.user.post("/api/v1/runs", json={"document": tree})
    assert (found.status_code, code(found)) == (422, "invalid")
    assert len(found.json()["lines"]) >= 2


def test_a_body_and_a_path_must_agree(stage: Stage) -> None:
    found = stage.admin.put("/api/v1/tenants/rai", json={"id": "core", "max_nodes": 1})
    assert (found.status_code, code(found)) == (422, "invalid")
    same = stage.admin.put("/api/v1/tenants/rai", json={"id": "rai", "max_nodes": 90})
    assert same.status_code == 200


def test_a_quota_refuses_with_429_and_its_numbers(stage: Stage) -> None:
    stage.admin.put("/api/v1/tenants/core", json={"max_concurrent_allocations": 0})
    found = stage.admin.post("/api/v1/runs", json={"document": run_tree("over", "core")})
    assert (found.status_code, code(found)) == (429, "max-concurrent-runs")
    assert found.json()["refusals"][0]["subject"] == "core"
    assert "retry-after" not in found.headers


@pytest.mark.parametrize(
    ("asked", "headers", "status", "says"),
    [
        ("GET /api/v1/nothing", {}, 404, "not-found"),
        ("GET /", {}, 404, "not-found"),
        ("GET /api/v1/runs/", {}, 404, "not-found"),
        ("DELETE /api/v1/runs", {}, 405, "method-not-allowed"),
        ("BREW /api/v1/runs", {}, 400, "usage"),
        ("GET /api/v1/runs", {"Accept": "image/png"}, 406, "not-acceptable"),
        ("POST /api/v1/runs", {"Content-Type": "text/plain"}, 415, "unsupported-media-type"),
        (
            "POST /api/v1/runs",
            {"Content-Type": "application/json; charset=latin-1"},
            415,
            "unsupported-media-type",
        ),
        ("GET /api/v1/runs", {"Authorization": ""}, 401, "unauthenticated"),
    ],
)
def test_what_is_not_served_is_a_problem_too(
    stage: Stage, asked: str, headers: dict[str, str], status: int, says: str
) -> None:
    method, path = asked.split()
    content = b"{}" if method == "POST" else None
    found = stage.admin.request(method, path, headers=headers, content=content)
    assert (found.status_code, code(found)) == (status, says)
    if status == 405:
        assert found.headers["allow"] == "GET, HEAD, POST"
    if status == 401:
        assert found.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("*/*", 200),
        ("application/*", 200),
        ("image/png, application/json;q=0.1", 200),
        ("application/json;q=0", 406),
        ("text/html,application/xhtml+xml,*/*;q=0.8", 200),
        ("application/json;q=nonsense", 406),
    ],
)
def test_accept_is_weighed(stage: Stage, accept: str, status: int) -> None:
    found = stage.admin.get("/api/v1/whoami", headers={"Accept": accept})
    assert found.status_code == status


def test_a_body_where_none_is_read_is_refused(stage: Stage) -> None:
    found = stage.admin.request("GET", "/api/v1/runs", content=b"{}")
    assert (found.status_code, code(found)) == (400, "usage")


def test_head_is_get_without_a_body(stage: Stage) -> None:
    found = stage.admin.head("/api/v1/nodes/a1")
    assert (found.status_code, found.content) == (200, b"")
    assert found.headers["etag"]


def test_the_service_says_how_it_is(stage: Stage) -> None:
    with stage.served.client(None) as client:
        assert client.get("/healthz").json() == {"status": "alive"}
        assert client.get("/readyz").json()["status"] == "ready"
        assert set(client.get("/version").json()) == {"version", "api"}
        assert client.get("/openapi.json").json()["openapi"] == "3.1.0"


def test_a_client_may_name_its_request(stage: Stage) -> None:
    found = stage.admin.get("/healthz", headers={"X-Request-Id": "mine-1"})
    assert found.headers["x-request-id"] == "mine-1"
    odd = stage.admin.get("/healthz", headers={"X-Request-Id": "a b"})
    assert odd.headers["x-request-id"] != "a b"


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_operation_is_routed(stage: Stage, name: str) -> None:
    """No operation answers with a picture: each refuses this format, and none says "not found"."""
    operation = OPERATIONS[name]
    path = re.sub(r"\{\w+\}", "x", operation.path)
    found = stage.admin.request(operation.method, f"/api/v1{path}", headers={"Accept": "image/png"})
    assert found.status_code == 406
    assert found.json()["detail"].startswith(f"Accept: {name} ")


def test_no_two_operations_share_a_route() -> None:
    routed = [each.name for methods in places().values() for each in methods.values()]
    assert sorted(routed) == sorted(OPERATIONS)
