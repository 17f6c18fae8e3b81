"""A removal under an idempotency key is done once, and each repetition gets the same answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any, Final

import grpc
import httpx
import pytest
from google.protobuf.json_format import MessageToDict

from quorate import Client
from quorate.client.errors import RefusedError
from quorate.documents import render
from quorate.documents.emit import to_json
from quorate.model import specs as sp
from quorate.operations.resources.resource_operations import DeleteThing
from quorate.operations.resources.tenant_operations import DeleteTenant
from quorate.service.config import configured
from quorate.service.daemon import Extras
from quorate.service.grpc.grpc_codec import write_struct
from quorate.service.grpc.grpc_protocol import message_class
from quorate.service.grpc.grpc_schema import name_of, schema
from quorate.service.grpc.grpc_surface import configured_surface
from quorate.testing.builders import budget, envelope
from tests.bounds import WAIT_S
from tests.service.program import reserved_port
from tests.service.serving import new_ledger, serving

pytestmark = pytest.mark.slow  # A service is started.

METHODS: Final = {method.operation.name: method for method in schema().methods}
NEW: Final = count()
KINDS: Final = ("node", "pool", "budget", "tenant")
Removal = Callable[[str, str, str, str | None], int | str]
"""Kind, name, key and version give the sequence of the recorded removal, or the refusal."""


def by_rest(http: httpx.Client) -> Removal:
    """Return a function that removes a resource over REST."""

    def remove(kind: str, name: str, key: str, version: str | None) -> int | str:
        headers = {"Idempotency-Key": key} | ({} if version is None else {"If-Match": version})
        found = http.delete(f"/api/v1/{kind}s/{name}", headers=headers)
        if found.status_code == 200:
            return int(found.json()["head"]["sequence"])
        return str(found.json()["code"])

    return remove


def by_grpc(channel: grpc.Channel, token: str) -> Removal:
    """Return a function that removes a resource over gRPC."""

    def remove(kind: str, name: str, key: str, version: str | None) -> int | str:
        asked = (
            DeleteTenant(id=name, idempotency_key=key, if_match=version)
            if kind == "tenant"
            else DeleteThing(name=name, idempotency_key=key, if_match=version)
        )
        method = METHODS[f"delete-{kind}"]
        given = message_class(name_of(method.gives))
        call = channel.unary_unary(method.path, bytes, given.FromString)
        metadata = (("authorization", f"Bearer {token}"),)
        try:
            found = call(write_struct(asked).SerializeToString(), metadata=metadata, timeout=WAIT_S)
        except grpc.RpcError as error:
            return _CODES[error.code()]
        return int(MessageToDict(found)["head"]["sequence"])

    return remove


_CODES: Final = {
    grpc.StatusCode.NOT_FOUND: "unknown-name",
    grpc.StatusCode.INVALID_ARGUMENT: "key-reused",
}


def by_client(client: Client) -> Removal:
    """Return a function that removes a resource with the Python client."""

    def remove(kind: str, name: str, key: str, version: str | None) -> int | str:
        try:
            found: Any = getattr(client, f"delete_{kind}")(
                name, idempotency_key=key, if_match=version
            )
        except RefusedError as error:
            return error.code
        return int(found.head.sequence)

    return remove


@pytest.fixture(scope="module")
def surfaces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Return the interfaces of one service, and a function that applies documents."""
    ledger = new_ledger(tmp_path_factory.mktemp("removed"))
    with ExitStack() as stack:
        address = f"127.0.0.1:{stack.enter_context(reserved_port())}"
        flags = {"grpc.listen": address}
        named = {"listen": "127.0.0.1:0", "ledger": str(ledger), **flags}
        extras = Extras(surfaces=[configured_surface(configured(named, {}, None))])
        served = stack.enter_context(serving(ledger, flags, extras))
        assert served.token is not None
        http = stack.enter_context(served.client(served.token))
        client = stack.enter_context(Client(served.url, token=served.token))
        channel = stack.enter_context(grpc.insecure_channel(address))
        yield {
            "http": http,
            "rest": by_rest(http),
            "grpc": by_grpc(channel, served.token),
            "client": by_client(client),
        }


def _spec(kind: str, name: str) -> sp.Node | sp.Pool | sp.Budget | sp.Owner:
    """Return the spec of ``name``, on which nothing depends."""
    if kind == "node":
        return sp.Node(name=name, flavor="H100", gpus=8, region="r", cluster="c", domain="d")
    if kind == "pool":
        return sp.Pool(name=name, selector=(("tier", "none"),))
    if kind == "budget":
        return budget(name, "team", envelope("e", 8))
    return sp.Owner(name=name)


def _made(http: httpx.Client, kind: str, name: str = "") -> str:
    """Return the name of a resource of ``kind``; it is created unless it is given."""
    name = name or f"{kind}-{next(NEW)}"
    text = ", ".join(to_json(render(each)) for each in (sp.Owner(name="team"), _spec(kind, name)))
    found = http.post(
        "/api/v1/apply",
        content=f'{{"documents": [{text}]}}',
        headers={"Content-Type": "application/json"},
    )
    assert found.status_code == 200, found.text
    return name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("surface", ["rest", "grpc", "client"])
def test_a_removal_that_is_sent_again_under_its_key_gets_the_first_answer(
    surfaces: dict[str, Any], surface: str, kind: str
) -> None:
    http, remove = surfaces["http"], surfaces[surface]
    name, other = _made(http, kind), _made(http, kind)
    version = http.get(f"/api/v1/{kind}s/{name}").headers["etag"]
    key = f"remove {name}"
    first = remove(kind, name, key, version)
    assert isinstance(first, int), first
    assert remove(kind, name, key, version) == first
    assert remove(kind, name, f"{key} again", None) == "unknown-name"
    assert remove(kind, other, key, None) == "key-reused"
    assert isinstance(remove(kind, other, f"remove {other}", None), int)
    _made(http, kind, name)
    assert remove(kind, name, key, version) == first
    assert http.get(f"/api/v1/{kind}s/{name}").status_code == 200, "made anew, and not removed"


def test_a_key_is_refused_where_a_request_is_done_anew_each_time(surfaces: dict[str, Any]) -> None:
    body = {"role": "auditor", "user": "otto"}
    headers = {"Idempotency-Key": "once"}
    found = surfaces["http"].post("/api/v1/tokens", json=body, headers=headers)
    assert found.status_code == 400, found.text
    assert (
        "Idempotency-Key: issue-token does not support this header"
        in json.loads(found.text)["detail"]
    )
