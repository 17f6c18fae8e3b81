"""Access tokens: issued, refused, revoked, and removed with their tenant."""

from __future__ import annotations

import pytest

from quorate.core.commands import Change, IssueToken, RemoveOwner, RevokeToken, Submit
from quorate.model.amounts import HOUR_MS
from quorate.model.events import OwnerRemoved, RunRefused, TokenIssued, TokenRevoked, TokenRole
from quorate.model.refusal import RefusalCode
from quorate.model.specs import Owner
from quorate.model.state.apply_event import apply
from quorate.model.state.records import Phase, TokenRecord
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from tests.oracles.lives import Life

DIGEST = "ab" * 32
ADMIN = IssueToken("t1", DIGEST, TokenRole.ADMIN, "", "root")
USER = IssueToken("t2", DIGEST, "user", "team", "ada", ("runs",), NOW_MS + HOUR_MS, "laptop")


def new_life() -> Life:
    return Life(
        nodes=fleet({"A": 16}),
        owners=[Owner(name="team"), Owner(name="gone")],
        budgets=[budget("b", "team", envelope("e", 16))],
    )


def test_a_token_is_written_with_all_that_was_said_of_it() -> None:
    life = new_life()
    decision = life.do(USER)
    issued = TokenIssued(
        NOW_MS,
        "test",
        "t2",
        DIGEST,
        TokenRole.USER,
        "team",
        "ada",
        ("runs",),
        NOW_MS + HOUR_MS,
        "laptop",
    )
    assert decision.events == (issued,)
    assert isinstance(issued.role, TokenRole)
    assert decision.changes == (("Token", "t2", Change.CREATED),)
    assert life.state.tokens == {"t2": TokenRecord(issued, None)}


@pytest.mark.parametrize("role", TokenRole)
def test_every_role_can_be_given(role: TokenRole) -> None:
    tenant = "team" if role in {TokenRole.TENANT_ADMIN, TokenRole.USER} else ""
    life = new_life()
    life.do(IssueToken("t", DIGEST, role.value, tenant, "ada"))
    assert life.state.tokens["t"].issued.role is role


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (IssueToken("t1", DIGEST, "auditor", "", ""), ["already-exists: there is a token 't1'"]),
        (IssueToken("n", DIGEST, "user", "x", "ada"), ["unknown-name: there is no owner 'x'"]),
        (
            IssueToken("n", DIGEST, "user", "", "ada"),
            [("invalid: tenant: the role user needs a tenant")],
        ),
        (
            IssueToken("n", DIGEST, TokenRole.TENANT_ADMIN, "", "ada"),
            ["invalid: tenant: the role tenant-admin needs a tenant"],
        ),
        (
            IssueToken("n", DIGEST, "admin", "team", "ada"),
            ["invalid: tenant: the role admin belongs to no tenant, but 'team' was given"],
        ),
        (
            IssueToken("n", DIGEST, "auditor", "x", "ada"),
            ["invalid: tenant: the role auditor belongs", "unknown-name: there is no owner 'x'"],
        ),
        (IssueToken("n", DIGEST, "root", "", "ada"), ["invalid: role: there is no role 'root'"]),
        (
            IssueToken("n", DIGEST, "admin", "", "ada", expires_ms=NOW_MS),
            ["invalid: expiry: it lies in the past"],
        ),
        (RevokeToken("nobody"), ["unknown-name: there is no token 'nobody'"]),
    ],
)
def test_what_cannot_be_is_refused(command: IssueToken | RevokeToken, told: list[str]) -> None:
    life = new_life()
    life.do(ADMIN)
    decision = life.ask(command)
    assert decision.events == ()
    said = [f"{each.code.value}: {each.subject}" for each in decision.refusals]
    assert [line.startswith(start) for line, start in zip(said, told, strict=True)] == [True] * len(
        told
    )
    assert all(each.remedy for each in decision.refusals)


def test_a_revoked_token_stays_known_and_is_revoked_once() -> None:
    life = new_life()
    life.do(ADMIN)
    decision = life.do(RevokeToken("t1", "lost"), NOW_MS + HOUR_MS)
    assert decision.events == (TokenRevoked(life.now_ms, "test", "t1", "lost"),)
    assert decision.changes == (("Token", "t1", Change.REMOVED),)
    assert life.state.tokens["t1"].revoked_ms == life.now_ms
    again = life.do(RevokeToken("t1"))
    assert again.events == ()
    assert again.changes == (("Token", "t1", Change.UNCHANGED),)
    refused = life.ask(ADMIN)
    assert [each.code for each in refused.refusals] == [RefusalCode.ALREADY_EXISTS]


def test_revoking_in_an_overlay_leaves_what_lies_below_alone() -> None:
    life = new_life()
    life.do(ADMIN)
    over = life.state.overlay()
    apply(over, TokenRevoked(NOW_MS, "test", "t1", ""))
    assert over.tokens["t1"].revoked_ms == NOW_MS
    assert life.state.tokens["t1"].revoked_ms is None


def test_tokens_go_with_their_tenant() -> None:
    life = new_life()
    for number, tenant in enumerate(("gone", "team", "gone", "gone")):
        life.do(IssueToken(f"t{number}", DIGEST, "user", tenant, "ada"))
    life.do(IssueToken("root", DIGEST, "admin", "", "root"))
    life.do(RevokeToken("t2"))
    decision = life.do(RemoveOwner("gone", reason="over"), NOW_MS + HOUR_MS)
    note = "its tenant gone was removed"
    assert decision.events == (
        TokenRevoked(life.now_ms, "test", "t0", note),
        TokenRevoked(life.now_ms, "test", "t3", note),
        OwnerRemoved(life.now_ms, "test", "gone", "over"),
    )
    assert decision.changes == (
        ("Owner", "gone", Change.REMOVED),
        ("Token", "t0", Change.REMOVED),
        ("Token", "t3", Change.REMOVED),
    )
    assert decision.warnings == ("2 access tokens revoked with the tenant: t0, t3",)
    taken = [name for name, known in life.state.tokens.items() if known.revoked_ms is None]
    assert taken == ["t1", "root"]


def test_a_token_is_recorded_alone_though_somebody_waits() -> None:
    life = new_life()
    life.do(Submit(run("a", 16)))
    waiting = life.do(Submit(run("b", 16)))
    assert any(isinstance(event, RunRefused) for event in waiting.events)
    assert [type(event) for event in life.do(ADMIN).events] == [TokenIssued]


def test_a_token_does_not_pass_over_a_window_that_has_opened() -> None:
    opens_ms = NOW_MS + HOUR_MS
    life = Life(
        nodes=fleet({"A": 16}),
        owners=[Owner(name="team")],
        budgets=[budget("b", "team", envelope("e", 16, start_ms=opens_ms))],
    )
    life.do(Submit(run("a", 4)))
    assert life.phase("a") is Phase.PENDING
    life.do(ADMIN, opens_ms + HOUR_MS)
    assert life.phase("a") is Phase.RUNNING
