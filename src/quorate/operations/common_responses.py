"""Base types of responses, for programs. Ignore unknown fields: new fields may be added."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

Tree = dict[str, Any]


class Given(Struct, kw_only=True, frozen=True, rename="camel"):
    """Any response."""


class Change(Given, kw_only=True, frozen=True):
    """The result for one resource of the request."""

    kind: str
    name: str
    change: str


class Place(Given, kw_only=True, frozen=True):
    """The place of a change in the ledger. If kept elsewhere, the ``receipt`` proves the change."""

    height: int
    sequence: int
    hash: str
    receipt: str


class Outcome(Given, kw_only=True, frozen=True):
    """The result of a command; ``head`` is null if nothing was recorded.

    ``effect`` is the effect on runs, and ``tenant`` has the fields of the tenant that have changed.
    The answer to a request with an idempotency key has no ``effect``, so that a repetition can get
    the same answer. A dry run of such a request shows the effect. ``other_events`` is the number of
    events of the command that the caller may not see.
    """

    dry_run: bool
    changes: tuple[Change, ...]
    warnings: tuple[str, ...]
    events: tuple[Tree, ...]
    head: Place | None
    effect: Tree | UnsetType = UNSET
    tenant: Tree | UnsetType = UNSET
    other_events: int | UnsetType = UNSET
