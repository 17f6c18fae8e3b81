"""Compares all content of two states, index by index, and returns differences as text.

``same`` has no list of tables: it goes through all slots of a ``State``, so that a table added
later is compared without a change here. Two differences are ignored: an index entry that is empty
in one state may be missing in the other, and a heap of hold ends may have outdated entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import asdict

from quorate.model.state.domain_index import DomainIndex
from quorate.model.state.records import RunRecord
from quorate.model.state.state import SLOTS, State

# These fields record how far an index is up to date; reading the index changes them.
_MARKS: Final = frozenset({"_stale", "_pending_free", "_pending_nodes", "leases_indexed"})
_SPECIAL: Final = frozenset(
    {
        "_below",
        "_crossings",
        "_follower_index",
        "_holdings",
        "_line_ranks",
        "_soft",
        "_waiting",
        "ask_cache",
        "ends_cache",
        "family_cache",
        "owed_cache",
        "_holds_due",
        "_holds_ending",
        "_listed_end_ms",
        "_listed_renew_ms",
        "_openings",
        "room_index",
    }
)
_INDEXES: Final = frozenset(
    {
        "children",
        "owner_budgets",
        "lenders",
        "_node_leases",
        "_owner_leases",
        "_payer_leases",
        "_domains",
    }
)


def same(one: State, other: State) -> list[str]:
    """Return the differences between two states, one line for each entry; empty if none.

    Both placement indexes are brought up to date first, which has no visible effect.
    """
    for state in (one, other):
        state.overlay()  # which brings every index up to date
    found: list[str] = []
    for name in sorted(SLOTS):
        if name in _SPECIAL or name in _MARKS:
            continue
        mine, theirs = getattr(one, name), getattr(other, name)
        if isinstance(mine, Mapping):
            found += _entries(name, mine, theirs)
        elif mine != theirs:
            found.append(f"{name}: {mine!r} is not {theirs!r}")
    if _hold_ends(one) != _hold_ends(other):
        found.append(f"hold ends: {_hold_ends(one)} are not {_hold_ends(other)}")
    if one.holdings.held() != other.holdings.held():
        found.append(f"holdings: {one.holdings.held()} are not {other.holdings.held()}")
    for key in one.family_cache.keys() & other.family_cache.keys():
        if one.family_cache[key] != other.family_cache[key]:
            found.append(f"payers of {key}: {one.family_cache[key]}, {other.family_cache[key]}")
    return found


def _entries(name: str, mine: Mapping[Any, Any], theirs: Mapping[Any, Any]) -> list[str]:
    if name in _INDEXES:
        mine = {key: plain for key, value in mine.items() if (plain := _plain(value))}
        theirs = {key: plain for key, value in theirs.items() if (plain := _plain(value))}
    found = [f"{name}[{key}]: missing in the second" for key in mine if key not in theirs]
    found += [f"{name}[{key}]: missing in the first" for key in theirs if key not in mine]
    for key in mine:
        if key in theirs and (left := _plain(mine[key])) != (right := _plain(theirs[key])):
            found.append(f"{name}[{key}]: {left} is not {right}")
    return found


def _plain(value: Any) -> Any:
    """Return ``value`` in a form that is equal for equal content."""
    if isinstance(value, DomainIndex):
        return [*value.most_free(), value.gpus_total] if value.keys else []
    if isinstance(value, RunRecord):
        # Leases are ended in this order, so decisions depend on the order.
        return asdict(value) | {"leases": list(value.leases)}
    return value


def _hold_ends(state: State) -> dict[str, tuple[bool, bool]]:
    """Return whether the heaps have the renewal and the end of the hold of each open lease."""
    due, ending = set(state.holds_due()), set(state.holds_ending())
    return {
        name: ((lease.renew_ms, name) in due, (lease.hold_ends_ms, name) in ending)
        for name, lease in state.leases.items()
    }
