"""Callers in a tree of owners send raw HTTP and gRPC requests, and see only what they may see.

A caller may see which of its ancestors pays for it or limits it, and what conflicts publish. All
other names outside its own tenants are neither shown nor confirmed: a request with such a name gets
the same answer as a request with a name that does not exist.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import grpc
import httpx
import pytest
from msgspec import Struct

from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.client.wire import request_of
from quorate.loop.engine import Engine
from quorate.model.state.state_view import StateView
from quorate.operations import common_requests as ask
from quorate.operations.caller import Caller
from quorate.operations.common_requests import PAGE_MAX
from quorate.operations.fleet import fleet_operations, observe_operations
from quorate.operations.ledger import ledger_operations, plan_operations
from quorate.operations.money import money_operations
from quorate.operations.notices import notice_operations
from quorate.operations.request_context import RequestContext
from quorate.operations.resources import resource_operations, run_operations, tenant_operations
from quorate.operations.service import service_operations
from quorate.operations.table import OPERATIONS
from quorate.service.custom_resources.ledger_picture import Wanted, read_picture
from quorate.service.custom_resources.resource_conditions import run_conditions
from quorate.service.custom_resources.resource_mirror import run_status
from quorate.service.grpc.grpc_codec import write_struct
from quorate.service.http.negotiation import MEDIA_OF
from quorate.service.reply import Form
from quorate.testing.memory_engines import HandClock
from quorate.views.redaction.redaction import OTHERS
from tests.oracles.effort import few_of, sized
from tests.service.families import CALLERS, Doors, Families, both_doors, families
from tests.service.worlds import run_tree

PRYING: Final = ("mia", "sub", "ole", "tea", "zed")
"""The callers: a user at the top of a family, users inside it, and strangers."""
NAMES: Final = sized(3, 6)
"""How many runs of other owners a caller requests by name."""
RUNS: Final = sized(3, 1_000)
NODES: Final = sized(2, 1_000)
"""How many of its runs, and how many nodes, a caller requests one by one."""
FORMS: Final = (MEDIA_OF[Form.JSON], MEDIA_OF[Form.TOLD], MEDIA_OF[Form.WIDE], "text/csv")


@dataclass(frozen=True, slots=True)
class Hidden:
    """The names that one caller may not see, and its own names."""

    names: frozenset[str]
    runs: tuple[str, ...]
    others: tuple[str, ...]
    owner: str

    def told(self, text: str) -> list[str]:
        """Return the hidden names in ``text``, with the words around them."""
        names = "|".join(map(re.escape, sorted(self.names, key=len, reverse=True)))
        pattern = rf"(?<![A-Za-z0-9_-])(?:{names})(?![A-Za-z0-9_]|-[a-z])"
        return [text[max(0, m.start() - 60) : m.end() + 20] for m in re.finditer(pattern, text)]


def below(view: StateView, owner: str) -> set[str]:
    """Return ``owner`` and all owners below it."""
    found = {owner}
    for child in view.children.get(owner, ()):
        found |= below(view, child)
    return found


def above(view: StateView, owner: str) -> set[str]:
    """Return ``owner`` and all owners above it."""
    found = {owner}
    for parent in view.owners[owner].parents:
        found |= above(view, parent)
    return found


def hidden_from(view: StateView, user: str) -> Hidden:
    """Return the names that the caller ``user`` may not see."""
    owner = CALLERS[user][1]
    mine, family = below(view, owner), below(view, owner) | above(view, owner)
    published: set[str] = set()
    for record in view.conflicts.values():
        published |= {each.run for each in record.declared.tokens}
        published |= {each.owner for each in record.declared.tokens}
        published.add(record.declared.reservation.rpartition("@")[0])
        cuts = () if record.resolved is None else record.resolved.cuts
        published |= {each.run for each in cuts}
    others = [name for name, each in view.runs.items() if each.spec.owner not in mine]
    own = tuple(name for name, each in view.runs.items() if each.spec.owner in mine)
    users = {each.spec.user for each in view.runs.values() if each.spec.owner not in mine}
    users |= {each.issued.user for each in view.tokens.values() if each.issued.tenant not in mine}
    users -= {each.spec.user for each in view.runs.values() if each.spec.owner in mine}
    users -= {each.issued.user for each in view.tokens.values() if each.issued.tenant in mine}
    tokens = {name for name, each in view.tokens.items() if each.issued.tenant not in mine}
    money = {each.name for each in view.budgets.values() if each.owner not in family}
    money |= {each.spec.name for each in view.envelopes.values() if each.owner not in family}
    owners = set(view.owners) - family
    names = {*others, *users, *tokens, *money, *owners} - published - {"root"}
    return Hidden(frozenset(names), own, tuple(sorted(set(others) - published)), owner)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Families:
    """Return a ledger of two families."""
    return families(tmp_path_factory.mktemp("families"))


@pytest.fixture(scope="module")
def view(made: Families) -> StateView:
    """Return the last state of the ledger."""
    engine = Engine.open(SqliteStore.read(made.path), HandClock(made.ended_ms))
    return engine.view


@pytest.mark.parametrize("user", few_of(PRYING, 1))
def test_the_resources_of_a_run_tell_what_its_owner_may_know(made: Families, user: str) -> None:
    engine = Engine.open(SqliteStore.read(made.path), HandClock(made.ended_ms))
    hidden = hidden_from(engine.view, user)
    own = [name for name in hidden.runs if engine.view.runs[name].spec.owner == hidden.owner]
    operator = RequestContext(engine, Caller.owner_of_file("kubernetes/west"))
    picture = read_picture(operator, Wanted(runs=own), {})
    assert picture.runs.keys() == set(own)
    for name, run in picture.runs.items():
        firm = None if run.reservation is None else run.reservation[1]
        said = [each.message for each in run_conditions(run.status)]
        written = json.dumps([run_status(run.status), said, run.leases, firm], default=str)
        assert hidden.told(written) == [], name


@pytest.fixture(scope="module")
def doors(made: Families, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """Return a service that the tests of this module share."""
    with both_doors(made, tmp_path_factory.mktemp("copy")) as found:
        yield found


def questions(view: StateView, hidden: Hidden) -> Iterator[tuple[str, Struct]]:
    """Yield requests of a caller about its own resources and about the fleet."""
    for name, operation in OPERATIONS.items():
        if name.startswith("list-") and issubclass(operation.takes, resource_operations.ListThings):
            yield name, operation.takes()
    for run in hidden.runs[:RUNS]:
        yield from (
            (name, resource_operations.GetThing(name=run))
            for name in ("get-run", "describe-run", "get-reservation", "describe-reservation")
        )
        yield "plan-run", plan_operations.AboutRun(run=run)
        yield "explain-run", plan_operations.AboutRun(run=run)
        yield "picture", plan_operations.PictureRequest(run=run)
        yield "list-events", ledger_operations.ListEvents(run=run)
        yield "run-logs", observe_operations.RunLogs(run=run)
        yield "run-reports", observe_operations.RunReports(run=run)
        yield "cancel-run", run_operations.EndRun(run=run, dry_run=True)
        yield "complete-run", run_operations.EndRun(run=run, dry_run=True)
    for node in sorted(view.nodes)[:NODES]:
        yield "describe-node", resource_operations.GetThing(name=node)
        yield "list-events", ledger_operations.ListEvents(about=f"node/{node}")
    yield "describe-owner", resource_operations.GetThing(name=hidden.owner)
    yield "describe-tenant", resource_operations.GetThing(name=hidden.owner)
    yield "list-events", ledger_operations.ListEvents(first=1, limit=PAGE_MAX)
    yield "list-notices", notice_operations.ListNotices(first=1, limit=PAGE_MAX)
    yield "list-tokens", service_operations.ListTokens()
    yield "whoami", ask.Nothing()
    yield "show-lottery", ask.Nothing()
    yield "verify-ledger", ledger_operations.VerifyLedger(deep=True)
    yield "fleet-top", observe_operations.FleetTop()
    yield "fleet-map", observe_operations.ShowMap()
    yield "queue-starts", plan_operations.QueueStarts()
    yield "owner-shares", money_operations.OwnerSharesRequest(name=hidden.owner)
    yield "picture", plan_operations.PictureRequest()
    yield "user-usage", money_operations.UserUsageRequest()
    yield "tenant-usage", money_operations.TenantUsageRequest(id=hidden.owner)
    yield "statement", money_operations.GetStatement()
    document = run_tree("prying", hidden.owner, 32)
    yield "plan-runs", plan_operations.PlanRuns(documents=(document,))
    yield "submit-run", run_operations.SubmitRun(document=document, dry_run=True)


def by_http(client: httpx.Client, name: str, asked: Struct, accept: str) -> str:
    """Return the whole answer to an operation: status, headers and body."""
    request = request_of(OPERATIONS[name], asked, accept=accept)
    told = client.request(
        request.method,
        request.path,
        params=list(request.query),
        headers=dict(request.headers),
        content=request.body,
    )
    assert told.status_code < 500, (name, asked, told.text)
    aside = {key: value for key, value in told.headers.items() if key in ("quorate-notes", "etag")}
    return f"{told.status_code} {aside} {told.text}"


def by_grpc(doors: Doors, user: str, name: str, asked: Struct) -> str:
    """Return the whole answer to an operation by gRPC, including refusals."""
    try:
        return str(doors.call(user, name, write_struct(asked)))
    except grpc.RpcError as error:
        failed: Any = error
        assert failed.code() is not grpc.StatusCode.INTERNAL, (name, asked, failed.details())
        return f"{failed.code()} {failed.details()} {failed.trailing_metadata()}"


@pytest.mark.parametrize("user", few_of(PRYING, 1))
def test_no_answer_names_what_the_caller_may_not_see(
    doors: Doors, view: StateView, user: str
) -> None:
    hidden = hidden_from(view, user)
    assert len(hidden.others) > 5
    leaks = []
    with doors.rest.client(doors.tokens[user]) as client:
        for name, asked in questions(view, hidden):
            texts = [by_http(client, name, asked, form) for form in FORMS]
            texts.append(by_grpc(doors, user, name, asked))
            leaks += [f"{name} {asked}: {each}" for text in texts for each in hidden.told(text)]
    assert not leaks, "\n".join(sorted(set(leaks)))


@pytest.mark.parametrize("user", few_of(PRYING, 1))
@pytest.mark.parametrize("place", ["/api/v1/watch", "/api/v1/notices/watch"])
def test_no_stream_names_what_the_caller_may_not_see(
    doors: Doors, view: StateView, user: str, place: str
) -> None:
    hidden, told, end = hidden_from(view, user), "", view.seq
    with (
        doors.rest.client(doors.tokens[user]) as client,
        client.stream("GET", place, params={"from": 1}) as answer,
    ):
        assert answer.status_code == 200, answer.read()
        for line in answer.iter_lines():
            told += f"{line}\n"
            if line.startswith("id: ") and int(line.removeprefix("id: ")) >= end:
                break
    assert not hidden.told(told)


def test_metrics_are_not_for_tenants(doors: Doors) -> None:
    for user in PRYING:
        with doors.rest.client(doors.tokens[user]) as client:
            assert client.get("/metrics").status_code == 403


MADE_UP: Final = "never-was-there"


def masked(text: str, name: str) -> str:
    """Return ``text`` without ``name``, which the caller itself has sent.

    A suggestion for a misspelt name depends only on the names that the caller may see.
    """
    text = re.sub(rf"{re.escape(name)}(?![A-Za-z0-9])", "NAME", text)
    return re.sub(r"did you mean '[^']*'\?|list them: quorate get [a-z]+", "HINT", text)


def probes(name: str, owner: str) -> Iterator[tuple[str, Struct]]:
    """Yield requests by a user of ``owner`` that might reveal whether a run ``name`` exists."""
    for kind in ("run", "claim", "reservation"):
        yield f"get-{kind}", resource_operations.GetThing(name=name)
        yield f"describe-{kind}", resource_operations.GetThing(name=name)
    yield "get-lease", resource_operations.GetThing(name=f"{name}/0")
    yield "list-runs", resource_operations.ListRuns(names=(name,))
    yield "list-runs", resource_operations.ListRuns(cursor=name)
    yield "list-queue", resource_operations.ListRuns(cursor=name)
    yield "list-leases", resource_operations.ListThings(cursor=f"{name}/0")
    for verb in ("cancel", "complete", "fail"):
        for dry_run in (True, False):
            yield f"{verb}-run", run_operations.EndRun(run=name, dry_run=dry_run)
    yield "shrink-run", run_operations.ShrinkRun(run=name, gpus=1)
    yield "release-claim", fleet_operations.ReleaseClaim(claim=name)
    yield "plan-run", plan_operations.AboutRun(run=name)
    yield "explain-run", plan_operations.AboutRun(run=name)
    yield "picture", plan_operations.PictureRequest(run=name)
    yield "list-events", ledger_operations.ListEvents(run=name)
    yield "list-events", ledger_operations.ListEvents(about=f"claim/{name}")
    yield "list-events", ledger_operations.ListEvents(about=f"reservation/{name}@1")
    yield "run-logs", observe_operations.RunLogs(run=name)
    yield "run-reports", observe_operations.RunReports(run=name)
    yield "submit-run", run_operations.SubmitRun(like=name, name="prying", dry_run=True)
    follow = {"after": [name]}
    document = run_tree("prying", owner, 1, follow=follow)
    yield "submit-run", run_operations.SubmitRun(document=document, dry_run=True)
    yield "apply", resource_operations.Apply(documents=(document,), dry_run=True)
    yield "plan-runs", plan_operations.PlanRuns(documents=(document,))


def of_owners(name: str, owner: str) -> Iterator[tuple[str, Struct]]:
    """Yield requests that might reveal whether an owner ``name`` exists."""
    for kind in ("owner", "tenant"):
        yield f"describe-{kind}", resource_operations.GetThing(name=name)
    yield "get-owner", resource_operations.GetThing(name=name)
    yield "list-runs", resource_operations.ListRuns(owner=name)
    yield "list-notices", notice_operations.ListNotices(owner=name)
    yield "list-tokens", service_operations.ListTokens(tenant=name)
    yield "list-tokens", service_operations.ListTokens(user=name)
    yield "tenant-usage", money_operations.TenantUsageRequest(id=name)
    yield "owner-shares", money_operations.OwnerSharesRequest(name=name)
    yield "user-usage", money_operations.UserUsageRequest(user=name)
    yield "statement", money_operations.GetStatement(tenant=name)
    yield "update-tenant", tenant_operations.UpdateTenant(id=name, max_nodes=1, dry_run=True)
    yield "submit-run", run_operations.SubmitRun(document=run_tree("prying", name, 1), dry_run=True)
    funding = {"allowBorrow": True, "sponsors": [name]}
    document = run_tree("prying", owner, 1, funding=funding)
    yield "submit-run", run_operations.SubmitRun(document=document, dry_run=True)


@pytest.mark.parametrize("user", few_of(PRYING, 1))
def test_what_is_hidden_is_answered_like_what_is_not_there(
    doors: Doors, view: StateView, user: str
) -> None:
    hidden = hidden_from(view, user)
    strangers = sorted(set(view.owners) - below(view, hidden.owner) - above(view, hidden.owner))
    pairs = [
        *((probes, name) for name in hidden.others[:NAMES]),
        *((of_owners, name) for name in strangers if name in hidden.names),
    ]
    told = []
    with doors.rest.client(doors.tokens[user]) as client:
        for asks, name in pairs:
            both = zip(asks(name, hidden.owner), asks(MADE_UP, hidden.owner), strict=True)
            for (operation, there), (_, absent) in both:
                if user not in MANAGES and operation == "update-tenant":
                    continue
                rest = [
                    masked(by_http(client, operation, each, FORMS[0]), called)
                    for each, called in ((there, name), (absent, MADE_UP))
                ]
                grpc_ = [
                    masked(by_grpc(doors, user, operation, each), called)
                    for each, called in ((there, name), (absent, MADE_UP))
                ]
                if rest[0] != rest[1]:
                    told.append(f"{operation} {there}: {rest[0]} / {rest[1]}")
                if _status(grpc_[0]) != _status(grpc_[1]):
                    told.append(f"{operation} {there}: {grpc_[0]} / {grpc_[1]}")
    assert not told, "\n".join(told)


MANAGES: Final = ("tea",)
"""The users in ``PRYING`` who are tenant-admins."""


def _status(text: str) -> str:
    """Return the result of a gRPC call; of a refusal, its code and its message."""
    return text.partition(" (_Metadatum")[0].partition(" ((")[0]


def test_a_key_of_another_caller_is_another_key(doors: Doors) -> None:
    documents = {
        user: run_tree(f"keyed-{user}", CALLERS[user][1], 1) for user in ("mia", "zed", "sub")
    }
    for user, document in documents.items():
        with doors.rest.client(doors.tokens[user]) as client:
            told = client.post(
                "/api/v1/runs", json={"document": document}, headers={"Idempotency-Key": "k"}
            )
        assert told.status_code == 200, told.text
        assert [each for each in documents if f"keyed-{each}" in told.text] == [user]


def test_of_a_name_that_another_has_only_that_it_is_taken_is_told(
    doors: Doors, view: StateView
) -> None:
    for user in PRYING:
        hidden = hidden_from(view, user)
        answers = set()
        with doors.rest.client(doors.tokens[user]) as client:
            for name in hidden.others[:6]:
                told = client.post(
                    "/api/v1/runs", json={"document": run_tree(name, hidden.owner, 1)}
                )
                answers.add(masked(told.text, name))
        assert len(answers) == 1, answers


def test_who_issued_a_token_is_not_told_to_a_tenant_below(doors: Doors) -> None:
    """A tenant-admin above issues a token; its holder sees neither that tenant nor its users."""
    with doors.rest.client(doors.tokens["zac"]) as lead:
        body = {"role": "user", "user": "zia", "tenant": "zeta-team"}
        given = lead.post("/api/v1/tokens", json=body)
        assert given.status_code == 200, given.text
        assert given.json()["token"]["issuedBy"] == "zeta/zac"
    with doors.rest.client(given.json()["token"]["secret"]) as holder:
        (told,) = holder.get("/api/v1/tokens").json()["items"]
        assert (told["user"], told["issuedBy"]) == ("zia", OTHERS)
        shown = holder.get("/api/v1/tokens", headers={"Accept": MEDIA_OF[Form.WIDE]}).text
        assert "zac" not in shown


def test_an_act_of_a_tenant_above_is_not_signed_with_its_user(doors: Doors) -> None:
    """An ancestor's admin cancels a run: no event, text or notice of the run shows that name."""
    with doors.rest.client(doors.tokens["zed"]) as client:
        sent = client.post("/api/v1/runs", json={"document": run_tree("stopped", "zeta-team", 1)})
        assert sent.status_code == 200, sent.text
    with doors.rest.client(doors.tokens["zac"]) as lead:
        ended = lead.post("/api/v1/runs/stopped/cancel", json={"note": "by order"})
        assert ended.status_code == 200, ended.text
    with doors.rest.client(doors.tokens["zed"]) as client:
        told = [
            client.get(f"/api/v1/{place}", headers={"Accept": accept}).text
            for place in ("runs/stopped", "runs/stopped/description", "ledger/events?from=1")
            for accept in (FORMS[0], FORMS[2])
        ]
        told.append(client.get("/api/v1/notices", params={"from": 1}).text)
    assert "by order" in told[0]
    assert not [text for text in told if "zac" in text]


def test_what_all_budgets_promise_together_is_told_to_those_who_oversee(doors: Doors) -> None:
    """The sum over all envelopes of a scope would reveal what other owners were granted there."""
    told: dict[str, str] = {}
    for user in ("root", "max"):
        with doors.rest.client(doors.tokens[user]) as client:
            found = client.get("/api/v1/budgets/mine-money")
            document = {
                key: found.json()[key] for key in ("apiVersion", "kind", "metadata", "spec")
            }
            document["spec"]["envelopes"][0]["concurrency"] = 32
            for key in ({}, {"Idempotency-Key": f"lower-{user}"}):
                for accept in (FORMS[0], FORMS[2]):
                    done = client.put(
                        "/api/v1/budgets/mine-money",
                        json={"document": document},
                        headers={"Accept": accept, **key},
                        params={} if key else {"dryRun": "true"},
                    )
                    assert done.status_code == 200, done.text
                    told[user] = told.get(user, "") + done.text
                    told[user] += done.headers.get("quorate-notes", "")
    assert "envelopes promise" in told["root"]
    assert "envelopes promise" not in told["max"]
