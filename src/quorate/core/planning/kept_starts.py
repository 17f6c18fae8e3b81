"""Reuses starts that the previous walk has found, if a search would find them again.

Most planned starts stay the same when another run starts or ends. If only a lack of room delays a
start, a search finds the start again under three conditions:

- The domains of the start still have room.
- No domain that may have gained GPUs (``GainedRooms``) has room earlier.
- The payers of the start can pay.

Under these conditions the search is skipped. The plan is the same as without kept starts:
``tests/property/test_kept_starts.py`` and the invariants compare the two plans.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from quorate.core.planning.start_ask import Ask
from quorate.core.planning.start_search import Searcher
from quorate.core.profile.gained_rooms import GainedRooms, KeptPlan, KeptStart
from quorate.core.profile.plan_entry import Entry, shares_of
from quorate.core.profile.profile import Profile
from quorate.model.specs import EnvelopeId, Run
from quorate.model.state.free_slots import IslandKey
from quorate.model.state.state_view import StateView

_NOTHING: Final = KeptPlan(0, has_executor=False)


class KeptStarts:
    """The starts that a queue walk takes over from the previous walk, and keeps for the next."""

    __slots__ = ("_gains", "_profile", "_search")

    def __init__(self, profile: Profile, search: Searcher) -> None:
        self._profile = profile
        self._search = search
        former, changed = profile.view.room_index.last_plan()
        made = KeptPlan(profile.now_ms, has_executor=search.has_executor)
        view, paying = profile.view, set[EnvelopeId]()
        if former is None or former.now_ms > profile.now_ms or not _is_plain(view):
            former, changed = _NOTHING, set[IslandKey]()
        elif view.window_opened(former.now_ms, profile.now_ms):
            former, changed = _NOTHING, set[IslandKey]()  # A payer may have become able to pay.
        else:
            paying = view.room_index.payers_since_plan()
        self._gains = profile.gains = GainedRooms(former, made, changed, paying)

    def find(self, run: Run) -> Entry | None:
        """Return the earliest start of ``run`` from now on; None if there is none."""
        gains = self._gains
        known = gains.former.starts.get(run.name)
        if known is not None and not gains.comes_sooner(known.placed):
            gains.up_to(known.placed)
            found = self._again(run, known)
            if found is not None:
                gains.made.starts[run.name] = KeptStart(known.ask, found, len(gains.made.placed))
                return found
        entry, ask = self._search.find_by(run, self._profile.now_ms)
        if entry is not None and ask is not None and entry.start_ms > self._profile.now_ms:
            gains.made.starts[run.name] = KeptStart(ask, entry, len(gains.made.placed))
        return entry

    @property
    def found(self) -> Mapping[str, KeptStart]:
        """The starts of this walk, by run, that only a lack of room delays."""
        return self._gains.made.starts

    def keep(self) -> None:
        """Keep the plan for the next walk, which must have the same domains."""
        view = self._profile.view
        if _is_plain(view):
            view.room_index.keep_plan(self._gains.made)

    def _again(self, run: Run, known: KeptStart) -> Entry | None:
        """Return the kept start of ``run`` if a search would certainly find it again, or None."""
        ask, entry, placed = known
        assert isinstance(ask, Ask), ask
        search = self._search
        if entry.start_ms <= self._profile.now_ms:
            return None
        if search.asks.of(run, run.flavors[0], run.gpus) is not ask:
            return None
        pool, flavor = entry.pool, entry.slice.flavor
        there = [IslandKey(pool, flavor, each) for each, _ in entry.slice.domains]
        gains, returns = self._gains, self._profile.returns
        is_alike = gains.is_at(placed) and gains.are_rooms_alike(there, returns)
        if not (
            self._is_first(ask, entry, there[0], is_alike=is_alike)
            if ask.in_one
            else self._is_first_spread(ask, entry)
        ):
            return None
        if is_alike and gains.are_payers_alike(ask.phases[-1], returns):
            return entry
        numbers, domains = ask.sites.everywhere.numbers, ask.sites.everywhere.domains
        legs = search.paid_again(ask, [domains[numbers[key]] for key in there], entry)
        if legs is None:
            return None
        shares = shares_of(legs)
        return entry if shares == entry.shares else replace(entry, shares=shares)

    def _is_first(self, ask: Ask, entry: Entry, place: IslandKey, *, is_alike: bool) -> bool:
        """Return whether ``entry`` is still the first start in one domain.

        If several starts are equally early, the one in the domain with the lowest number is first.
        ``is_alike`` says that ``place``, the domain of ``entry``, has not changed since the start
        was found.
        """
        gpus, duration_ms, start_ms = ask.gpus, ask.duration_ms, entry.start_ms
        room_of, now_ms = self._profile.room, self._profile.now_ms
        numbers = ask.sites.everywhere.numbers
        for key in self._gains.rooms:
            number = numbers.get(key)
            if number is None or key == place:
                continue
            at_ms = room_of(key).earliest(gpus, duration_ms, now_ms)
            if at_ms is not None and (at_ms, number) < (start_ms, numbers[place]):
                return False
        return is_alike or room_of(place).earliest(gpus, duration_ms, now_ms) == start_ms

    def _is_first_spread(self, ask: Ask, entry: Entry) -> bool:
        """Return whether ``entry``, divided among domains, is still the first start.

        ``entry`` is still first if no domain that may have gained GPUs has room for a part of the
        run at this start or before. All domains together then have room for no more parts than
        before.
        """
        gpus, duration_ms = ask.parts.gpus + ask.parts.extra, ask.duration_ms
        room_of, now_ms = self._profile.room, self._profile.now_ms
        numbers = ask.sites.everywhere.numbers
        for key in self._gains.rooms:
            if key in numbers:
                at_ms = room_of(key).earliest(gpus, duration_ms, now_ms)
                if at_ms is not None and at_ms <= entry.start_ms:
                    return False
        return True


def _is_plain(view: StateView) -> bool:
    """Return whether ``view`` has no filled spares and no hard quotas."""
    return not (view.pledges or view.lifted or view.holdings.has_bounds)
