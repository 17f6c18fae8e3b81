"""What operations on access tokens give."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from quorate.operations.common_responses import Given, Outcome
from quorate.operations.money.money_responses import Number


class Token(Given, kw_only=True, frozen=True):
    """An access token. ``secret`` is the whole of it, and is told only when it is issued.

    No areas among ``scopes`` means all that its role may do; no ``expires`` that it does not.
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


class ClockState(Given, kw_only=True, frozen=True):
    """The wall clock, and the time that everything goes by; ``step_ms`` is between the two.

    While not ``deciding``, ``why`` says what happened and what to do; reads go on.
    """

    deciding: bool
    wall: str
    trusted: str
    step_ms: int
    why: str


class LinkedTenant(Given, kw_only=True, frozen=True):
    """A tenant that is linked to an accounting system, and whose figure of its budget counts.

    ``last_answer`` is null where it has not been answered for since the service started.
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
    """How links stand; ``waiting`` amounts are still to be told, null where nobody asks."""

    items: tuple[LinkedTenant, ...]
    waiting: int | None
    waiting_since: str | None
    trouble: str
