"""The permission of every caller for every operation, cell by cell.

The expected results are written here and are not read from the table. So a role that is added to an
operation, or a new operation with its roles, has to be written down a second time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.cli.creation import create_ledger
from quorate.core.commands import IssueToken
from quorate.loop.engine import Engine
from quorate.model.events import TokenRole
from quorate.operations.caller import CLAIM
from quorate.operations.operation import Area, Effect
from quorate.operations.service.token_handlers import Secret
from quorate.operations.table import OPERATIONS
from quorate.testing.memory_engines import HandClock
from tests.service.questions import PREFIX, TENANT, USER, Furnished, Question, ask, reported
from tests.service.serving import Served, serving

EVERYBODY: Final = """
    list-nodes get-node describe-node list-domains get-domain describe-domain
    list-pools get-pool describe-pool list-owners get-owner describe-owner
    list-tenants describe-tenant list-budgets get-budget describe-budget
    list-envelopes get-envelope describe-envelope list-caps get-cap describe-cap
    list-runs get-run describe-run list-queue
    list-reservations get-reservation describe-reservation
    list-resolveroutcomes get-resolveroutcome describe-resolveroutcome
    list-leases get-lease describe-lease list-claims get-claim describe-claim
    list-charges get-charge describe-charge get-system describe-system
    tenant-usage user-usage statement plan-run plan-runs explain-run run-logs picture
    watch-logs run-reports
    watch-events list-events list-notices watch-notices verify-ledger verify-ledger-against
    show-lottery verify-lottery calc list-tokens fleet-top fleet-map
    queue-starts owner-shares
"""
ROLES: Final = {
    **dict.fromkeys(EVERYBODY.split(), "admin tenant-admin user auditor"),
    "submit-run": "admin tenant-admin user",
    "submit-runs": "admin tenant-admin user",
    "cancel-run": "admin tenant-admin user",
    "complete-run": "admin tenant-admin user",
    "fail-run": "admin tenant-admin user",
    "shrink-run": "admin tenant-admin user",
    "apply": "admin tenant-admin user",
    "claim-nodes": "admin tenant-admin user",
    "release-claim": "admin tenant-admin user",
    "revoke-token": "admin tenant-admin user",
    "put-budget": "admin tenant-admin",
    "patch-budget": "admin tenant-admin",
    "update-tenant": "admin tenant-admin accounting",
    "get-tenant": "admin tenant-admin user auditor accounting",
    "whoami": "admin tenant-admin user auditor accounting",
    "issue-token": "admin tenant-admin",
    "put-node": "admin",
    "patch-node": "admin",
    "put-pool": "admin",
    "patch-pool": "admin",
    "put-owner": "admin",
    "patch-owner": "admin",
    "delete-node": "admin",
    "delete-pool": "admin",
    "delete-budget": "admin",
    "put-system": "admin",
    "patch-system": "admin",
    "create-tenant": "admin",
    "delete-tenant": "admin",
    "fail-node": "admin",
    "recover-node": "admin",
    "cordon-node": "admin",
    "uncordon-node": "admin",
    "drain-node": "admin",
    "mark-node-wiped": "admin",
    "resolve": "admin",
    "tick": "admin",
    "sign-checkpoint": "admin",
    "export-ledger": "admin auditor",
    "accounting-status": "admin auditor",
    "show-clock": "admin auditor",
    "list-reports": "admin auditor",
    "show-report": "admin auditor",
    "accept-clock": "admin",
    "cluster-status": "admin auditor",
    "cluster-members": "admin auditor",
    "step-down": "admin",
}
"""The roles that may call each operation."""
HIDDEN: Final = """
    get-owner describe-owner get-tenant describe-tenant tenant-usage update-tenant owner-shares
    get-budget describe-budget patch-budget get-envelope describe-envelope get-cap describe-cap
    get-run describe-run cancel-run complete-run fail-run shrink-run plan-run explain-run run-logs
    watch-logs run-reports get-reservation describe-reservation get-lease describe-lease
    get-claim describe-claim release-claim get-charge describe-charge revoke-token
"""
"""Operations that answer other tenants "not found", if their role may call them at all."""
DENIED: Final = "submit-run submit-runs apply plan-runs claim-nodes put-budget issue-token"
"""Operations that another tenant may not call for this tenant, even if its role may call them."""
AREAS: Final = {"apply": Area.RUNS}
"""Operations whose area depends on the request; here a run is applied."""
NO_LOGS: Final = ("run-logs", "watch-logs")
"""No output of runs is stored here, so every caller gets 404."""

HOLDERS: Final = {
    "admin": ("admin", ""),
    "tenant-admin": ("tenant-admin", TENANT),
    "user": ("user", TENANT),
    "auditor": ("auditor", ""),
    "accounting": ("accounting", ""),
    "tenant-admin-elsewhere": ("tenant-admin", "partner"),
    "user-elsewhere": ("user", "partner"),
}
"""The role and tenant of each caller's token."""
NOBODIES: Final = ("no-token", "unknown-token", "expired-token", "revoked-token")
SCOPED: Final = ("in-scope", "out-of-scope")
NOBODIES_PER_ADDRESS: Final = 10
"""How many requests with invalid tokens one address sends: half of the allowed number."""


def expected(operation: str, caller: str) -> int:
    """Return the status that ``caller`` must get for a valid request."""
    if caller in NOBODIES:
        return 401
    if caller == "out-of-scope":
        return 200 if operation == "whoami" else 403
    role, tenant = HOLDERS["admin" if caller == "in-scope" else caller]
    if role not in ROLES[operation].split():
        return 403
    # No tenant is linked to an accounting system here.
    if (tenant == "partner" or role == "accounting") and operation in HIDDEN.split():
        return 404
    if tenant == "partner" and operation in DENIED.split():
        return 403
    # This service is the only one on its ledger.
    alone = 409 if operation == "step-down" else 200
    return 404 if operation in NO_LOGS else alone


@dataclass
class Callers:
    """A service with one resource of each kind, and a client for each caller."""

    served: Served
    furnished: Furnished
    tokens: dict[str, str | None]
    clients: dict[tuple[str, str], httpx.Client]

    def client(self, caller: str, operation: str) -> httpx.Client:
        """Return the client of ``caller``."""
        token, address = caller, "127.0.0.1"
        if caller in SCOPED:
            area = AREAS.get(operation, OPERATIONS[operation].area)
            other = Area.FLEET if area is not Area.FLEET else Area.RUNS
            token = area if caller == "in-scope" else other
        if caller in NOBODIES:
            # An address with too many failures is refused for a while.
            part = list(OPERATIONS).index(operation) // NOBODIES_PER_ADDRESS
            address = f"127.0.{NOBODIES.index(caller) + 1}.{part + 1}"
        key = (token, address)
        if key not in self.clients:
            transport = httpx.HTTPTransport(local_address=address, verify=False)
            self.clients[key] = self.served.client(self.tokens[token], transport=transport)
        return self.clients[key]


def issued_long_ago(ledger: Path) -> Secret:
    """Return an expired token of a new ledger."""
    clock, secret = HandClock(), Secret.draw()
    create_ledger(str(ledger), clock, actor="test")
    engine = Engine.open(SqliteStore.open(ledger), clock)
    command = IssueToken(
        token=secret.token,
        digest=secret.digest,
        role=TokenRole.AUDITOR,
        tenant="",
        user="late",
        expires_ms=clock.ms + 60_000,
    )
    assert not engine.execute(command, actor="test").decision.refusals
    engine.close()
    return secret


@pytest.fixture(scope="module")
def callers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callers]:
    """Return a service that all cells share: changes are only dry runs."""
    ledger = tmp_path_factory.mktemp("matrix") / "ledger.db"
    expired = issued_long_ago(ledger)
    flags = {"limits.requests_per_s": "100000"} | reported(ledger.parent)
    with serving(ledger, flags) as served:
        admin = served.client(served.token)
        furnished = Furnished(admin)

        def issued(role: str, tenant: str, **more: Any) -> dict[str, str]:
            body = {"role": role, "user": USER if tenant else "over", "tenant": tenant} | more
            answer = admin.post(f"{PREFIX}/tokens", json=body)
            assert answer.status_code == 200, answer.text
            return dict(answer.json()["token"])

        revoked = issued("admin", "")
        assert admin.delete(f"{PREFIX}/tokens/{revoked['id']}").status_code == 200
        tokens: dict[str, str | None] = {
            **{caller: issued(*each, scopes=[CLAIM])["secret"] for caller, each in HOLDERS.items()},
            **{area: issued("admin", "", scopes=[area, CLAIM])["secret"] for area in Area},
            "no-token": None,
            "unknown-token": f"{revoked['secret'][:-4]}0000",
            "expired-token": expired.text,
            "revoked-token": revoked["secret"],
        }
        found = Callers(served, furnished, tokens, {})
        yield found
        for client in (admin, *found.clients.values()):
            client.close()


def test_every_operation_is_in_the_matrix() -> None:
    assert ROLES.keys() == OPERATIONS.keys()


@pytest.mark.parametrize("caller", [*HOLDERS, *NOBODIES, *SCOPED])
@pytest.mark.parametrize("name", ROLES)
def test_a_cell(callers: Callers, name: str, caller: str) -> None:
    operation = OPERATIONS[name]
    question: Question = callers.furnished.question(operation)
    if operation.effect is Effect.WRITE:
        question = replace(question, query={"dryRun": "true"})
    answer = ask(callers.client(caller, name), operation, question)
    assert answer.status_code == expected(name, caller), answer.text
    if answer.status_code == 401:
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("verb", ["put", "patch"])
def test_what_is_anothers_looks_like_what_is_not_there(callers: Callers, verb: str) -> None:
    operation = OPERATIONS[f"{verb}-budget"]
    theirs = callers.furnished.question(operation)
    client = callers.client("tenant-admin-elsewhere", operation.name)
    for headers in ({}, {"If-Match": '"0"'}, {"If-Match": "*"}):
        told = []
        for name in (TENANT, "nowhere"):
            body = dict(theirs.body or {})
            if verb == "put":
                body["document"] = body["document"] | {"metadata": {"name": name}}
            question = Question({"name": name}, body=body, headers=headers)
            answer = ask(client, operation, question)
            assert answer.status_code in (403, 404, 412)
            told.append((answer.status_code, answer.text.replace(name, "NAME")))
        assert told[0] == told[1]
