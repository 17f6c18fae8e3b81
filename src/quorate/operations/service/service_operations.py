"""Requests and responses of operations on access tokens and on the clock."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType

from quorate.operations import common_requests, common_responses
from quorate.operations.caller import (
    ADMINS,
    ANYBODY,
    ANYBODY_AND_ACCOUNTING,
    MANAGERS,
    OVERSEERS,
    Role,
)
from quorate.operations.common_requests import PAGE_MAX, Asked, Name, Note, Write
from quorate.operations.common_responses import Given, Outcome
from quorate.operations.operation import Area, Effect, Operation, Repeat, Scope

LIFETIME_DEFAULT: Final = "90d"
User = Annotated[str, Meta(min_length=1, max_length=253, pattern=r"^[^\x00-\x1f\x7f]+$")]


class IssueToken(Write, kw_only=True, frozen=True):
    """A token for ``user``, with ``role``, and with ``tenant`` if the role needs one.

    ``lifetime`` is a duration such as ``90d``, or ``never``. Areas among ``scopes`` limit the token
    to those areas. The scope ``claim`` is not an area: it adds the right to claim nodes.
    """

    role: Role
    user: User
    tenant: Annotated[str, Meta(max_length=253)] = ""
    scopes: Annotated[tuple[Scope, ...], Meta(max_length=len(Scope))] = ()
    lifetime: Annotated[str, Meta(min_length=1, max_length=40)] = LIFETIME_DEFAULT
    note: Note = ""


class ListTokens(Asked, kw_only=True, frozen=True):
    """A page of the access tokens: all, or only those of one tenant or one user."""

    tenant: Name | None = None
    user: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] | None = None
    cursor: Annotated[str, Meta(max_length=600)] | None = None


class RevokeToken(Write, kw_only=True, frozen=True):
    """The id of the token, and the reason."""

    token: Name
    note: Note = ""


class Token(Given, kw_only=True, frozen=True):
    """An access token. ``secret`` is the whole token, which is shown only when it is issued.

    A token without areas among ``scopes`` may do all that its role may do. A token without
    ``expires`` never expires.
    """

    id: str
    role: str
    tenant: str
    user: str
    scopes: tuple[str, ...]
    expires: str | None
    revoked: str | None
    issued: str
    issued_by: str
    note: str
    secret: str | UnsetType = UNSET


class TokenOutcome(Outcome, kw_only=True, frozen=True):
    """The result of issuing a token. The result of a dry run has no token."""

    token: Token | UnsetType = UNSET


class Tokens(Given, kw_only=True, frozen=True):
    """Access tokens in the order of issue. ``next`` is set if there are more."""

    items: tuple[Token, ...]
    next: str | UnsetType = UNSET


class Whoami(Given, kw_only=True, frozen=True):
    """The caller. ``tenants`` are the tenants whose resources the caller may see."""

    user: str
    role: str
    tenant: str
    scopes: tuple[str, ...]
    tenants: tuple[str, ...]


class ClockState(Given, kw_only=True, frozen=True):
    """The wall clock, and the time that the service trusts. ``step_ms`` is their difference.

    While ``deciding`` is false, the service decides nothing, and ``why`` says what happened and
    what to do. Reads are always answered.
    """

    deciding: bool
    wall: str
    trusted: str
    step_ms: int
    why: str


OPERATIONS: Final = (
    Operation(
        name="issue-token",
        area=Area.SERVICE,
        summary="Issue an access token; its secret is shown only once.",
        takes=IssueToken,
        gives=TokenOutcome,
        roles=MANAGERS,
        method="POST",
        path="/tokens",
        handler="quorate.operations.service.token_handlers:issue_token",
        effect=Effect.WRITE,
        repeat=Repeat.ANEW,
        refusals=("invalid", "unknown-name"),
        cli=("token issue",),
    ),
    Operation(
        name="list-tokens",
        area=Area.SERVICE,
        summary="List access tokens, without their secrets.",
        takes=ListTokens,
        gives=Tokens,
        roles=ANYBODY,
        method="GET",
        path="/tokens",
        handler="quorate.operations.service.token_handlers:list_tokens",
        refusals=("stale-cursor",),
        cli=("token list",),
    ),
    Operation(
        name="revoke-token",
        area=Area.SERVICE,
        summary="Revoke an access token.",
        takes=RevokeToken,
        gives=common_responses.Outcome,
        roles=ANYBODY,
        method="DELETE",
        path="/tokens/{token}",
        handler="quorate.operations.service.token_handlers:revoke_token",
        effect=Effect.WRITE,
        repeat=Repeat.SAME,
        refusals=("invalid", "unknown-name"),
        cli=("token revoke",),
        is_for_any_scope=True,
    ),
    Operation(
        name="show-clock",
        area=Area.SERVICE,
        summary="Show the service's clock, and whether the service trusts it.",
        takes=common_requests.Nothing,
        gives=ClockState,
        roles=OVERSEERS,
        method="GET",
        path="/clock",
        handler="quorate.operations.service.clock_handlers:show_clock",
        cli=("admin clock show",),
        of_service=True,
    ),
    Operation(
        name="accept-clock",
        area=Area.SERVICE,
        summary="Trust the service's present clock, and resume deciding.",
        takes=common_requests.Nothing,
        gives=ClockState,
        roles=ADMINS,
        method="POST",
        path="/clock",
        handler="quorate.operations.service.clock_handlers:accept_clock",
        cli=("admin clock accept",),
        of_service=True,
    ),
    Operation(
        name="whoami",
        area=Area.SERVICE,
        summary="Show the caller's identity and permissions.",
        takes=common_requests.Nothing,
        gives=Whoami,
        roles=ANYBODY_AND_ACCOUNTING,
        method="GET",
        path="/whoami",
        handler="quorate.operations.service.token_handlers:whoami",
        cli=("whoami",),
        is_for_any_scope=True,
        of_caller=True,
    ),
)
