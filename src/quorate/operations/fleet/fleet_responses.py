"""What operations on conflicts give beside what all orders do."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from quorate.operations.common_responses import Change, Given, Place, Tree


class Resolution(Given, kw_only=True, frozen=True):
    """What came of asking for room.

    A dry run has only the ``contest``: what would be cut, who would enter with which odds, and a
    dummy draw. Otherwise there is all that an outcome has.
    """

    dry_run: bool
    contest: Tree | UnsetType = UNSET
    changes: tuple[Change, ...] | UnsetType = UNSET
    warnings: tuple[str, ...] | UnsetType = UNSET
    events: tuple[Tree, ...] | UnsetType = UNSET
    head: Place | UnsetType = UNSET
