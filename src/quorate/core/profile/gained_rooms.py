"""Tracks which rooms (domains of a flavor) may have gained free GPUs since the previous walk.

A queue walk keeps the entries of its profile, in order, and the starts that it found
(``KeptPlan``). The next walk compares its own entries with the kept ones. A room may have gained
GPUs if a kept entry in the room is missing in the next walk, or if an event has concerned its
domain since.
In every other room, the number of free GPUs can only be smaller than before: overdue leases are
expected to end later, and new entries take more. So a kept start is still the earliest one if no
room that may have gained GPUs offers an earlier start. See docs/design/planning.md.

Most rooms and payers are unchanged, and are then called *alike*. A room or payer is alike under
three conditions:

- No event has concerned the room or payer.
- None of its leases has outlasted its expected end.
- Up to the same point of both walks, the plan takes the same amounts of the room or payer.

Results that depend only on alike rooms and payers are reused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, Protocol, TypeVar

from quorate.core.profile.plan_entry import Entry
from quorate.model.specs import EnvelopeId
from quorate.model.state.expected_ends import Kept
from quorate.model.state.free_slots import IslandKey
from quorate.model.state.reads.money_reads import Payers

K = TypeVar("K")

STEP_MAX: Final = 8
"""The most entries of the former plan that are skipped at once to find the entry of a run.

If the entry is further ahead, this walk visits the run earlier than the former walk did.
"""


class KeptStart(NamedTuple):
    """A start that only a lack of room delayed.

    ``ask`` is the run's request. ``placed`` is the number of entries that the walk had put into the
    profile before it found the start.
    """

    ask: object
    entry: Entry
    placed: int


Base = tuple[int, Kept]
"""The free GPUs of a domain, and the ends of its leases."""


class Funded(NamedTuple):
    """The payers of ``ask`` could pay for it at once; their windows last until ``until_ms``."""

    ask: object
    until_ms: int


class Returns(Protocol):
    """Says whether leases have outlasted their expected ends since an instant."""

    def with_capped(self, payers: Collection[EnvelopeId]) -> Collection[EnvelopeId]:
        """Return ``payers`` and the other payers under their caps."""
        ...

    def is_room_outlasted(self, key: IslandKey, since_ms: int) -> bool:
        """Return whether a lease in a room has outlasted its expected end."""
        ...

    def is_payer_outlasted(self, key: EnvelopeId, since_ms: int) -> bool:
        """Return whether a lease of a payer has outlasted its expected end."""
        ...


class KeptPlan:
    """The entries in the profile of a walk at ``now_ms``, in order, and the starts it found."""

    __slots__ = (
        "funded",
        "has_executor",
        "indexes",
        "lifted",
        "now_ms",
        "placed",
        "rooms",
        "starts",
        "stood",
    )

    def __init__(self, now_ms: int, *, has_executor: bool) -> None:
        self.now_ms = now_ms
        self.has_executor = has_executor
        self.rooms: dict[IslandKey, Base] = {}
        self.placed: list[Entry] = []
        self.indexes: dict[str, int] = {}
        """The index of each run's last entry in ``placed``."""
        self.lifted: set[str] = set()
        """The runs whose entries were removed from the profile, even if inserted again later."""
        self.starts: dict[str, KeptStart] = {}
        self.stood: dict[str, Entry] = {}
        """The firm starts, by run, that had all they need when they were put into the profile."""
        self.funded: dict[str, Funded] = {}
        """The requests, by run, whose payers could pay at once and had no event since the former
        walk."""


class GainedRooms:
    """The differences so far between the ``former`` plan and ``made``, the plan of this walk.

    ``changed`` are the domains, and ``paying`` the payers, that events have concerned since the
    former plan.
    """

    __slots__ = (
        "_at",
        "_changed",
        "_lifted",
        "_missing",
        "_new",
        "_payers",
        "_paying",
        "_present",
        "_unlike",
        "former",
        "made",
        "rooms",
    )

    def __init__(
        self,
        former: KeptPlan,
        made: KeptPlan,
        changed: Iterable[IslandKey] = (),
        paying: Iterable[EnvelopeId] = (),
    ) -> None:
        self.former = former
        self.made = made
        self._changed = frozenset(changed)
        self._paying = frozenset(paying)
        self._at = 0
        """The number of entries of the former plan that the walk has passed."""
        self._present: dict[str, Entry] = {}
        self._lifted: tuple[Entry, int, int] | None = None
        """The entry that was removed last, and the numbers of entries and starts at that moment."""
        self._missing: dict[tuple[str, int, int], Entry] = {}
        self.rooms: dict[IslandKey, int] = dict.fromkeys(self._changed, 1)
        """The rooms that may have gained GPUs, each with the number of reasons."""
        self._payers: dict[EnvelopeId, int] = {}
        """The payers of missing entries, each with the number of these entries."""
        self._new: dict[str, Entry] = {}
        """The entries, by run, that the former plan does not have, or has only later."""
        self._unlike: set[IslandKey | EnvelopeId] = set()
        """The rooms and payers of the entries in ``_new``."""

    def base_of(self, key: IslandKey) -> Base | None:
        """Return the free GPUs and the lease ends that were kept for a room.

        Return None if none were kept, or if an event has concerned the room since.
        """
        return None if key in self._changed else self.former.rooms.get(key)

    def put(self, entry: Entry) -> None:
        """Note that ``entry`` is inserted.

        If the former plan had the same entry, that entry is not missing.
        """
        run, made = entry.run, self.made
        if self._lifted == (entry, len(made.placed), len(made.starts)):
            # The plan has not changed since the removal, so the removal does not count.
            self._put_back(entry)
            return
        made.indexes[run] = len(made.placed)
        made.placed.append(entry)
        self._present[run] = entry
        if not self._was_placed(entry) and self._new.get(run) is not entry:
            self._new[run] = entry
            self._unlike.update(rooms_of(entry))
            self._pays_otherwise(entry)
        self._find_missing(entry)

    def _put_back(self, entry: Entry) -> None:
        """Note that ``entry``, which was removed last, is inserted again."""
        self._lifted = None
        self.made.lifted.discard(entry.run)
        self._present[entry.run] = entry
        self._find_missing(entry)

    def _find_missing(self, entry: Entry) -> None:
        """Note that ``entry`` is no longer missing, if it was missing."""
        if not self._missing:
            return
        run = entry.run
        missing = self._missing.get((run, entry.start_ms, entry.end_ms))
        if missing is not None and _is_same(missing, entry):
            del self._missing[run, entry.start_ms, entry.end_ms]
            _count_out(self.rooms, rooms_of(missing))
            _count_out(self._payers, [share.payer for share in missing.shares])
            if missing.shares != entry.shares:
                self._pays_otherwise(missing)

    def lift(self, entry: Entry) -> None:
        """Note that ``entry`` is removed: its rooms gain GPUs until it is inserted again."""
        made = self.made
        if entry.run not in made.lifted:
            made.lifted.add(entry.run)
            self._lifted = (entry, len(made.placed), len(made.starts))
        self._present.pop(entry.run, None)
        self._miss(entry)

    def up_to(self, placed: int) -> None:
        """Go past the former plan's first ``placed`` entries, and note those that are missing."""
        while self._at < placed:
            entry = self.former.placed[self._at]
            self._at += 1
            present = self._present.get(entry.run)
            if present is None or not _is_same(entry, present):
                self._miss(entry)
            elif present.shares != entry.shares:
                self._pays_otherwise(entry)

    def is_at(self, placed: int) -> bool:
        """Return whether the walk is exactly past the former plan's first ``placed`` entries.

        If so, all differences up to this point are known.
        """
        return self._at == placed

    def comes_sooner(self, placed: int) -> bool:
        """Return whether a run is visited much earlier than in the former walk.

        If so, most of the former plan's first ``placed`` entries are not passed yet.
        """
        if placed <= self._at + STEP_MAX:
            return False
        ahead = self.former.placed[self._at : placed]
        starts, present = self.former.starts, self._present
        waiting = sum(each.run in starts and each.run not in present for each in ahead)
        return 2 * waiting > len(ahead)

    def _was_placed(self, entry: Entry) -> bool:
        """Return whether the former plan also had ``entry``, at about the same point."""
        former = self.former
        index = former.indexes.get(entry.run)
        if index is None or entry.run in former.lifted:
            return False
        if index > self._at + STEP_MAX:
            return False
        self.up_to(index + 1)
        then = former.placed[index]
        return then is entry or (_is_same(then, entry) and then.shares == entry.shares)

    def are_rooms_alike(self, keys: Collection[IslandKey], returns: Returns) -> bool:
        """Return whether rooms are unchanged since the same point of the former walk."""
        return self.rooms.keys().isdisjoint(keys) and self._have_no_less(keys, returns)

    def are_payers_alike(self, payers: Payers, returns: Returns) -> bool:
        """Return whether payers are unchanged since the same point of the former walk."""
        keys = [key for key, _ in payers]
        return self._payers.keys().isdisjoint(keys) and self._pay_no_less(keys, returns)

    def are_untouched(self, payers: Payers, changed: AbstractSet[EnvelopeId]) -> bool:
        """Return whether no event has concerned ``payers``, and none of them is in ``changed``."""
        keys = [key for key, _ in payers]
        return self._paying.isdisjoint(keys) and changed.isdisjoint(keys)

    def has_no_less(self, pin: Entry, returns: Returns) -> bool:
        """Return whether a firm start certainly has as much room and money as in the former walk.

        The comparison is with the same point of the former walk. The caller is about to insert the
        firm start ``pin``.
        """
        index = self.former.indexes.get(pin.run)
        if index is None or pin.run in self.former.lifted or index > self._at + STEP_MAX:
            return False
        self.up_to(index)
        if self._at != index:
            return False
        keys = rooms_of(pin)
        return (
            self._changed.isdisjoint(keys)
            and self._have_no_less(keys, returns)
            and self._pay_no_less(
                returns.with_capped([share.payer for share in pin.shares]), returns
            )
        )

    def _have_no_less(self, keys: Collection[IslandKey], returns: Returns) -> bool:
        """Return whether rooms have no new entries and no leases that outlasted expected ends."""
        if not self._unlike.isdisjoint(keys):
            return False
        since_ms = self.former.now_ms
        return not any(returns.is_room_outlasted(key, since_ms) for key in keys)

    def _pay_no_less(self, keys: Collection[EnvelopeId], returns: Returns) -> bool:
        """Return whether payers have no new events, no new entries and no outlasted leases."""
        if not (self._paying.isdisjoint(keys) and self._unlike.isdisjoint(keys)):
            return False
        since_ms = self.former.now_ms
        return not any(returns.is_payer_outlasted(key, since_ms) for key in keys)

    def _miss(self, entry: Entry) -> None:
        key = (entry.run, entry.start_ms, entry.end_ms)
        known = self._missing.setdefault(key, entry)
        if known is entry or known.slice != entry.slice:
            for room in rooms_of(entry):
                self.rooms[room] = self.rooms.get(room, 0) + 1
            for share in entry.shares:
                self._payers[share.payer] = self._payers.get(share.payer, 0) + 1
        elif known.shares != entry.shares:
            self._pays_otherwise(entry)

    def _pays_otherwise(self, entry: Entry) -> None:
        """Note that the payers of ``entry`` pay for other entries than in the former plan."""
        self._unlike.update(share.payer for share in entry.shares)


def _count_out(counts: dict[K, int], keys: Iterable[K]) -> None:
    """Lower the count of each of ``keys`` by one, and remove keys whose count is then 0."""
    for key in keys:
        left = counts[key] - 1
        if left:
            counts[key] = left
        else:
            del counts[key]


def _is_same(one: Entry, other: Entry) -> bool:
    """Return whether two entries of a run certainly take the same GPUs of the same rooms.

    Some entries do not always take the same GPUs. A start by a conflict takes only GPUs that other
    entries leave. If an entry needs specific racks or node sizes (``is_choosy``) or keeps GPUs
    free, the GPUs that it takes depend on its domain.
    """
    is_counted = not (one.by_conflict or one.is_choosy or one.keeps)
    return (
        is_counted
        and not (other.by_conflict or other.is_choosy or other.keeps)
        and one.start_ms == other.start_ms
        and one.end_ms == other.end_ms
        and one.slice == other.slice
    )


def rooms_of(entry: Entry) -> list[IslandKey]:
    """Return the rooms from which ``entry`` takes GPUs."""
    pool, flavor = entry.pool, entry.slice.flavor
    return [IslandKey(pool, flavor, domain) for domain, _ in entry.slice.domains]
