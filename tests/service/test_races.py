from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.bounds import WAIT_S, until
from tests.service.conftest import Stage, documents_of
from tests.service.serving import Served, new_ledger, read_all, serving
from tests.service.worlds import run_tree

RACERS = 12
ROUNDS = 5
Tree = dict[str, Any]


def at_once(
    racers: Sequence[httpx.Client],
    method: str,
    path: str,
    bodies: Sequence[Tree],
    headers: Mapping[str, str],
) -> list[httpx.Response]:
    """Return the answers to all ``racers``, who send at the same moment."""
    gate = threading.Barrier(len(racers))

    def ask(client: httpx.Client, body: Tree) -> httpx.Response:
        gate.wait(WAIT_S)
        return client.request(method, path, json=body, headers=headers)

    with ThreadPoolExecutor(len(racers)) as pool:
        return list(pool.map(ask, racers, bodies))


@pytest.fixture(scope="module")
def racers(stage: Stage) -> Iterator[list[httpx.Client]]:
    """Return clients with one open connection each."""
    clients = [stage.served.client(stage.served.token) for _ in range(RACERS)]
    for client in clients:
        client.get("/healthz")
    yield clients
    for client in clients:
        client.close()


def end_of(stage: Stage) -> int:
    return int(stage.admin.get("/readyz").json()["sequence"])


def _document(found: Tree) -> Tree:
    return {key: found[key] for key in ("apiVersion", "kind", "metadata", "spec")}


def _race(stage: Stage, racers: list[httpx.Client], path: str, bodies: Sequence[Tree]) -> Tree:
    """Return the body of the one request that won, after checking the refusals of the others."""
    etag = stage.admin.get(path).headers["etag"]
    found = at_once(racers, "PUT", path, bodies, {"If-Match": etag})
    assert Counter(each.status_code for each in found) == {200: 1, 412: RACERS - 1}, found[0].text
    for lost in found:
        if lost.status_code == 412:
            assert lost.json()["code"] == "stale-version"
    assert stage.admin.get(path).headers["etag"] != etag
    (won,) = (body for body, each in zip(bodies, found, strict=True) if each.status_code == 200)
    return won


@pytest.mark.parametrize("attempt", range(ROUNDS))
def test_of_many_updates_of_one_tenant_one_wins(
    stage: Stage, racers: list[httpx.Client], attempt: int
) -> None:
    path = "/api/v1/tenants/rai"
    bodies = [{"max_nodes": 100 * (attempt + 1) + number} for number in range(RACERS)]
    won = _race(stage, racers, path, bodies)
    assert stage.admin.get(path).json()["spec"]["quota"]["maxNodes"] == won["max_nodes"]


def test_of_many_updates_of_one_budget_one_wins(stage: Stage, racers: list[httpx.Client]) -> None:
    path = "/api/v1/budgets/core"
    document = _document(stage.admin.get(path).json())
    bodies = []
    for number in range(RACERS):
        changed = json.loads(json.dumps(document))
        changed["spec"]["envelopes"][0]["maxGPUHours"] = 4_000 + number
        bodies.append({"document": changed})
    won = _race(stage, racers, path, bodies)
    assert stage.admin.get(path).json()["spec"] == won["document"]["spec"]


def test_of_many_updates_of_one_pool_one_wins(stage: Stage, racers: list[httpx.Client]) -> None:
    path = "/api/v1/pools/raced"

    def pool(hours: int) -> Tree:
        # A pool without nodes, so that runs of other tests are not affected.
        spec = {"selector": {"purpose": "raced"}, "reservationNotice": f"{hours}h"}
        head = {"apiVersion": "quorate.dev/v1", "kind": "Pool", "metadata": {"name": "raced"}}
        return {"document": head | {"spec": spec}}

    made = stage.admin.put(path, json=pool(1))
    assert made.status_code == 200, made.text
    won = _race(stage, racers, path, [pool(hours) for hours in range(2, 2 + RACERS)])
    now = stage.admin.get(path).json()["spec"]
    assert now["reservationNotice"] == won["document"]["spec"]["reservationNotice"]


def test_of_many_who_make_one_tenant_one_does(racers: list[httpx.Client]) -> None:
    found = at_once(racers, "POST", "/api/v1/tenants", [{"id": "made-once"}] * RACERS, {})
    assert sum(each.status_code == 200 for each in found) == 1, [each.text for each in found]


KEYED: list[tuple[str, Tree]] = [
    ("/api/v1/runs", {"document": run_tree("keyed-run", "rai")}),
    ("/api/v1/runs/batch", {"documents": [run_tree("keyed-a", "rai"), run_tree("keyed-b", "rai")]}),
    (
        "/api/v1/apply",
        {
            "documents": [
                {
                    "apiVersion": "quorate.dev/v1",
                    "kind": "Owner",
                    "metadata": {"name": "keyed-owner"},
                }
            ]
        },
    ),
]


@pytest.mark.parametrize(("path", "body"), KEYED)
def test_one_key_sent_by_many_at_once_is_done_once(
    stage: Stage, racers: list[httpx.Client], path: str, body: Tree
) -> None:
    headers = {"Idempotency-Key": f"race {path}"}
    before = end_of(stage)
    found = at_once(racers, "POST", path, [body] * RACERS, headers)
    assert {each.status_code for each in found} == {200}, found[0].text
    (first,) = {each.content for each in found}
    tree = json.loads(first)
    after = end_of(stage)
    assert after - before == len(tree["events"])
    assert racers[0].post(path, json=body, headers=headers).content == first
    assert end_of(stage) == after


def test_a_key_of_another_body_is_refused_whichever_comes_first(
    stage: Stage, racers: list[httpx.Client]
) -> None:
    headers = {"Idempotency-Key": "two bodies"}
    bodies = [{"document": run_tree(f"body-{number % 2}", "rai")} for number in range(RACERS)]
    found = at_once(racers, "POST", "/api/v1/runs", bodies, headers)
    statuses = [each.status_code for each in found]
    assert {tuple(statuses[0::2]), tuple(statuses[1::2])} == {(200,) * 6, (422,) * 6}
    assert {each.json()["code"] for each in found if each.status_code == 422} == {"key-reused"}
    other = stage.admin.post(
        "/api/v1/runs/batch", json={"documents": [run_tree("body-2", "rai")]}, headers=headers
    )
    assert (other.status_code, other.json()["code"]) == (422, "key-reused")
    there = [stage.admin.get(f"/api/v1/runs/body-{number}").status_code for number in range(3)]
    assert sorted(there) == [200, 404, 404]


def test_a_key_is_its_callers_own(stage: Stage) -> None:
    headers = {"Idempotency-Key": "the same word"}
    for client, name, owner in ((stage.user, "own-1", "rai"), (stage.stranger, "own-2", "partner")):
        body = {"document": run_tree(name, owner)}
        found = client.post("/api/v1/runs", json=body, headers=headers)
        assert found.status_code == 200, found.text
        assert name in found.text


def test_keys_are_known_after_a_restart(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    answers: list[bytes] = []
    token: str | None = None
    for _ in range(3):
        with serving(ledger) as served:
            token = token or served.token
            with served.client(token) as client:
                if not answers:
                    body = {"documents": documents_of("fleet.yaml", "teams.yaml")}
                    assert client.post("/api/v1/apply", json=body).status_code == 200
                for path, body in KEYED:
                    done = client.post(path, json=body, headers={"Idempotency-Key": path})
                    assert done.status_code == 200, done.text
                    answers.append(done.content)
                other = {"document": run_tree("another", "rai")}
                reused = client.post(
                    "/api/v1/runs", json=other, headers={"Idempotency-Key": KEYED[0][0]}
                )
                assert (reused.status_code, reused.json()["code"]) == (422, "key-reused")
    assert answers[:3] == answers[3:6] == answers[6:]


def _post(token: str | None, path: str, body: Tree, key: str) -> bytes:
    text = json.dumps(body).encode()
    return (
        b"POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nIdempotency-Key: %s\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        % (path.encode(), str(token).encode(), key.encode(), len(text))
    ) + text


def _cut(served: Served, data: bytes, *, is_reset: bool) -> None:
    """Send ``data`` and disconnect, with a reset or without reading the answer."""
    with served.connect() as connection:
        if is_reset:
            linger = (1).to_bytes(4, "little") + bytes(4)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        connection.sendall(data)


def _until_over(stage: Stage, open_before: int) -> None:
    """Return when the service has finished its work for the closed connections."""
    assert stage.admin.get("/healthz").status_code == 200  # It accepted them before this.
    served = stage.served
    until(lambda: served.connections.open <= open_before, "those who have gone are counted out")
    until(lambda: not served.under_way(), "what they had asked for is over")


@pytest.mark.parametrize("ending", ["reset", "close"])
@pytest.mark.parametrize("path", ["/api/v1/runs", "/api/v1/runs/batch"])
def test_a_request_that_is_cut_off_is_done_whole_or_not_at_all(
    stage: Stage, path: str, ending: str
) -> None:
    kind = f"{path.rpartition('/')[2]}-{ending}"
    names = [f"cut-{kind}-a", f"cut-{kind}-b"]
    documents = [run_tree(name, "rai") for name in names]
    body = {"document": documents[0]} if path.endswith("runs") else {"documents": documents}
    names = names[: 1 if path.endswith("runs") else 2]
    whole = _post(stage.served.token, path, body, kind)
    before = end_of(stage)
    open_before = stage.served.connections.open
    for length in (1, 40, len(whole) // 2, len(whole) - 1):
        _cut(stage.served, whole[:length], is_reset=ending == "reset")
    _until_over(stage, open_before)
    assert end_of(stage) == before, "what came in part was done"
    for name in names:
        assert stage.admin.get(f"/api/v1/runs/{name}").status_code == 404
    # The whole request is sent without a wait for its answer: it is done once or not at all.
    for _ in range(5):
        _cut(stage.served, whole, is_reset=ending == "reset")
    _until_over(stage, open_before)
    there = {stage.admin.get(f"/api/v1/runs/{name}").status_code for name in names}
    assert len(there) == 1, "a part of it was done"
    headers = {"Idempotency-Key": kind}
    first = stage.admin.post(path, json=body, headers=headers)
    assert first.status_code == 200, first.text
    assert end_of(stage) == before + len(first.json()["events"])


def test_an_answer_that_is_cut_off_can_be_had_again(stage: Stage) -> None:
    names = [f"long-{number}" for number in range(300)]
    body = {"documents": [run_tree(name, "rai", gpus=1) for name in names]}
    request = _post(stage.served.token, "/api/v1/runs/batch", body, "long")
    before = end_of(stage)
    with stage.served.connect(receive_bytes=4_096) as connection:
        connection.sendall(request)
        part = connection.recv(1_000)
        assert part.startswith(b"HTTP/1.1 200 OK"), part
    after = end_of(stage)
    with stage.served.connect() as connection:
        connection.sendall(request.replace(b"Host: x\r\n", b"Host: x\r\nConnection: close\r\n"))
        whole = read_all(connection)
    answer = whole.partition(b"\r\n\r\n")[2]
    head = part.partition(b"\r\n\r\n")[2]
    assert answer.startswith(head)
    assert len(json.loads(answer)["events"]) == after - before
    assert end_of(stage) == after
