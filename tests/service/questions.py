"""A ledger with one resource of each kind, and one valid request for each operation."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import httpx
from msgspec.structs import fields

from quorate.operations.operation import Effect, Operation
from tests.service.conftest import documents_of
from tests.service.worlds import run_tree

PREFIX: Final = "/api/v1"
TENANT: Final = "rai"
REPORT: Final = "compared.html"
USER: Final = "ann"
KINDS: Final = {
    "node": "a1",
    "domain": "us-west/c1/A/H100",
    "pool": "interactive",
    "owner": TENANT,
    "tenant": TENANT,
    "budget": TENANT,
    "envelope": "rai/west",
    "cap": "audio/both",
    "run": "steady",
    "reservation": "promised",
    "resolveroutcome": "",
    "lease": "steady/0",
    "claim": "quiet",
    "charge": "steady/rai/west/owned",
}
"""The name of the resource of each kind; empty if the ledger generates the name."""
WORLD: Final = {
    "now": "2026-01-01T00:00:00Z",
    "owners": [{"name": "vision"}],
    "budgets": [
        {
            "name": "v",
            "owner": "vision",
            "envelopes": [{"name": "west", "flavor": "H100", "concurrency": 8}],
        }
    ],
    "cover": {"owner": "vision", "flavor": "H100", "quantity": 4},
}


@dataclass(frozen=True, slots=True)
class Question:
    """The values for the path, the query and the body of a request."""

    parts: dict[str, str] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    body: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)


def request(client: httpx.Client, operation: Operation, question: Question) -> httpx.Request:
    """Return ``question`` as an HTTP request."""
    path = operation.path
    for name, value in question.parts.items():
        path = path.replace(f"{{{name}}}", value.replace("/", "%2F"))
    assert "{" not in path, operation.name
    has_body = operation.method in ("POST", "PUT", "PATCH")
    body = {} if has_body and question.body is None else question.body
    return client.build_request(
        operation.method,
        f"{PREFIX}{path}",
        params=question.query or None,
        json=body,
        headers=question.headers,
    )


def ask(client: httpx.Client, operation: Operation, question: Question) -> httpx.Response:
    """Return the answer to ``question``; of a stream only its head."""
    sent = request(client, operation, question)
    if operation.effect is not Effect.STREAM:
        return client.send(sent)
    answer = client.send(sent, stream=True)
    if answer.status_code != 200:
        answer.read()
    answer.close()
    return answer


def reported(folder: Path) -> dict[str, str]:
    """Return the setting of a service with a folder of reports, and write a report there."""
    (folder / REPORT).write_text("<html><body><h1>Compared</h1></body></html>", encoding="utf-8")
    return {"reports.folder": str(folder)}


def document_of(file: str, kind: str, name: str, **spec: Any) -> dict[str, Any]:
    """Return the document of an example under the name ``name``, with some fields changed."""
    for each in documents_of(file):
        if each["kind"] == kind and each["metadata"]["name"] == name:
            return each | {"spec": each["spec"] | spec}
    raise KeyError(name)


class Furnished:
    """A ledger with one resource of each kind, created by an admin; has the generated names."""

    def __init__(self, admin: httpx.Client) -> None:
        self.admin = admin
        self._post("/apply", documents=documents_of("fleet.yaml", "teams.yaml"))
        self._post("/apply", documents=[document_of("cap.yaml", "Budget", "audio", owner=TENANT)])
        self._post("/apply", documents=documents_of("pool.yaml", "malleable.yaml"))
        self._run("steady", 8, runtime={"expectedDuration": "2h"})
        claim = {"flavor": "H100", "duration": "8h", "owner": TENANT, "user": USER, "nodes": 1}
        self._post("/claims", name="quiet", **claim)
        self._post("/claims", name="gone", **claim)
        self._post("/claims/gone/release")
        self._run("elastic", 16, malleable={"minTotalGPUs": 8, "maxTotalGPUs": 16, "stepGPUs": 8})
        self._run("wide", 64, runtime={"expectedDuration": "1h"})
        self._run("promised", 96)
        self._run("ended", 8)
        self._post("/runs/ended/cancel")
        self._post("/tenants", id="empty")
        idle = document_of("pool.yaml", "Pool", "interactive", selector={"idle": "yes"})
        money = document_of("teams.yaml", "Budget", TENANT)
        self._post(
            "/apply", documents=[each | {"metadata": {"name": "idle"}} for each in (idle, money)]
        )
        self._post("/nodes/b6/fail")
        self._post("/resolver/conflicts", flavor="A100", deficit=8)
        self.revocable = self._post("/tokens", role="user", user=USER, tenant=TENANT)["token"]["id"]
        outcomes = admin.get(f"{PREFIX}/resolver/outcomes").json()["items"]
        gone = admin.get(f"{PREFIX}/claims/gone").json()["status"]
        self.unwiped = str(gone["nodes"][0]["name"])
        self.kinds = KINDS | {"resolveroutcome": outcomes[0]["metadata"]["name"]}
        self.checkpoint = self._post("/ledger/checkpoints")

    def _post(self, path: str, **body: Any) -> Any:
        answer = self.admin.post(f"{PREFIX}{path}", json=body)
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()

    def _run(self, name: str, gpus: int, **spec: Any) -> None:
        self._post("/runs", document=run_tree(name, TENANT, gpus, **spec))

    def question(self, operation: Operation) -> Question:
        """Return a request for ``operation`` that each permitted caller of the tenant may send."""
        verb, _, kind = operation.name.partition("-")
        if verb in ("get", "describe") and kind in self.kinds:
            return Question(parts={"name": self.kinds[kind]})
        found = self._questions.get(operation.name)
        if found is not None:
            return found
        needed = [each.name for each in fields(operation.takes) if each.required]
        assert not needed, f"write a question for {operation.name}, which needs: {needed}"
        return Question()

    @cached_property
    def _questions(self) -> dict[str, Question]:
        about = {"run": "steady"}
        run = run_tree("asked", TENANT)
        claim = {"flavor": "L40", "pool": "interactive", "duration": "8h", "owner": TENANT}
        checkpoint = {"checkpoint": self.checkpoint}
        return {
            **self._documents(),
            **{f"{verb}-run": Question(about) for verb in ("cancel", "complete", "fail")},
            **{f"{verb}-node": Question({"node": "a1"}) for verb in ("fail", "cordon", "drain")},
            "recover-node": Question({"node": "b6"}),
            "uncordon-node": Question({"node": "a1"}),
            "mark-node-wiped": Question({"node": self.unwiped}),
            "submit-run": Question(body={"document": run}),
            "submit-runs": Question(body={"documents": [run]}),
            "shrink-run": Question({"run": "malleable"}, body={"gpus": 8}),
            "apply": Question(body={"documents": [run]}),
            "plan-run": Question({"run": "promised"}),
            "plan-runs": Question(body={"documents": [run]}),
            "explain-run": Question({"run": "promised"}),
            "run-logs": Question(about),
            "run-reports": Question(about),
            "watch-logs": Question(about),
            "claim-nodes": Question(body=claim | {"nodes": 1}),
            "release-claim": Question({"claim": "quiet"}),
            "resolve": Question(body={"flavor": "H100", "deficit": 8}),
            "create-tenant": Question(body={"id": "new"}),
            "update-tenant": Question({"id": TENANT}, body={"max_nodes": 50}),
            "delete-tenant": Question({"id": "empty"}),
            "delete-node": Question({"name": "b6"}),
            "delete-pool": Question({"name": "idle"}),
            "delete-budget": Question({"name": "idle"}),
            "tenant-usage": Question({"id": TENANT}),
            "show-report": Question({"report": REPORT}),
            "owner-shares": Question({"name": TENANT}),
            "issue-token": Question(
                body={"role": "user", "user": "new", "tenant": TENANT, "scopes": ["service"]}
            ),
            "revoke-token": Question({"token": self.revocable}),
            "verify-ledger-against": Question(body={"checkpoints": [checkpoint]}),
            "calc": Question({"kind": "cover"}, body={"world": WORLD}),
        }

    def _documents(self) -> dict[str, Question]:
        """Return requests that apply unchanged resources, or change fields of them."""
        put = {
            "node": document_of("fleet.yaml", "Node", "a1"),
            "pool": document_of("pool.yaml", "Pool", "interactive"),
            "owner": document_of("teams.yaml", "Owner", TENANT),
            "budget": document_of("teams.yaml", "Budget", TENANT),
        }
        set_to = {
            "node": "spec.gpus=8",
            "pool": "spec.maxGrace=1m",
            "owner": "spec.quota.maxNodes=60",
            "budget": "spec.envelopes.west.concurrency=96",
        }
        system = {"apiVersion": "quorate.dev/v1", "kind": "System", "metadata": {"name": "system"}}
        found = {
            f"put-{kind}": Question({"name": tree["metadata"]["name"]}, body={"document": tree})
            for kind, tree in put.items()
        } | {
            f"patch-{kind}": Question({"name": self.kinds[kind]}, body={"assignments": [text]})
            for kind, text in set_to.items()
        }
        return found | {
            "put-system": Question(body={"document": system | {"spec": {}}}),
            "patch-system": Question(body={"assignments": ["spec.budgetPeriodDays=90"]}),
        }
