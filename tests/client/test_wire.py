"""Requests and answers, as values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quorate.client import wire
from quorate.client.errors import (
    BusyError,
    FailedError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    NotQuorateError,
    QuorateClientError,
    RefusedError,
    StaleVersionError,
    UnauthenticatedError,
)
from quorate.client.resources.any_resource import ResourceList
from quorate.client.resources.fleet_resources import SystemInfo
from quorate.client.wire import Reply, Request
from quorate.documents import to_json
from quorate.operations.resources import resource_operations, tenant_operations
from quorate.operations.table import OPERATIONS

THING = {"apiVersion": "quorate.dev/v1", "kind": "Run", "metadata": {"name": "a"}}


def _reply(tree: object, media: str = wire.JSON, status: int = 200, **headers: str) -> Reply:
    body = json.dumps(tree).encode()
    return Reply(status=status, headers={"content-type": media, **headers}, body=body)


def test_fields_of_the_path_are_quoted() -> None:
    request = wire.request_of(OPERATIONS["get-run"], resource_operations.GetThing(name="a/b c?d"))
    assert (request.method, request.path) == ("GET", "/api/v1/runs/a%2Fb%20c%3Fd")
    assert request.body is None


def test_fields_of_a_question_go_into_the_query_and_defaults_are_left_out() -> None:
    question = resource_operations.ListRuns(names=("a", "b"), newest=True, limit=3)
    request = wire.request_of(OPERATIONS["list-runs"], question)
    assert sorted(request.query) == [
        ("limit", "3"),
        ("names", "a"),
        ("names", "b"),
        ("newest", "true"),
    ]


def test_fields_of_a_change_go_into_the_body_the_query_and_the_headers() -> None:
    question = tenant_operations.UpdateTenant(
        id="physics", max_nodes=None, if_match="7", dry_run=True
    )
    request = wire.request_of(OPERATIONS["update-tenant"], question)
    assert request == Request(
        method="PUT",
        path="/api/v1/tenants/physics",
        query=(("dryRun", "true"),),
        headers={"Accept": wire.JSON, "Content-Type": wire.JSON, "If-Match": "7"},
        body=b'{"max_nodes":null}',
    )


def test_what_is_deleted_is_named_without_a_body() -> None:
    question = tenant_operations.DeleteTenant(id="physics", reason="over")
    request = wire.request_of(OPERATIONS["delete-tenant"], question)
    assert (request.query, request.body) == ((("reason", "over"),), None)


def test_a_header_cannot_be_smuggled_in() -> None:
    question = tenant_operations.DeleteTenant(id="physics", if_match='7"\r\nX-Evil: 1')
    with pytest.raises(ValueError, match="if_match: must be printable ASCII"):
        wire.request_of(OPERATIONS["delete-tenant"], question)


def test_an_answer_is_typed_by_what_it_is() -> None:
    one = wire.given_of(OPERATIONS["get-system"], _reply(THING))
    assert isinstance(one, SystemInfo)
    listing = {"apiVersion": "v", "kind": "List", "items": [THING], "fromTheFuture": 1}
    many = wire.given_of(OPERATIONS["list-runs"], _reply(listing))
    assert isinstance(many, ResourceList)
    assert [each.metadata for each in many.items] == [one.metadata]


def test_an_answer_that_may_have_two_shapes_is_read_as_the_one_it_has() -> None:
    operation = OPERATIONS["plan-runs"]
    with pytest.raises(NotQuorateError, match=r"array.*object|object.*array"):
        wire.given_of(operation, _reply("neither"))
    assert wire.given_of(operation, _reply([])) == ()


def test_an_answer_of_another_shape_is_refused() -> None:
    with pytest.raises(NotQuorateError, match="a form that this client does not know"):
        wire.given_of(OPERATIONS["list-runs"], _reply({"items": 3}))


@pytest.mark.parametrize("text", ["0.10", "12345678901234567890.5", "1e-7", "0.1", "3"])
def test_a_tree_is_written_again_as_it_was(text: str) -> None:
    reply = Reply(status=200, headers={"content-type": wire.JSON}, body=f"[{text}]".encode())
    assert to_json(wire.tree_of(reply)) == f"[\n  {text}\n]\n"


def test_lines_are_read() -> None:
    told = wire.told_of(_reply({"out": ["a"], "err": ["b"], "done": "c"}, wire.TOLD))
    assert (told.out, told.err, told.done) == (("a",), ("b",), "c")
    with pytest.raises(NotQuorateError, match="is not valid text"):
        wire.told_of(_reply({"err": []}, wire.TOLD))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidError),
        (401, UnauthenticatedError),
        (403, ForbiddenError),
        (404, NotFoundError),
        (409, RefusedError),
        (412, StaleVersionError),
        (422, InvalidError),
        (429, RefusedError),
        (500, FailedError),
        (503, BusyError),
    ],
)
def test_a_problem_is_the_error_of_its_status(status: int, kind: type[QuorateClientError]) -> None:
    tree: dict[str, Any] = {"code": "max-nodes", "lines": ["no", "nor"], "refusals": [{"a": 1}]}
    error = wire.error_of(_reply(tree, wire.PROBLEM, status))
    assert type(error) is kind
    assert isinstance(error, RefusedError)
    assert (error.code, error.lines, error.refusals) == ("max-nodes", ("no", "nor"), ({"a": 1},))


def test_too_many_requests_with_a_time_to_come_back_is_busy() -> None:
    error = wire.error_of(_reply({"code": "x"}, wire.PROBLEM, 429, **{"retry-after": "7"}))
    assert isinstance(error, BusyError)
    assert error.retry_after_s == 7.0


@pytest.mark.parametrize(
    ("body", "media"),
    [(b"<html>hello</html>", "text/html"), (b"not json", wire.PROBLEM), (b"\xff\xfe\x00", "")],
)
def test_what_is_not_quorate_says_so(body: bytes, media: str) -> None:
    error = wire.error_of(Reply(status=404, headers={"content-type": media}, body=body))
    assert isinstance(error, NotQuorateError)
    assert str(error).startswith("the server is not Quorate: HTTP status 404")
    assert str(error).endswith("check the server's address, and any proxy in between")
