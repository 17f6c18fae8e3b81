from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from quorate.core.commands import Apply
from quorate.loop.engine import Engine
from quorate.model.specs import Owner
from quorate.operations import common_requests
from quorate.operations.answering import answer
from quorate.operations.caller import Caller, Role
from quorate.operations.operation import Area
from quorate.operations.request_context import RequestContext
from quorate.operations.service import service_operations
from quorate.operations.service.token_handlers import digest_of
from quorate.operations.table import OPERATIONS
from quorate.testing.memory_engines import memory_engine
from quorate.views.exits import CommandError

ADMIN = Caller(actor="root", role=Role.ADMIN, user="root")
LEAD = Caller(actor="lea", role=Role.TENANT_ADMIN, user="lea", tenant="org")
USER = Caller(actor="ann", role=Role.USER, user="ann", tenant="team")
AUDITOR = Caller(actor="eve", role=Role.AUDITOR, user="eve")


@pytest.fixture
def engine() -> Engine:
    found = memory_engine()
    owners = (Owner(name="org"), Owner(name="team", parents=("org",)), Owner(name="other"))
    assert not found.execute(Apply(owners), actor="test").decision.refusals
    return found


def _ask(engine: Engine, caller: Caller, name: str, asked: Any) -> dict[str, Any]:
    tree: dict[str, Any] = answer(RequestContext(engine, caller), OPERATIONS[name], asked).tree()
    return tree


def _issue(engine: Engine, caller: Caller, role: Role, tenant: str = "", **more: Any) -> Any:
    asked = service_operations.IssueToken(
        role=role, user=more.pop("user", "x"), tenant=tenant, **more
    )
    return _ask(engine, caller, "issue-token", asked)


def test_a_secret_is_told_once_and_the_ledger_has_its_digest(engine: Engine) -> None:
    given = _issue(engine, ADMIN, Role.USER, "team", user="ann")["token"]
    prefix, name, secret = given["secret"].split("_")
    assert (prefix, name) == ("qt", given["id"])
    record = engine.view.tokens[name]
    assert record.issued.digest == digest_of(secret)
    everything = b"".join(block.body for block in engine.store.blocks())
    assert secret.encode() not in everything
    listed = _ask(engine, ADMIN, "list-tokens", service_operations.ListTokens())["items"]
    assert [each["id"] for each in listed] == [name]
    assert "secret" not in listed[0]


def test_a_token_expires_after_90_days_unless_told_otherwise(engine: Engine) -> None:
    default = _issue(engine, ADMIN, Role.AUDITOR)["token"]["id"]
    never = _issue(engine, ADMIN, Role.AUDITOR, lifetime="never")["token"]["id"]
    issued = engine.view.tokens[default].issued
    assert issued.expires_ms == issued.at_ms + 90 * 86_400_000
    assert engine.view.tokens[never].issued.expires_ms is None


def test_a_lifetime_that_is_none_is_refused_with_its_field(engine: Engine) -> None:
    with pytest.raises(CommandError, match="lifetime: "):
        _issue(engine, ADMIN, Role.AUDITOR, lifetime="soon")


def test_a_dry_run_gives_no_secret(engine: Engine) -> None:
    given = _issue(engine, ADMIN, Role.AUDITOR, dry_run=True)
    assert "token" not in given
    assert not engine.view.tokens


@pytest.mark.parametrize(
    ("role", "tenant"),
    [(Role.USER, "org"), (Role.USER, "team"), (Role.TENANT_ADMIN, "team")],
)
def test_a_tenant_admin_issues_for_its_own_tenants(engine: Engine, role: Role, tenant: str) -> None:
    assert _issue(engine, LEAD, role, tenant)["token"]["tenant"] == tenant


@pytest.mark.parametrize(
    ("caller", "role", "tenant"),
    [
        (LEAD, Role.ADMIN, ""),
        (LEAD, Role.AUDITOR, ""),
        (LEAD, Role.USER, "other"),
        (LEAD, Role.TENANT_ADMIN, "other"),
        (USER, Role.USER, "team"),
        (AUDITOR, Role.AUDITOR, ""),
    ],
)
def test_nobody_issues_more_than_is_theirs(
    engine: Engine, caller: Caller, role: Role, tenant: str
) -> None:
    with pytest.raises(CommandError) as caught:
        _issue(engine, caller, role, tenant)
    assert caught.value.fault == "forbidden"
    assert not engine.view.tokens


def test_a_limited_token_issues_only_ones_as_limited(engine: Engine) -> None:
    limited = Caller(
        actor="root", role=Role.ADMIN, user="root", scopes=frozenset({"service", "runs"})
    )
    for scopes in ((), (Area.LEDGER,), (Area.RUNS, Area.MONEY)):
        with pytest.raises(CommandError, match="scopes: "):
            _issue(engine, limited, Role.ADMIN, scopes=scopes)
    assert _issue(engine, limited, Role.ADMIN, scopes=(Area.RUNS,))["token"]["scopes"] == ["runs"]


def test_each_sees_and_revokes_what_is_theirs(engine: Engine) -> None:
    mine = _issue(engine, ADMIN, Role.USER, "team", user="ann")["token"]["id"]
    beside = _issue(engine, ADMIN, Role.USER, "team", user="bob")["token"]["id"]
    far = _issue(engine, ADMIN, Role.USER, "other", user="ann")["token"]["id"]

    def seen(caller: Caller) -> set[str]:
        items = _ask(engine, caller, "list-tokens", service_operations.ListTokens())["items"]
        return {each["id"] for each in items}

    assert seen(USER) == {mine}
    assert seen(LEAD) == {mine, beside}
    assert seen(AUDITOR) == seen(ADMIN) == {mine, beside, far}
    for caller, name in ((USER, beside), (LEAD, far)):
        with pytest.raises(CommandError) as caught:
            _ask(engine, caller, "revoke-token", service_operations.RevokeToken(token=name))
        assert caught.value.fault == "unknown-name"
    _ask(engine, USER, "revoke-token", service_operations.RevokeToken(token=mine))
    _ask(engine, LEAD, "revoke-token", service_operations.RevokeToken(token=beside))
    assert [record.revoked_ms is None for record in engine.view.tokens.values()] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("caller", [AUDITOR, USER, replace(USER, scopes=frozenset({"runs"}))])
def test_every_token_may_revoke_itself(engine: Engine, caller: Caller) -> None:
    mine = _issue(engine, ADMIN, caller.role, caller.tenant, user=caller.user)["token"]["id"]
    holder = replace(caller, token=mine)
    _ask(engine, holder, "revoke-token", service_operations.RevokeToken(token=mine))
    assert engine.view.tokens[mine].revoked_ms is not None


def test_a_whole_token_may_be_named_to_revoke_it_and_is_not_echoed(engine: Engine) -> None:
    given = _issue(engine, ADMIN, Role.AUDITOR)["token"]
    tree = _ask(
        engine, ADMIN, "revoke-token", service_operations.RevokeToken(token=given["secret"])
    )
    assert engine.view.tokens[given["id"]].revoked_ms is not None
    assert given["secret"] not in str(tree)


def test_tokens_are_listed_a_page_at_a_time(engine: Engine) -> None:
    names = [_issue(engine, ADMIN, Role.AUDITOR)["token"]["id"] for _ in range(3)]
    first = _ask(engine, ADMIN, "list-tokens", service_operations.ListTokens(limit=2))
    rest = _ask(engine, ADMIN, "list-tokens", service_operations.ListTokens(cursor=first["next"]))
    assert [each["id"] for each in (*first["items"], *rest["items"])] == names
    assert "next" not in rest


def test_whoami_tells_what_the_service_knows(engine: Engine) -> None:
    assert _ask(engine, LEAD, "whoami", common_requests.Nothing()) == {
        "user": "lea",
        "role": "tenant-admin",
        "tenant": "org",
        "scopes": [],
        "tenants": ["org", "team"],
    }


def test_whoami_says_that_a_token_is_for_all_areas_or_for_which(engine: Engine) -> None:
    limited = replace(LEAD, scopes=frozenset({"runs", "money"}))
    for caller, areas in ((LEAD, "all"), (limited, "money, runs")):
        context = RequestContext(engine, caller)
        (text,) = answer(context, OPERATIONS["whoami"], common_requests.Nothing()).lines(False)  # noqa: FBT003
        assert re.search(rf"(?m)^Areas: +{areas}$", text), text


@pytest.mark.parametrize("lifetime", ["90d", "never"])
def test_a_token_does_not_outlive_the_one_it_was_issued_with(engine: Engine, lifetime: str) -> None:
    until_ms = engine.now_ms() + 60_000
    brief = replace(LEAD, until_ms=until_ms)
    asked = service_operations.IssueToken(role=Role.USER, user="x", tenant="org", lifetime=lifetime)
    found = answer(RequestContext(engine, brief), OPERATIONS["issue-token"], asked)
    given = found.tree()["token"]
    assert engine.view.tokens[given["id"]].issued.expires_ms == until_ms
    assert found.notes == (f"note: it expires together with your own token, at {given['expires']}",)
    # An admin may grant what it was not granted, because it could issue itself another token.
    admin = replace(ADMIN, until_ms=until_ms)
    kept = _issue(engine, admin, Role.AUDITOR, lifetime="never")["token"]
    assert kept["expires"] is None


def test_a_shorter_one_is_issued_as_asked_for(engine: Engine) -> None:
    brief = replace(LEAD, until_ms=engine.now_ms() + 3_600_000)
    asked = service_operations.IssueToken(role=Role.USER, user="x", tenant="org", lifetime="1m")
    found = answer(RequestContext(engine, brief), OPERATIONS["issue-token"], asked)
    name = found.tree()["token"]["id"]
    assert engine.view.tokens[name].issued.expires_ms == engine.now_ms() + 60_000
    assert not found.notes
