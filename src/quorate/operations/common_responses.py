"""What operations give, as programs see it. Shapes that grow are open: read what you know."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

Tree = dict[str, Any]


class Given(Struct, kw_only=True, frozen=True, rename="camel"):
    """Anything that is given."""


class Change(Given, kw_only=True, frozen=True):
    """What became of one thing that was named."""

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
    """What came of something that changes things; ``head`` is null where nothing was recorded.

    ``effect`` says what it changes for runs, ``tenant`` which of its fields have changed. A request
    with an idempotency key is not told its ``effect``, so that a repetition is told the same; a dry
    run tells it before. ``other_events`` is how many events came of it that are others' to see.
    """

    dry_run: bool
    changes: tuple[Change, ...]
    warnings: tuple[str, ...]
    events: tuple[Tree, ...]
    head: Place | None
    effect: Tree | UnsetType = UNSET
    tenant: Tree | UnsetType = UNSET
    other_events: int | UnsetType = UNSET
