"""Searches for the earliest start of one run in a profile.

The search counts GPUs by domain and payer (``counted_starts``). Counting is not enough if selectors
name racks, if a pool gives whole nodes of several sizes, or if a hard quota limits the nodes of
owners whose runs share nodes. In these cases admission tries each start in the state that is
expected at the start's instant (``expected_states``).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from quorate.core.admission.holds import expected_ms
from quorate.core.admission.payers import Leg
from quorate.core.admission.search_budget import SearchBudget
from quorate.core.planning.counted_starts import CountedStarts, Start
from quorate.core.planning.division import Placement, nodes_of, place_of_domain
from quorate.core.planning.expected_states import ExpectedStates
from quorate.core.planning.instants import (
    FIND_STEPS_MAX,
    critical_instants,
    ends_between,
    first_growing,
    last_end_ms,
)
from quorate.core.planning.room_now import RoomNow
from quorate.core.planning.start_ask import Ask, Asks
from quorate.core.planning.start_payers import StartPayers
from quorate.core.profile.firm_places import is_choosy
from quorate.core.profile.first_room import FirstRoom
from quorate.core.profile.plan_entry import Entry, shares_of, slice_of
from quorate.core.profile.profile import Profile
from quorate.core.profile.resource import FOREVER_MS
from quorate.model.events import Slice
from quorate.model.specs import Run
from quorate.model.state.room_index import Domain

ATTEMPT_STEPS: Final = 25
"""The number of search steps charged for one try of admission at a later instant."""


class Searcher:
    """Finds starts in one profile. All runs share its caches."""

    __slots__ = (
        "_expected",
        "_rooms",
        "asks",
        "counted",
        "has_executor",
        "now",
        "payers",
        "profile",
    )

    def __init__(self, profile: Profile, *, has_executor: bool) -> None:
        self.profile = profile
        self.has_executor = has_executor
        self.asks = Asks(profile.view, has_executor=has_executor)
        self.now = RoomNow(profile, self.asks)
        self.payers = StartPayers(profile)
        self._rooms = FirstRoom(profile)
        self.counted = CountedStarts(profile, self._rooms, self.payers)
        self._expected = ExpectedStates(profile)

    def find(self, run: Run, from_ms: int, steps: SearchBudget | None = None) -> Entry | None:
        """Return the earliest start of ``run`` from ``from_ms`` on; None if there is none.

        The start is the earliest instant at which the run's least width fits. The entry has the
        widest width that fits at that instant. If several flavors allow the same instant, the one
        that the run names first is used. Within a flavor, the first domain is used.
        """
        return self.find_by(run, from_ms, steps)[0]

    def find_by(
        self, run: Run, from_ms: int, steps: SearchBudget | None = None
    ) -> tuple[Entry | None, Ask | None]:
        """Return the earliest start, as ``find`` does, and the request that found it.

        Return None instead of the request in two cases: something other than a lack of room may
        have prevented an earlier start, or other payers may pay for the run later.
        """
        steps = SearchBudget(FIND_STEPS_MAX) if steps is None else steps
        *_, least = widths = run.widths()
        best: tuple[int, Ask, Start] | None = None
        for flavor in run.flavors:
            ask = self.asks.of(run, flavor, least)
            if self._is_hopeless(ask):
                continue
            found = self._start(ask, from_ms, steps, FOREVER_MS if best is None else best[0])
            if found is not None and (best is None or found[0] < best[0]):
                best = (found[0], ask, found)
        if best is None:
            return None, None
        start_ms, ask, (_, placement, legs, real_width, by_room) = best
        if ask.is_choosy:
            # The entry has the domains and the width that admission found in the expected state.
            width = least if real_width is None else real_width
            tried = self.asks.of(run, ask.request.flavor, width)
            return self.entry_of(tried, start_ms, placement, legs), None
        for width in widths[:-1]:
            wider = self.asks.of(run, ask.request.flavor, width)
            fitting = self.counted.fits(wider, start_ms, steps)
            if fitting is not None:
                return self.entry_of(wider, start_ms, *fitting), None
        entry = self.entry_of(ask, start_ms, placement, legs)
        is_alone = by_room and ask.is_plain and len(widths) == len(run.flavors) == 1
        is_alone = is_alone and not self.profile.view.holdings.has_bounds
        return entry, ask if is_alone else None

    def paid_again(self, ask: Ask, domains: Sequence[Domain], entry: Entry) -> Sequence[Leg] | None:
        """Return the payers for the GPUs of ``entry`` in ``domains``, computed again.

        ``ask`` is the request of the entry's run. Return None if its GPUs would now be divided
        differently among the domains, or if no payers can pay for them.
        """
        if ask.in_one:
            return self.payers.pay_plainly(
                ask, [(place_of_domain(domains[0]), ask.gpus)], entry.start_ms
            )
        found = self.counted.fits_in(ask, domains, entry.start_ms, SearchBudget(FIND_STEPS_MAX))
        if found is None:
            return None
        placement, legs = found
        divided = tuple((domain.key.domain, gpus) for domain, gpus in placement)
        return legs if divided == entry.slice.domains else None

    def is_hopeless(self, run: Run) -> bool:
        """Return whether ``run`` never has room, even when all leases have ended."""
        least = run.widths()[-1]
        return all(self._is_hopeless(self.asks.of(run, flavor, least)) for flavor in run.flavors)

    def is_choosy(self, run: Run) -> bool:
        """Return whether the start of ``run`` depends on which nodes other runs take."""
        least = run.widths()[-1]
        return any(self.asks.of(run, flavor, least).is_choosy for flavor in run.flavors)

    def _is_hopeless(self, ask: Ask) -> bool:
        gpus = ask.gpus if ask.in_one else ask.parts.gpus + ask.parts.extra
        return not self._rooms.left_alone(ask.sites.everywhere, gpus)

    def may_be_divided(self, run: Run) -> bool:
        """Return whether ``run`` may be divided among domains that have different payers.

        Counting tries only a few of these divisions, so counting may miss a possible start.
        """
        least = run.widths()[-1]
        for flavor in run.flavors:
            ask = self.asks.of(run, flavor, least)
            if not ask.in_one and len(ask.sites.by_payers) > 1:
                return True
        return False

    def fits_now(self, run: Run) -> bool:
        """Return whether counting finds a start of ``run`` now."""
        least = run.widths()[-1]
        asks = [self.asks.of(run, flavor, least) for flavor in run.flavors]
        if any(ask.in_one and self._fits_in_free(ask) for ask in asks):
            return True
        # Leases that are expected to end at exactly this instant are counted as ended, too.
        now_ms, steps = self.profile.now_ms, SearchBudget(FIND_STEPS_MAX)
        return any(self.counted.first(ask, now_ms, steps, now_ms + 1) is not None for ask in asks)

    def _fits_in_free(self, ask: Ask) -> bool:
        """Return whether, by counting, the request ``ask`` fits into domains with free GPUs now."""
        now_ms, steps = self.profile.now_ms, SearchBudget(FIND_STEPS_MAX)
        return any(
            self.counted.fits_in(ask, self.now.domains_of(site), now_ms, steps) is not None
            for _, site in ask.sites.by_payers
        )

    def next_change_ms(self, run: Run, after_ms: int) -> int | None:
        """Return the next instant after ``after_ms`` when more may be free for ``run``, or None."""
        least = run.widths()[-1]
        found = (self._next_change(self.asks.of(run, f, least), after_ms) for f in run.flavors)
        return min((at_ms for at_ms in found if at_ms is not None), default=None)

    def counts_on_ends_now(self, run: Run) -> bool:
        """Return whether a lease that ``run`` may wait for is expected to end at this instant."""
        least, now_ms = run.widths()[-1], self.profile.now_ms
        return any(
            bisect_left(resource.ends_ms, now_ms) < bisect_right(resource.ends_ms, now_ms)
            for flavor in run.flavors
            for resource in self.counted.resources(self.asks.of(run, flavor, least))
        )

    def _start(self, ask: Ask, from_ms: int, steps: SearchBudget, before_ms: int) -> Start | None:
        """Return the first start from ``from_ms`` on and before ``before_ms``; or None."""
        if from_ms >= before_ms or not steps.spend():
            return None
        found = self.counted.first(ask, from_ms, steps, before_ms)
        if found is None or not ask.is_choosy:
            return found
        real = self._real(ask, found[0])
        return self._real_start(ask, found[0], steps, before_ms) if real is None else real

    def _real_start(
        self, ask: Ask, from_ms: int, steps: SearchBudget, before_ms: int
    ) -> Start | None:
        """Return the first start after ``from_ms`` of a request for which counting is not enough.

        Admission must be able to start the run in the state expected at the start's instant.
        Counting has found a start at ``from_ms``, but admission has refused this start. At a
        critical instant, less may fit than before. Between two critical instants the room only
        grows. When the search steps are used up, the search skips to the last critical instant of
        the resources, and tries only instants from there on.
        """
        resources = self.counted.resources(ask)
        taken = critical_instants(resources, ask.duration_ms, from_ms)
        last_taken_ms = max((at_ms for at_ms in taken if at_ms < before_ms), default=from_ms)
        critical = sorted(
            {at_ms for at_ms in taken + self.payers.windows(ask, from_ms) if at_ms < before_ms}
        )
        last_ms = min(max(last_end_ms(resources), *critical, from_ms), before_ms - 1)
        at_ms, first = from_ms, list[int]()
        while True:
            index = bisect_right(critical, at_ms)
            stop_ms = critical[index] if index < len(critical) else last_ms + 1
            instants = first + ends_between(resources, at_ms, stop_ms)
            found = first_growing(instants, lambda at_ms: self._real_at(ask, at_ms))
            if found is not None or index == len(critical):
                return found
            if not steps.spend(ATTEMPT_STEPS):
                index = max(index, bisect_left(critical, last_taken_ms))
            at_ms = critical[index]
            first = [at_ms]

    def _real_at(self, ask: Ask, at_ms: int) -> Start | None:
        """Return the start of the request ``ask`` at ``at_ms``; None if it cannot start then.

        Both counting and admission must find the start.
        """
        found = self.counted.first(ask, at_ms, SearchBudget(FIND_STEPS_MAX), at_ms + 1)
        return None if found is None else self._real(ask, at_ms)

    def _next_change(self, ask: Ask, after_ms: int) -> int | None:
        """Return the next instant after ``after_ms`` when more may be free for ``ask``, or None."""
        found = [at_ms for at_ms in self.payers.windows(ask, after_ms) if at_ms > after_ms]
        for resource in self.counted.resources(ask):
            for instants in (resource.ends_ms, resource.steps_ms):
                at = bisect_right(instants, after_ms)
                if at < len(instants):
                    found.append(instants[at])
        return min(found, default=None)

    def _real(self, ask: Ask, at_ms: int) -> Start | None:
        """Return the start of a request in the state expected at ``at_ms``, as admission finds it.

        Return None if the run cannot start in that state. If the start is later than now and
        ``ask.takes_whole``, the run may use only domains in which the plan has no other start at
        that time. This limit does not apply if counting GPUs is enough for the payers that were
        found.
        """
        if not ask.takes_whole or at_ms <= self.profile.now_ms:
            return self._tried(ask, at_ms)
        counted = self._tried(ask, at_ms)
        if counted is None:
            return None
        entry = self.entry_of(ask, at_ms, counted.placement, counted.legs)
        return self._tried(ask, at_ms, takes_whole=True) if entry.is_choosy else counted

    def _tried(self, ask: Ask, at_ms: int, *, takes_whole: bool = False) -> Start | None:
        """Return how admission would start ``ask`` in the state expected at ``at_ms``, or None."""
        admitted = self._expected.would_start(
            replace(ask.run, flavors=(ask.request.flavor,)),
            at_ms,
            has_executor=self.has_executor,
            takes_whole=takes_whole,
        )
        if admitted is None:
            return None
        domains = {domain.key.domain: domain for domain in ask.sites.everywhere.domains}
        there = slice_of(admitted).domains
        placement = tuple((domains[name], gpus) for name, gpus in there)
        return Start(at_ms, placement, admitted.legs, admitted.width)

    def entry_of(self, ask: Ask, start_ms: int, placement: Placement, legs: Sequence[Leg]) -> Entry:
        """Return the entry of the plan for a start of the request ``ask``."""
        view, run = self.profile.view, ask.run
        domains = tuple((domain.key.domain, gpus) for domain, gpus in placement)
        room = 0
        if not ask.request.whole_nodes:
            bounds = view.holdings.bounds_of(run.owner)
            room = min((view.holdings.room.get(name, 0) for name in bounds), default=0)
        entry = Entry(
            run.name,
            run.owner,
            run.pool,
            start_ms,
            start_ms + expected_ms(run, view.pools[run.pool]),
            Slice(ask.request.flavor, ask.request.gpus, domains),
            shares_of(legs),
            nodes_of(placement, room),
        )
        # ``ask.takes_whole`` considers the racks in the selectors of all payers. ``is_choosy``
        # considers only the racks in the selectors of the entry's payers.
        is_choice = ask.takes_whole and is_choosy(view, run, entry)
        return replace(entry, is_choosy=True) if is_choice else entry
