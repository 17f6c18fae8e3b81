"""What operations on access tokens give."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from quorate.operations.given import Given, Outcome


class Token(Given, kw_only=True, frozen=True):
    """An access token. ``secret`` is the whole of it, and is told only when it is issued.

    No ``scopes`` means all that its role may do; no ``expires`` that it does not.
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
    """What came of issuing a token; a dry run has none to give."""

    token: Token | UnsetType = UNSET


class Tokens(Given, kw_only=True, frozen=True):
    """Access tokens in the order they were issued; ``next`` is there when there are more."""

    items: tuple[Token, ...]
    next: str | UnsetType = UNSET


class Whoami(Given, kw_only=True, frozen=True):
    """Who asks. ``tenants`` are those whose things they see."""

    user: str
    role: str
    tenant: str
    scopes: tuple[str, ...]
    tenants: tuple[str, ...]
