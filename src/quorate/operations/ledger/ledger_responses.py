"""What the operations give that plan, explain, watch, and read the ledger itself."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from quorate.operations.common_responses import Given, Tree


class Forecast(Given, kw_only=True, frozen=True):
    """When a run starts, and what that rests on; what is not known is null.

    ``exact`` is there where the start was searched beyond the pool's depth: whether the run was
    ``reached``, and how many waiting ``runs`` were planned for it, of ``runsMax`` at most.
    """

    run: str
    as_of: str
    phase: str
    recorded_phase: str | None
    starts_now: bool
    queue_position: int | None
    queue_length: int
    reservation: str | None
    status: str | None
    plan_state: str | None
    exact: Tree | None
    cause: Tree | None
    parked: str | None
    planned_start: str | None
    natural_start: str | None
    starts_in_ms: int | None
    by_conflict: bool
    conflict: Tree | None
    confidence: str | None
    overdue: tuple[str, ...]
    expected_end: str | None
    slice: Tree | None
    payers: tuple[Tree, ...]
    loans: tuple[Tree, ...]
    returning_loans: tuple[Tree, ...]
    deficit: int
    scope: Tree | None
    refusal: Tree | None
    remedies: tuple[Tree, ...]
    contest: Tree | None
    dangers: tuple[Tree, ...]


class Explanation(Given, kw_only=True, frozen=True):
    """The state of a run, why, and which changes, each tried by dry run, would start it now."""

    run: str
    phase: str
    recorded_phase: str
    since: str
    queue_position: int | None
    queue_length: int
    queue: Tree | None
    refusal: Tree | None
    quotas: tuple[Tree, ...]
    refused_since: str | None
    reservation: Tree | None
    plan: Tree | None
    loans: tuple[Tree, ...]
    conflicts: tuple[Tree, ...]
    remedies: tuple[Tree, ...]


class Shown(Given, kw_only=True, frozen=True):
    """The first resources of a kind, and how many there are."""

    count: int
    items: tuple[Tree, ...]


class Picture(Given, kw_only=True, frozen=True):
    """The state of a run (``forecast``), or of reservations or a pool, as of a sequence."""

    as_of: str
    sequence: int
    forecast: Forecast | UnsetType = UNSET
    reservations: Shown | UnsetType = UNSET
    open_conflicts: Shown | UnsetType = UNSET
    running: Shown | UnsetType = UNSET
    queue: Shown | UnsetType = UNSET


class EventTold(Struct, kw_only=True, frozen=True):
    """One event; further fields are those of its ``tag``: docs/reference/events.md."""

    seq: int
    tag: str
    at_ms: int
    actor: str


class InBlock(Given, kw_only=True, frozen=True):
    """The block that holds an event."""

    height: int
    hash: str


class EventListed(EventTold, kw_only=True, frozen=True):
    """One event, and the block that holds it."""

    block: InBlock


class Events(Given, kw_only=True, frozen=True):
    """Events in order; ask from ``next`` to read on. None, or few, need not be the end.

    A page reads a bounded number of events, of which the caller may not see all.
    """

    items: tuple[EventListed, ...]
    next: int


class Head(Given, kw_only=True, frozen=True):
    """The end of the ledger."""

    height: int
    sequence: int
    hash: str


class Agreed(Given, kw_only=True, frozen=True):
    """A checkpoint that agrees with the ledger."""

    file: str
    sequence: int
    hash: str


class Verification(Given, kw_only=True, frozen=True):
    """Everything that was checked holds; anything that does not is an error instead.

    ``end_known`` is false where no record of the end is kept apart from the log: one that was cut
    short would verify just the same.
    """

    verifies: bool
    deep: bool
    events: int
    blocks: int
    head: Head
    checkpoints: tuple[Agreed, ...]
    receipts: tuple[str, ...]
    end_known: bool


class Checkpoint(Struct, kw_only=True, frozen=True):
    """The end of the ledger, signed. Keep it where the holder of the ledger cannot change it."""

    kind: str
    ledger_id: str
    height: int
    seq: int
    hash: str
    at_ms: int
    public_key: str
    signature: str


class ExportedBlock(Struct, kw_only=True, frozen=True):
    """One line of an export: docs/reference/export.md."""

    format: str
    height: int
    first_seq: int
    count: int
    prev_hash: str
    hash: str
    body: str
    events: tuple[EventTold, ...]


class Lottery(Given, kw_only=True, frozen=True):
    """The committed chain, and how far it is revealed; null where there is none."""

    commitment: str | None
    length: int
    next_index: int | None
    link: str | None
    revealed: int
    open_conflicts: tuple[str, ...]


class Redrawn(Given, kw_only=True, frozen=True):
    """Every lottery gives the published result; anything else is an error instead."""

    verifies: bool
    events: int
    conflicts: int
    lotteries: int
    draws: int


Calculated = dict[str, Any]
"""What a calculation answers: docs/reference/calc.md."""
