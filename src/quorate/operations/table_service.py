"""The operations on access tokens, and who it is that asks."""

from __future__ import annotations

from typing import Final

from quorate.operations import asked_service as asked
from quorate.operations import given, given_service
from quorate.operations.caller import ANYBODY, ANYBODY_AND_ACCOUNTING, MANAGERS, OVERSEERS
from quorate.operations.operation import Area, Effect, Operation, Repeat

SERVICE: Final = (
    Operation(
        name="issue-token",
        area=Area.SERVICE,
        summary="Issue an access token; its secret is told this once.",
        takes=asked.IssueToken,
        gives=given_service.TokenOutcome,
        roles=MANAGERS,
        method="POST",
        path="/tokens",
        handler="quorate.operations.tokens:issue_token",
        effect=Effect.WRITE,
        repeat=Repeat.ANEW,
        refusals=("invalid", "unknown-name"),
        cli=("token issue",),
    ),
    Operation(
        name="list-tokens",
        area=Area.SERVICE,
        summary="List access tokens, without their secrets.",
        takes=asked.ListTokens,
        gives=given_service.Tokens,
        roles=ANYBODY,
        method="GET",
        path="/tokens",
        handler="quorate.operations.tokens:list_tokens",
        refusals=("stale-cursor",),
        cli=("token list",),
    ),
    Operation(
        name="revoke-token",
        area=Area.SERVICE,
        summary="Do not take an access token any more.",
        takes=asked.RevokeToken,
        gives=given.Outcome,
        roles=ANYBODY,
        method="DELETE",
        path="/tokens/{token}",
        handler="quorate.operations.tokens:revoke_token",
        effect=Effect.WRITE,
        repeat=Repeat.SAME,
        refusals=("unknown-name",),
        cli=("token revoke",),
        is_for_any_scope=True,
    ),
    Operation(
        name="accounting-status",
        area=Area.SERVICE,
        summary="Show how links to an accounting system stand, and what waits to be told.",
        takes=asked.Nothing,
        gives=given_service.AccountingStatus,
        roles=OVERSEERS,
        method="GET",
        path="/accounting",
        handler="quorate.operations.accounting_status:accounting_status",
        cli=("waldur status",),
    ),
    Operation(
        name="whoami",
        area=Area.SERVICE,
        summary="Say who you are to the service.",
        takes=asked.Nothing,
        gives=given_service.Whoami,
        roles=ANYBODY_AND_ACCOUNTING,
        method="GET",
        path="/whoami",
        handler="quorate.operations.tokens:whoami",
        cli=("whoami",),
        is_for_any_scope=True,
    ),
)
