"""The responses of operations on conflicts, beside those of all orders."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from quorate.operations.common_responses import Change, Given, Place, Tree


class Resolution(Given, kw_only=True, frozen=True):
    """The result of freeing GPUs by hand.

    A dry run has only the ``contest``: what would be cut, who would enter with which odds, and a
    dummy draw. Otherwise it has all fields of an outcome.
    """

    dry_run: bool
    contest: Tree | UnsetType = UNSET
    changes: tuple[Change, ...] | UnsetType = UNSET
    warnings: tuple[str, ...] | UnsetType = UNSET
    events: tuple[Tree, ...] | UnsetType = UNSET
    head: Place | UnsetType = UNSET
