"""Which rooms may have more free GPUs than when the previous walk searched them.

A walk leaves behind the entries of its profile, in order, and the starts that it found
(``KeptPlan``). The next walk compares its own entries with those: a room has gained if an entry of
the former plan is missing, or if an event concerned its domain since. In all other rooms no start
is possible that was not possible then: as time passes leases are only expected to end later, and
other planned entries only take more. So a start that was found then is still the first one if the
rooms that gained have none before it. docs/design/planning.md.

Of most rooms and payers, nothing is different at all: nothing has happened to them, no lease has
outlasted its expected end, and what is planned of them so far is what was planned then. They are
``alike``, and what was found of them then need not be found again.
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
"""By how many places at once a walk goes on in the former plan where places of it are missing.

A run whose place is further ahead is taken to be called up sooner than then.
"""


class KeptStart(NamedTuple):
    """A start that a walk found; only room kept the run from an earlier one.

    ``ask`` is the run's request; ``placed`` is how many entries were in the profile before it.
    """

    ask: object
    entry: Entry
    placed: int


Base = tuple[int, Kept]
"""The free GPUs of a domain, and the ends of its leases."""


class Funded(NamedTuple):
    """Payers could pay at once for ``ask``; none of their windows closes before ``until_ms``."""

    ask: object
    until_ms: int


class Returns(Protocol):
    """Says whether leases have passed an end that was expected of them since an instant."""

    def is_room_outlasted(self, key: IslandKey, since_ms: int) -> bool:
        """Return whether a lease of a room has."""
        ...

    def is_payer_outlasted(self, key: EnvelopeId, since_ms: int) -> bool:
        """Return whether a lease of a payer has."""
        ...


class KeptPlan:
    """The entries that a walk at ``now_ms`` put in, in order, and the starts that it found."""

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
        """Where in ``placed`` the last place of each run is."""
        self.lifted: set[str] = set()
        """The runs whose places were lifted, put back or not."""
        self.starts: dict[str, KeptStart] = {}
        self.stood: dict[str, Entry] = {}
        """The firm places, by run, that had all they need when they were put in."""
        self.funded: dict[str, Funded] = {}
        """The runs for which payers could pay at once, and to which nothing had happened."""


class GainedRooms:
    """What may be different since the ``former`` plan, updated as a walk inserts entries.

    ``made`` is the plan that the walk makes. ``changed`` and ``paying`` are the domains and the
    payers that events have concerned since the former one.
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
        """How many places of the former plan the walk has come past."""
        self._present: dict[str, Entry] = {}
        self._lifted: tuple[Entry, int, int] | None = None
        """What was lifted last, and how many places and starts there were then."""
        self._missing: dict[tuple[str, int, int], Entry] = {}
        self.rooms: dict[IslandKey, int] = dict.fromkeys(self._changed, 1)
        """The rooms that may have gained, and for how many reasons."""
        self._payers: dict[EnvelopeId, int] = {}
        """The payers of places that are missing, and of how many."""
        self._new: dict[str, Entry] = {}
        """What is put in that is not in the former plan, or not up to here, by run."""
        self._unlike: set[IslandKey | EnvelopeId] = set()
        """The rooms and payers of such places."""

    def base_of(self, key: IslandKey) -> Base | None:
        """Return the base of a room that no event has concerned since; None if it is not known."""
        return None if key in self._changed else self.former.rooms.get(key)

    def put(self, entry: Entry) -> None:
        """Note that ``entry`` is inserted.

        If the former plan had the same entry, it is not missing.
        """
        run, made = entry.run, self.made
        if self._lifted == (entry, len(made.placed), len(made.starts)):
            # Nothing was put in or found meanwhile: it is as if it had stayed.
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
        """Note that ``entry`` is back in the place from which it was just lifted."""
        self._lifted = None
        self.made.lifted.discard(entry.run)
        self._present[entry.run] = entry
        self._find_missing(entry)

    def _find_missing(self, entry: Entry) -> None:
        """Note that ``entry`` is not missing any more, if it was."""
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
        """Note that ``entry`` is removed: its rooms gain until it is inserted again."""
        made = self.made
        if entry.run not in made.lifted:
            made.lifted.add(entry.run)
            self._lifted = (entry, len(made.placed), len(made.starts))
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
            elif present.shares != entry.shares:
                self._pays_otherwise(entry)

    def is_at(self, placed: int) -> bool:
        """Return whether the walk has come just as far as it had with ``placed`` places then.

        If so, all that is planned differently up to here is known.
        """
        return self._at == placed

    def comes_sooner(self, placed: int) -> bool:
        """Return whether most places up to ``placed`` of the former plan are still to come."""
        if placed <= self._at + STEP_MAX:
            return False
        ahead = self.former.placed[self._at : placed]
        starts, present = self.former.starts, self._present
        waiting = sum(each.run in starts and each.run not in present for each in ahead)
        return 2 * waiting > len(ahead)

    def _was_placed(self, entry: Entry) -> bool:
        """Return whether the former plan had ``entry`` in its place up to here, all the while."""
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
        """Return whether rooms are as they were in the former plan when as much was put in."""
        return self.rooms.keys().isdisjoint(keys) and self._have_no_less(keys, returns)

    def are_payers_alike(self, payers: Payers, returns: Returns) -> bool:
        """Return whether payers are as they were in the former plan when as much was put in."""
        keys = [key for key, _ in payers]
        return self._payers.keys().isdisjoint(keys) and self._pay_no_less(keys, returns)

    def are_untouched(self, payers: Payers, changed: AbstractSet[EnvelopeId]) -> bool:
        """Return whether nothing has happened to ``payers``, and none of them is in ``changed``."""
        keys = [key for key, _ in payers]
        return self._paying.isdisjoint(keys) and changed.isdisjoint(keys)

    def has_no_less(self, pin: Entry, returns: Returns) -> bool:
        """Return whether a firm place has no less than it had when it was put in then.

        Called when the entry is about to be inserted.
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
            and self._pay_no_less([share.payer for share in pin.shares], returns)
        )

    def _have_no_less(self, keys: Collection[IslandKey], returns: Returns) -> bool:
        """Return whether nothing more is planned of rooms, and no lease lasts longer than said."""
        if not self._unlike.isdisjoint(keys):
            return False
        since_ms = self.former.now_ms
        return not any(returns.is_room_outlasted(key, since_ms) for key in keys)

    def _pay_no_less(self, keys: Collection[EnvelopeId], returns: Returns) -> bool:
        """Return the same of payers to which nothing has happened."""
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
        """Note that the payers of ``entry`` pay for something else than then."""
        self._unlike.update(share.payer for share in entry.shares)


def _count_out(counts: dict[K, int], keys: Iterable[K]) -> None:
    """Count each of ``keys`` one less; what comes to nothing is left out."""
    for key in keys:
        left = counts[key] - 1
        if left:
            counts[key] = left
        else:
            del counts[key]


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


def rooms_of(entry: Entry) -> list[IslandKey]:
    """Return the rooms of which ``entry`` takes GPUs."""
    pool, flavor = entry.pool, entry.slice.flavor
    return [IslandKey(pool, flavor, domain) for domain, _ in entry.slice.domains]
