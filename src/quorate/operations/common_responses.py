"""The responses of operations, for programs. Shapes that grow are open: read what you know."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

Tree = dict[str, Any]


class Given(Struct, kw_only=True, frozen=True, rename="camel"):
    """Any response."""


class Change(Given, kw_only=True, frozen=True):
    """The result for one resource that was named."""

    kind: str
    name: str
    change: str


class Place(Given, kw_only=True, frozen=True):
    """Where in the ledger something is recorded; the ``receipt`` proves it when kept elsewhere."""

    height: int
    sequence: int
    hash: str
    receipt: str


class Outcome(Given, kw_only=True, frozen=True):
    """The result of a command; ``head`` is null where nothing was recorded.

    ``effect`` says what it changes for runs, ``tenant`` which of its fields have changed. A request
    with an idempotency key gets no ``effect``, so that a repetition gets the same; a dry run shows
    it before. ``other_events`` is how many of its events the caller may not see.
    """

    dry_run: bool
    changes: tuple[Change, ...]
    warnings: tuple[str, ...]
    events: tuple[Tree, ...]
    head: Place | None
    effect: Tree | UnsetType = UNSET
    tenant: Tree | UnsetType = UNSET
    other_events: int | UnsetType = UNSET
