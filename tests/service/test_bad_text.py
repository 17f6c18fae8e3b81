"""Invalid text is a 400 over each interface, and an error repeats little of the request."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from quorate.operations.common_requests import PAGE_MAX
from quorate.operations.operation import Effect
from quorate.operations.table import OPERATIONS
from quorate.service.http.decoding import has_body, shape_of
from quorate.views.error_length import LINE_CHARS_MAX, LINES_CHARS_MAX
from tests.bounds import WAIT_S
from tests.service.families import METHODS, Doors, Families, both_doors, families

HALF: Final = '"\\ud800"'
"""Half of a character, as JSON can escape it."""
VALUES: Final = (
    HALF,
    f"[{HALF}]",
    f'{{"a": {HALF}}}',
    f"{{{HALF}: 1}}",
    f'[{{"apiVersion": "quorate.dev/v1", "kind": "Run", "metadata": {{"name": {HALF}}}}}]',
    '"\\udc00\\ud800"',
    '"\\ud83d\\ud83d\\ude00"',
)
ASKED: Final = [each for each in OPERATIONS.values() if each.effect is not Effect.STREAM]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Families:
    """Return a ledger of two families."""
    return families(tmp_path_factory.mktemp("families"))


@pytest.fixture(scope="module")
def doors(made: Families, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """Return a service that the tests of this module share."""
    with both_doors(made, tmp_path_factory.mktemp("copy")) as found:
        yield found


def path_of(name: str, part: str = "x") -> str:
    """Return the path of an operation, with ``part`` for each parameter."""
    return f"/api/v1{re.sub(r'{.*?}', part, OPERATIONS[name].path)}"


@pytest.mark.parametrize("operation", [each.name for each in ASKED if has_body(each)])
def test_half_of_a_character_in_a_body_is_a_400(doors: Doors, operation: str) -> None:
    method = OPERATIONS[operation].method
    fields = sorted(shape_of(OPERATIONS[operation]).body)
    bodies = [f'{{"{field}": {value}}}' for field in fields for value in VALUES]
    with doors.rest.client(doors.tokens["root"]) as client:
        for body in [*bodies, f"{{{HALF}: 1}}"]:
            told = client.request(
                method,
                path_of(operation),
                content=body,
                headers={"Content-Type": "application/json"},
            )
            assert (told.status_code, told.json()["code"]) == (400, "usage"), (body, told.text)
            assert "half of a surrogate pair" in told.json()["detail"]


def test_a_pair_of_surrogates_is_a_character(doors: Doors) -> None:
    with doors.rest.client(doors.tokens["root"]) as client:
        body = '{"role": "auditor", "user": "\\ud83d\\ude00 \\\\ud800"}'
        told = client.post(
            "/api/v1/tokens", content=body, headers={"Content-Type": "application/json"}
        )
    assert told.status_code == 200, told.text
    assert told.json()["token"]["user"] == "\U0001f600 \\ud800"


@pytest.mark.parametrize("operation", [each.name for each in ASKED])
def test_half_of_a_character_in_a_query_or_a_path_is_a_400(doors: Doors, operation: str) -> None:
    method = OPERATIONS[operation].method
    fields = sorted(shape_of(OPERATIONS[operation]).query)
    places = [f"{path_of(operation)}?{field}=%ED%A0%80" for field in fields]
    if "{" in OPERATIONS[operation].path:
        places.append(path_of(operation, "%ED%A0%80"))
    with doors.rest.client(doors.tokens["root"]) as client:
        for place in places:
            told = client.request(method, place)
            assert (told.status_code, told.json()["code"]) == (400, "usage"), (place, told.text)


@pytest.mark.parametrize(
    "header",
    ["Idempotency-Key", "If-Match", "If-None-Match", "Accept", "Content-Type", "Authorization"],
)
def test_half_of_a_character_in_a_header_is_a_400(doors: Doors, header: str) -> None:
    with doors.rest.client(doors.tokens["root"]) as client:
        for value in (b"\xed\xa0\x80", b"Bearer \xed\xa0\x80", b"\xff"):
            headers = {b"Content-Type": b"application/json", header.encode(): value}
            told = client.post("/api/v1/tick", content=b"{}", headers=headers)
            assert (told.status_code, told.json()["code"]) == (400, "usage"), told.text
            assert header.lower() in told.json()["detail"]
        told = client.get("/api/v1/watch", headers={b"Last-Event-ID": b"\xed\xa0\x80"})
        assert told.status_code == 400


def test_half_of_a_character_in_an_assignment_is_a_400(doors: Doors) -> None:
    with doors.rest.client(doors.tokens["root"]) as client:
        for value in (HALF, f"[{HALF}]", f'{{"a": {HALF}}}'):
            sent = {"assignments": [f"spec.labels={value}"]}
            told = client.patch("/api/v1/nodes/a0000", json=sent)
            assert (told.status_code, told.json()["code"]) == (400, "usage"), told.text
            assert "spec.labels" in told.json()["detail"]
    with pytest.raises(grpc.RpcError) as raised:
        doors.call("root", "patch-node", name="a0000", assignments=[f"spec.labels={HALF}"])
    error: Any = raised.value
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_half_of_a_character_by_grpc_is_an_invalid_argument(doors: Doors) -> None:
    for operation in ("get-run", "submit-run", "issue-token", "create-tenant", "watch-events"):
        method = METHODS[operation]
        for number in range(1, 6):
            # A field of that number, of a kind that texts and messages have, and 3 bytes long.
            data = bytes([number << 3 | 2, 3]) + b"\xed\xa0\x80"
            kind = doors.channel.unary_stream if method.is_stream else doors.channel.unary_unary
            metadata = (("authorization", f"Bearer {doors.tokens['root']}"),)
            with pytest.raises(grpc.RpcError) as raised:
                list(kind(method.path, bytes, bytes)(data, metadata=metadata, timeout=WAIT_S))
            error: Any = raised.value
            assert error.code() is grpc.StatusCode.INVALID_ARGUMENT, (operation, number, error)


def test_a_limit_of_null_does_not_lift_the_limit_of_a_page(made: Families, tmp_path: Path) -> None:
    labels = {"region": "r", "cluster": "c", "fabric.domain": "Z"}
    nodes = [
        {
            "apiVersion": "quorate.dev/v1",
            "kind": "Node",
            "metadata": {"name": f"z{number}", "labels": labels},
            "spec": {"flavor": "H100", "gpus": 1},
        }
        for number in range(PAGE_MAX + 50)
    ]
    with both_doors(made, tmp_path) as doors, doors.rest.client(doors.tokens["root"]) as client:
        applied = client.post("/api/v1/apply", json={"documents": nodes})
        assert applied.status_code == 200, applied.text
        limits: list[dict[str, str]] = [{}, {"limit": "null"}, {"limit": str(PAGE_MAX)}]
        for limit in limits:
            listed = client.get("/api/v1/nodes", params=limit).json()
            assert (len(listed["items"]), "next" in listed) == (PAGE_MAX, True), limit
            events = client.get("/api/v1/ledger/events", params={"from": "1"} | limit).json()
            assert (len(events["items"]), events["next"]) == (PAGE_MAX, PAGE_MAX + 1)
        assert len(doors.call("root", "list-nodes").items) == PAGE_MAX


LONG: Final = "x" * 1_000_000
DOCUMENT: Final = {"apiVersion": "quorate.dev/v1", "kind": "Run", "metadata": {"name": "a"}}
ECHOES: Final[list[tuple[str, str, Any]]] = [
    ("POST", "/runs", {LONG: 1}),
    ("POST", "/runs", {"document": DOCUMENT | {"kind": LONG, "spec": {LONG: LONG}}}),
    ("POST", "/runs", {"document": DOCUMENT | {"spec": {"owner": LONG, "user": LONG}}}),
    ("POST", "/runs", {"like": LONG, "name": "b"}),
    ("POST", "/runs", {"document": DOCUMENT, "assignments": [f"spec.owner={LONG}"]}),
    ("POST", "/runs", {"document": DOCUMENT, "assignments": [LONG]}),
    ("POST", "/apply", {"documents": [DOCUMENT | {"spec": {f"f{n}": n}} for n in range(5_000)]}),
    ("POST", "/apply", {"documents": [{"kind": "Run", "apiVersion": LONG}] * 3}),
    ("POST", "/tokens", {"role": LONG, "user": "x"}),
    ("POST", "/tenants", {"id": LONG}),
    ("POST", "/tenants", {"id": "a", "max_nodes": LONG}),
    ("PUT", "/nodes/n", {"name": LONG, "document": {}}),
    ("PATCH", "/nodes/a0000", {"assignments": [f"spec.{LONG}=1", f"metadata.name={LONG}"]}),
    ("POST", "/calc/cover", {"world": {LONG: LONG}}),
    ("POST", "/ledger/verification", {"checkpoints": [LONG], "receipts": [LONG]}),
]


@pytest.mark.parametrize(("method", "path", "body"), ECHOES, ids=range(len(ECHOES)))
def test_an_error_repeats_little_of_what_was_sent(
    doors: Doors, method: str, path: str, body: Any
) -> None:
    with doors.rest.client(doors.tokens["root"]) as client:
        told = client.request(method, f"/api/v1{path}", json=body)
    assert 400 <= told.status_code < 500, told.text[:1_000]
    found = told.json()
    assert found["lines"]
    assert found["code"] not in ("not-found", "method-not-allowed"), path
    assert all(len(line) <= LINE_CHARS_MAX for line in found["lines"])
    assert sum(map(len, found["lines"])) <= LINES_CHARS_MAX + LINE_CHARS_MAX
    assert all(len(json.dumps(each)) < 10 * LINE_CHARS_MAX for each in found["refusals"])


def test_a_shortened_error_keeps_its_field_and_its_remedy(doors: Doors) -> None:
    with doors.rest.client(doors.tokens["root"]) as client:
        told = client.post("/api/v1/runs", json={LONG: 1}).json()["detail"]
        assert told.startswith('"xxx')
        assert '...": there is no such field; use one of: ' in told
        assert len(told) < LINE_CHARS_MAX
        told = client.post("/api/v1/tokens", json={"role": LONG}).json()["detail"]
        assert told.startswith("role: invalid enum value 'xxx")
        assert told.endswith("xxx'")
        assert "(1000" in told
    with pytest.raises(grpc.RpcError) as raised:
        doors.call("root", "submit-run", like=LONG, name="b")
    error: Any = raised.value
    assert len(error.details()) <= LINE_CHARS_MAX
