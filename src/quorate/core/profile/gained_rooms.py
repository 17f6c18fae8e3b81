"""Which rooms may have more free GPUs than when the previous walk searched them.

A walk leaves behind the entries of its profile, in order, and the starts that it found
(``KeptPlan``). The next walk compares its own entries with those: a room has gained if an entry of
the former plan is missing, or if an event concerned its domain since. In all other rooms no start
is possible that was not possible then: as time passes leases are only expected to end later, and
other planned entries only take more. So a start that was found then is still the first one if the
rooms that gained have none before it. docs/design/planning.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from quorate.core.profile.plan_entry import Entry
from quorate.model.state.expected_ends import Kept
from quorate.model.state.free_slots import IslandKey


class KeptStart(NamedTuple):
    """A start that a walk found; only room kept the run from an earlier one.

    ``ask`` is the run's request; ``placed`` is how many entries were in the profile before it.
    """

    ask: object
    entry: Entry
    placed: int


Base = tuple[int, Kept]
"""The free GPUs of a domain, and the ends of its leases."""


class KeptPlan:
    """The entries that a walk at ``now_ms`` put in, in order, and the starts that it found."""

    __slots__ = ("has_executor", "now_ms", "placed", "rooms", "starts")

    def __init__(self, now_ms: int, *, has_executor: bool) -> None:
        self.now_ms = now_ms
        self.has_executor = has_executor
        self.rooms: dict[IslandKey, Base] = {}
        self.placed: list[Entry] = []
        self.starts: dict[str, KeptStart] = {}


class GainedRooms:
    """The rooms that may have gained since the ``former`` plan, updated as a walk inserts entries.

    ``made`` is the plan that the walk makes. ``changed`` are the domains that events have concerned
    since the former one.
    """

    __slots__ = ("_at", "_changed", "_missing", "_present", "former", "made", "rooms")

    def __init__(
        self, former: KeptPlan, made: KeptPlan, changed: Collection[IslandKey] = ()
    ) -> None:
        self.former = former
        self.made = made
        self._changed = changed
        self._at = 0
        self._present: dict[str, Entry] = {}
        self._missing: dict[tuple[str, int, int], Entry] = {}
        self.rooms: dict[IslandKey, int] = dict.fromkeys(changed, 1)
        """The rooms that may have gained, and for how many reasons."""

    def base_of(self, key: IslandKey) -> Base | None:
        """Return the base of a room that no event has concerned since; None if it is not known."""
        return None if key in self._changed else self.former.rooms.get(key)

    def put(self, entry: Entry) -> None:
        """Note that ``entry`` is put in; the same entry of the former plan is then not missing."""
        self.made.placed.append(entry)
        self._present[entry.run] = entry
        key = (entry.run, entry.start_ms, entry.end_ms)
        missing = self._missing.get(key)
        if missing is not None and _is_same(missing, entry):
            del self._missing[key]
            for room in rooms_of(entry):
                left = self.rooms[room] - 1
                if left:
                    self.rooms[room] = left
                else:
                    del self.rooms[room]

    def lift(self, entry: Entry) -> None:
        """Note that ``entry`` is removed: its rooms gain until it is inserted again."""
        self._present.pop(entry.run, None)
        self._miss(entry)

    def up_to(self, placed: int) -> None:
        """Count as missing those of the former plan's first ``placed`` entries not put in."""
        while self._at < placed:
            entry = self.former.placed[self._at]
            self._at += 1
            present = self._present.get(entry.run)
            if present is None or not _is_same(entry, present):
                self._miss(entry)

    def _miss(self, entry: Entry) -> None:
        key = (entry.run, entry.start_ms, entry.end_ms)
        known = self._missing.setdefault(key, entry)
        if known is entry or known.slice != entry.slice:
            for room in rooms_of(entry):
                self.rooms[room] = self.rooms.get(room, 0) + 1


def _is_same(one: Entry, other: Entry) -> bool:
    """Return whether two entries of a run certainly take the same GPUs of the same rooms.

    A start by a conflict takes what others leave; a choosy entry, or one that keeps GPUs free,
    depends on its domain.
    """
    is_counted = not (one.by_conflict or one.is_choosy or one.keeps)
    return (
        is_counted
        and not (other.by_conflict or other.is_choosy or other.keeps)
        and one.start_ms == other.start_ms
        and one.end_ms == other.end_ms
        and one.slice == other.slice
    )


def rooms_of(entry: Entry) -> Iterable[IslandKey]:
    """Return the rooms of which ``entry`` takes GPUs."""
    pool, flavor = entry.pool, entry.slice.flavor
    return [IslandKey(pool, flavor, domain) for domain, _ in entry.slice.domains]
