"""What operations on access tokens give."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from quorate.operations.common_responses import Given, Outcome
from quorate.operations.money.money_responses import Number


class Token(Given, kw_only=True, frozen=True):
    """An access token. ``secret`` is the whole token, and is shown only when it is issued.

    No areas among ``scopes`` means everything that its role may do; no ``expires`` means never.
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
    """The result of issuing a token; a dry run has none to give."""

    token: Token | UnsetType = UNSET


class Tokens(Given, kw_only=True, frozen=True):
    """Access tokens in the order they were issued; ``next`` is there when there are more."""

    items: tuple[Token, ...]
    next: str | UnsetType = UNSET


class Whoami(Given, kw_only=True, frozen=True):
    """The caller. ``tenants`` are those whose resources it sees."""

    user: str
    role: str
    tenant: str
    scopes: tuple[str, ...]
    tenants: tuple[str, ...]


class ClockState(Given, kw_only=True, frozen=True):
    """The wall clock, and the trusted time; ``step_ms`` is the difference.

    While not ``deciding``, ``why`` says what happened and what to do; reads continue.
    """

    deciding: bool
    wall: str
    trusted: str
    step_ms: int
    why: str


class LinkedTenant(Given, kw_only=True, frozen=True):
    """A tenant that is linked to an accounting system, and whose figure of its budget counts.

    ``last_answer`` is null where there was no answer since the service started.
    """

    owner: str
    linked_to: str
    source: str
    since: str
    last_answer: str | None
    gpu_hours_remaining: Number | None
    node_hours_remaining: Number | None
    trouble: str


class AccountingStatus(Given, kw_only=True, frozen=True):
    """The status of links; ``waiting`` amounts are still to be sent, null where none is linked."""

    items: tuple[LinkedTenant, ...]
    waiting: int | None
    waiting_since: str | None
    trouble: str
