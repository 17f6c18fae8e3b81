"""For every status of every operation in the OpenAPI document there is a request that gets it.

A documented status that no request can get would be as wrong as an undocumented one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import httpx
import pytest

from quorate.adapters.executors.keepers import run_folder, work_folder
from quorate.keeper.output import OutputWriter
from quorate.keeper.wanted import OUTPUT
from quorate.operations.operation import Area, Effect, Operation
from quorate.operations.table import OPERATIONS
from quorate.service.daemon import Extras
from quorate.service.http.openapi import openapi_tree
from quorate.service.http.table_paths import names_of
from tests.service.questions import (
    PREFIX,
    TENANT,
    Furnished,
    Question,
    ask,
    document_of,
    reported,
    request,
)
from tests.service.serving import Served, new_ledger, read_all, serving
from tests.service.worlds import run_tree

NOWHERE: Final = "nowhere"
UNREACHED: Final = {
    ("step-down", 200): "another service would have to be there: tests/etcd/test_quorum.py has two",
    ("verify-lottery", 409): "the ledger would have to be forged: tests/cli/test_ledger.py does",
}
"""Statuses that no request to a working service can get, with the reason."""


def documented() -> Iterator[tuple[str, int]]:
    """Yield every operation with each of its documented statuses below 500."""
    named = {each.function_name: each.name for each in OPERATIONS.values()}
    for methods in openapi_tree()["paths"].values():
        for entry in methods.values():
            for status in entry["responses"]:
                if int(status) < 500:
                    yield named[entry["operationId"]], int(status)


@dataclass
class Rooms:
    """A service with wide limits, and one with narrow limits."""

    served: Served
    furnished: Furnished
    admin: httpx.Client
    limited: dict[Area, httpx.Client]
    strict: Served
    hurried: httpx.Client
    unfinished: dict[str, int]
    """The status of a request whose body does not arrive, by operation."""
    keyless: int
    """The status of a request for a signature without a key."""
    user: httpx.Client


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rooms]:
    """Return both, with clients."""
    wide = {"limits.requests_per_s": "100000"}
    narrow = {
        "limits.requests_per_s": "1",
        "limits.body_bytes": "1024",
        "limits.header_bytes": "32768",
    }
    slow = {"limits.requests_per_s": "100000", "limits.slow_client_s": "0.2"}
    one, two, three = (new_ledger(tmp_path_factory.mktemp(name)) for name in ("w", "n", "s"))
    # Like the output of an executor that ran the work before.
    written = OutputWriter(run_folder(work_folder(one), "steady") / OUTPUT)
    written.say("start 1", at_ms=0)
    written.close()
    with serving(three, slow, Extras()) as served:
        unfinished = _unfinished(served)
        with served.client(served.token) as client:
            keyless = client.post(f"{PREFIX}/ledger/checkpoints").status_code
    wide |= reported(one.parent)
    with serving(one, wide) as served, serving(two, narrow) as strict:
        admin = served.client(served.token)
        furnished = Furnished(admin)
        assert admin.post(f"{PREFIX}/nodes/i1/cordon", json={}).status_code == 200
        limited = {}
        for area in (Area.FLEET, Area.RUNS):
            body = {"role": "admin", "user": "narrow", "scopes": [area]}
            secret = admin.post(f"{PREFIX}/tokens", json=body).json()["token"]["secret"]
            limited[area] = served.client(secret)
        body = {"role": "user", "user": "usual", "tenant": TENANT}
        secret = admin.post(f"{PREFIX}/tokens", json=body).json()["token"]["secret"]
        user = served.client(secret)
        hurried = strict.client(strict.token)
        yield Rooms(served, furnished, admin, limited, strict, hurried, unfinished, keyless, user)
        for client in (admin, user, hurried, *limited.values()):
            client.close()


@pytest.mark.parametrize(
    ("name", "status"), [each for each in documented() if each not in UNREACHED]
)
def test_a_documented_status_is_reached(rooms: Rooms, name: str, status: int) -> None:
    operation = OPERATIONS[name]
    if status == 408:
        found = rooms.unfinished[name]
    elif (name, status) == ("sign-checkpoint", 409):
        found = rooms.keyless
    elif status in (413, 414, 429, 431):
        found = _strict(rooms, operation, rooms.furnished.question(operation), status)
    elif status == 401:
        with rooms.served.client(None, transport=_from(name)) as nobody:
            found = ask(nobody, operation, rooms.furnished.question(operation)).status_code
    else:
        answer = ask(_client(rooms, operation, status), operation, _asked(rooms, name, status))
        found = answer.status_code
        assert found == status, answer.text
    assert found == status


def _client(rooms: Rooms, operation: Operation, status: int) -> httpx.Client:
    """Return the client of an admin, or of a caller without permission."""
    if status == 403:
        return rooms.limited[Area.RUNS if operation.area is Area.FLEET else Area.FLEET]
    return rooms.user if (operation.name, status) == ("user-usage", 404) else rooms.admin


CHANGED: Final[dict[int, dict[str, Any]]] = {
    400: {"query": {"nope": "1"}},
    406: {"headers": {"Accept": "image/png"}},
    410: {"query": {"cursor": "nonsense"}},
    412: {"headers": {"If-Match": '"999999"'}},
    415: {"headers": {"Content-Type": "text/plain"}},
    422: {"body": {"nope": 1}},
}
"""The change to a valid request that gives each status, for any operation."""


def _asked(rooms: Rooms, name: str, status: int) -> Question:
    """Return a request that is answered with ``status``."""
    operation = OPERATIONS[name]
    valid = rooms.furnished.question(operation)
    if (name, status) in SPECIAL:
        return SPECIAL[name, status]
    if status in CHANGED:
        return replace(valid, **CHANGED[status])
    if status == 200 and operation.effect is Effect.WRITE:
        return replace(valid, query={"dryRun": "true"})
    if status == 304:
        etag = ask(rooms.admin, operation, valid).headers["etag"]
        return replace(valid, headers={"If-None-Match": etag})
    if status == 404:
        return _unknown(operation, valid)
    return _conflicts(rooms)[name] if status == 409 else valid


def _from(name: str) -> httpx.HTTPTransport:
    """Return a transport with a separate address, because an address with failures is refused."""
    part = list(OPERATIONS).index(name) // 10
    return httpx.HTTPTransport(local_address=f"127.0.9.{part + 1}", verify=False)


SENT_AT_ONCE: Final = 4
"""More than the service admits at once if it admits one per second."""


def _sent(client: httpx.Client, sent: httpx.Request) -> int:
    answer = client.send(sent, stream=True)
    answer.close()
    return answer.status_code


def _unfinished(served: Served) -> dict[str, int]:
    """Return the statuses of requests that announce a body and do not send it, all at once."""
    opened = {name: served.connect() for name in OPERATIONS}
    for name, connection in opened.items():
        operation = OPERATIONS[name]
        path = operation.path.replace("{", "").replace("}", "")
        lines = [
            f"{operation.method} {PREFIX}{path} HTTP/1.1",
            "Host: slow",
            f"Authorization: Bearer {served.token}",
            "Content-Type: application/json",
            "Content-Length: 5",
        ]
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
    found = {}
    for name, connection in opened.items():
        with connection:
            found[name] = int(read_all(connection).split()[1])
    return found


def _strict(rooms: Rooms, operation: Operation, question: Question, status: int) -> int:
    """Return the status with which the strict service answers."""
    sent = request(rooms.hurried, operation, question)
    if status == 429:
        found = [_sent(rooms.hurried, sent) for _ in range(SENT_AT_ONCE)]
        return max(found)
    token = rooms.strict.token
    path = sent.url.raw_path.decode() + ("?x=" + 16_400 * "x" if status == 414 else "")
    lines = [
        f"{operation.method} {path} HTTP/1.1",
        f"Host: {sent.url.netloc.decode()}",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        f"Content-Length: {1 << 20 if status == 413 else 0}",
        *([f"X-More: {33_000 * 'x'}"] if status == 431 else []),
        "Connection: close",
    ]
    told = rooms.strict.raw("\r\n".join([*lines, "", ""]).encode())
    return int(told.split()[1])


SPECIAL: Final = {
    ("watch-events", 410): Question(query={"from": str(2**53)}),
    ("watch-notices", 410): Question(query={"from": str(2**53)}),
    ("statement", 422): Question(query={"month": "2199-01"}),
    ("user-usage", 422): Question(query={"user": "two\nlines"}),
    ("user-usage", 404): Question(query={"user": "another"}),
    ("delete-node", 422): Question({"name": "a1"}, query={"reason": "two\nlines"}),
    ("delete-pool", 422): Question({"name": "default"}, query={"reason": "two\nlines"}),
    ("delete-budget", 422): Question({"name": TENANT}, query={"reason": "two\nlines"}),
    ("revoke-token", 422): Question({"token": NOWHERE}, query={"note": "two\nlines"}),
    ("delete-tenant", 422): Question({"id": "empty"}, headers={"If-Match": '"word"'}),
}


def _unknown(operation: Operation, question: Question) -> Question:
    """Return a request with a name that does not exist."""
    if operation.name == "put-budget":
        body = {"document": document_of("teams.yaml", "Budget", "core", owner=NOWHERE)}
        return Question({"name": "core"}, body=body)
    if operation.name == "put-owner":
        body = {"document": document_of("teams.yaml", "Owner", "core", parents=[NOWHERE])}
        return Question({"name": "core"}, body=body)
    if names_of(operation.path):
        return replace(question, parts=dict.fromkeys(question.parts, NOWHERE))
    if operation.name in UNKNOWN:
        return UNKNOWN[operation.name]
    if operation.name in ("get-system", "describe-system"):
        return Question(query={"at": "1990-01-01T00:00:00Z"})
    return Question(query={"names": NOWHERE})


_RUN: Final = run_tree("asked", NOWHERE)
UNKNOWN: Final = {
    "submit-run": Question(body={"document": _RUN}),
    "submit-runs": Question(body={"documents": [_RUN]}),
    "apply": Question(body={"documents": [_RUN]}),
    "plan-runs": Question(body={"documents": [_RUN]}),
    "claim-nodes": Question(
        body={"flavor": "H100", "duration": "8h", "owner": NOWHERE, "nodes": 1}
    ),
    "create-tenant": Question(body={"id": "new", "parents": [NOWHERE]}),
    "resolve": Question(body={"flavor": "H100", "deficit": 1, "pool": NOWHERE}),
    "issue-token": Question(body={"role": "user", "user": "new", "tenant": NOWHERE}),
    "statement": Question(query={"budget": NOWHERE}),
    "picture": Question(query={"run": NOWHERE}),
    "watch-events": Question(query={"run": NOWHERE}),
    "list-notices": Question(query={"owner": NOWHERE}),
    "watch-notices": Question(query={"owner": NOWHERE}),
    "list-events": Question(query={"run": NOWHERE}),
    "fleet-top": Question(query={"pool": NOWHERE}),
    "fleet-map": Question(query={"pool": NOWHERE}),
    "queue-starts": Question(query={"owner": NOWHERE}),
    "show-report": Question({"report": "nowhere.html"}),
}


def _conflicts(rooms: Rooms) -> dict[str, Question]:
    """Return requests that the present state does not allow."""
    taken = run_tree("steady", TENANT, 1)
    held = {"name": "a1"}
    node = document_of("fleet.yaml", "Node", "a1", flavor="L40")
    pool = document_of("pool.yaml", "Pool", "interactive", selector={"region": NOWHERE})
    budget = document_of("teams.yaml", "Budget", TENANT)
    small = [each | {"concurrency": 1} for each in budget["spec"]["envelopes"]]
    circle = document_of("teams.yaml", "Owner", "org", parents=[TENANT])
    return {
        "verify-ledger": Question(query={"receipt": f"1:{64 * '0'}"}),
        "verify-ledger-against": Question(
            body={"checkpoints": [{"checkpoint": rooms.furnished.checkpoint | {"height": 3}}]}
        ),
        "submit-run": Question(body={"document": taken}),
        "submit-runs": Question(body={"documents": [taken]}),
        "plan-runs": Question(body={"documents": [taken]}),
        "apply": Question(body={"documents": [taken]}),
        "cancel-run": Question({"run": "gone"}),
        "complete-run": Question({"run": "promised"}),
        "fail-run": Question({"run": "promised"}),
        "shrink-run": Question({"run": "ended"}, body={"gpus": 8}),
        "claim-nodes": Question(
            body={"flavor": "H100", "duration": "8h", "owner": TENANT, "nodes": 90}
        ),
        "release-claim": Question({"claim": "steady"}),
        "resolve": Question(body={"flavor": "H100", "deficit": 1_000}),
        "step-down": Question(),
        "create-tenant": Question(body={"id": TENANT, "max_nodes": 1}),
        "update-tenant": Question({"id": "org"}, body={"parents": [TENANT]}),
        "delete-tenant": Question({"id": TENANT}),
        "recover-node": Question({"node": "i1"}),
        "uncordon-node": Question({"node": "b6"}),
        "mark-node-wiped": Question({"node": "a1"}),
        "put-node": Question(held, body={"document": node}),
        "delete-node": Question(held),
        "delete-pool": Question({"name": "default"}),
        "delete-budget": Question({"name": TENANT}),
        "patch-node": Question(held, body={"assignments": ["spec.flavor=L40"]}),
        "put-pool": Question({"name": "interactive"}, body={"document": pool}),
        "patch-pool": Question(
            {"name": "interactive"}, body={"assignments": [f"spec.selector.region={NOWHERE}"]}
        ),
        "put-owner": Question({"name": "org"}, body={"document": circle}),
        "patch-owner": Question(
            {"name": "org"}, body={"assignments": [f'spec.parents=["{TENANT}"]']}
        ),
        "put-budget": Question(
            {"name": TENANT},
            body={"document": budget | {"spec": budget["spec"] | {"envelopes": small}}},
        ),
        "patch-budget": Question(
            {"name": TENANT}, body={"assignments": ["spec.envelopes[west].concurrency=1"]}
        ),
    }
