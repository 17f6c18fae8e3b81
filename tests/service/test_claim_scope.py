"""Claiming nodes needs the scope ``claim``, which only an admin grants, over each interface."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import grpc
import httpx
import pytest
from google.protobuf.struct_pb2 import Struct

from quorate import Client
from quorate.client.errors import RefusedError
from quorate.operations.table import OPERATIONS
from tests.service.families import Doors, Families, both_doors, families
from tests.service.worlds import run_tree

CLAIM: Final = {"flavor": "H100", "nodes": 1, "duration": "1h", "owner": "zeta"}
REMEDY: Final = "only an admin may grant it: quorate token issue --role user --tenant zeta-team"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Families:
    """Return a ledger of two families."""
    return families(tmp_path_factory.mktemp("families"))


@pytest.fixture(scope="module")
def doors(made: Families, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """Return a service that the tests of this module share."""
    with both_doors(made, tmp_path_factory.mktemp("copy")) as found:
        yield found


def sensitive(name: str) -> dict[str, Any]:
    """Return the document of a claim."""
    spec = {"sensitive": True, "runtime": {"expectedDuration": "1h"}}
    return run_tree(name, "zeta-team", 8, **spec)


WAYS: Final[dict[str, dict[str, Any]]] = {
    "claim-nodes": CLAIM | {"owner": "zeta-team"},
    "submit-run": {"document": sensitive("sly")},
    "submit-runs": {"documents": [run_tree("open", "zeta-team", 1), sensitive("sly")]},
    "apply": {"documents": [sensitive("sly")]},
}
"""The body with which each of these operations claims nodes."""


def posted(client: httpx.Client, way: str, *, dry_run: bool = False) -> httpx.Response:
    """Return the answer to a claim made by one of ``WAYS``."""
    params = {"dryRun": "true"} if dry_run else {}
    return client.post(f"/api/v1{OPERATIONS[way].path}", json=WAYS[way], params=params)


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_claim_without_the_scope_is_refused_by_rest(
    doors: Doors, way: str, *, dry_run: bool
) -> None:
    with doors.rest.client(doors.tokens["zed"]) as client:
        refused = posted(client, way, dry_run=dry_run)
    assert refused.status_code == 403, refused.text
    assert refused.json()["code"] == "forbidden"
    assert "needs the scope claim" in refused.json()["detail"]
    assert f"{REMEDY} --user zed --scope claim" in refused.json()["detail"]


def test_a_claim_without_the_scope_is_refused_by_grpc_and_the_client(doors: Doors) -> None:
    document = Struct()
    document.update(sensitive("sly"))
    for operation, fields in (
        ("claim-nodes", {"flavor": "H100", "duration": "1h", "nodes": 1}),
        ("submit-run", {"document": document}),
    ):
        with pytest.raises(grpc.RpcError) as raised:
            doors.call("zed", operation, **fields)
        error: Any = raised.value
        assert error.code() is grpc.StatusCode.PERMISSION_DENIED
        assert "needs the scope claim" in error.details()
        assert REMEDY in error.details()
    with (
        Client(doors.rest.url, token=doors.tokens["zed"]) as client,
        pytest.raises(RefusedError, match="needs the scope claim"),
    ):
        client.claim_nodes(flavor="H100", duration="1h", nodes=1)


def issued(client: httpx.Client, **fields: Any) -> httpx.Response:
    """Return the answer to a request for a token."""
    return client.post("/api/v1/tokens", json=fields)


def is_let_in(answer: httpx.Response) -> bool:
    """Return whether a claim was decided, instead of refused because of the caller."""
    return answer.status_code == 200 or answer.json()["code"] == "insufficient-capacity"


def test_only_an_admin_grants_the_scope(doors: Doors) -> None:
    wanted = {"role": "user", "user": "dr-z", "tenant": "zeta", "scopes": ["claim"]}
    with (
        doors.rest.client(doors.tokens["root"]) as admin,
        doors.rest.client(doors.tokens["zac"]) as lead,
    ):
        lent = issued(admin, role="tenant-admin", user="zoe", tenant="zeta", scopes=["claim"])
        limited = issued(admin, role="admin", user="ops", scopes=["service"])
        granted = issued(admin, **wanted)
        for token in (lent, limited):
            # A token with the scope cannot grant it; nor can an admin's token with limits.
            with doors.rest.client(token.json()["token"]["secret"]) as holder:
                refused = issued(holder, **(wanted | {"scopes": ["service", "claim"]}))
                assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
                assert "only an admin may grant the scope claim" in refused.text
        assert issued(lead, **wanted).status_code == 403
    assert granted.status_code == 200, granted.text
    with doors.rest.client(granted.json()["token"]["secret"]) as user:
        assert user.get("/api/v1/whoami").json()["scopes"] == ["claim"]
        # The scope adds a permission and removes none.
        assert user.get("/api/v1/budgets").status_code == 200
        tried = user.post("/api/v1/claims", json=CLAIM, params={"dryRun": "true"})
        assert is_let_in(tried), tried.text


def test_an_admin_claims_unless_its_token_has_limits(doors: Doors) -> None:
    with doors.rest.client(doors.tokens["root"]) as admin:
        tried = admin.post("/api/v1/claims", json=CLAIM, params={"dryRun": "true"})
        assert is_let_in(tried), tried.text
        for scopes, is_refused in ((["runs"], True), (["runs", "claim"], False)):
            given = issued(admin, role="admin", user="ops", scopes=scopes).json()["token"]
            with doors.rest.client(given["secret"]) as limited:
                tried = limited.post("/api/v1/claims", json=CLAIM, params={"dryRun": "true"})
                assert is_let_in(tried) != is_refused, tried.text


@pytest.mark.parametrize("role", ["admin", "auditor", "accounting"])
def test_a_name_that_looks_like_a_tenants_user_is_refused(doors: Doors, role: str) -> None:
    with doors.rest.client(doors.tokens["root"]) as admin:
        refused = issued(admin, role=role, user="zeta/zed")
        assert refused.status_code == 422, refused.text
        assert "looks like a user of the tenant 'zeta'" in refused.json()["detail"]
        assert "without a slash" in json.dumps(refused.json())
        # Within a tenant, a slash cannot imitate another tenant's user.
        assert issued(admin, role="user", user="a/b", tenant="zeta").status_code == 200
