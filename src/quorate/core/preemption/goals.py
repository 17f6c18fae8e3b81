"""The goal of a conflict: whether a state reaches it, and how many GPUs are still missing.

There are two kinds of goals. One is reached when admission would start a run, the other when a
number of GPUs has come free (a number given by hand, or the use beyond a limit). GPUs are counted
first, because counting is quick. But counting can only prove that a goal is not reached yet: each
GPU that is freed in scope lowers the number of missing GPUs by at most one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from msgspec.structs import replace

from quorate.core.admission.admit import Admitted, admit, cover_request
from quorate.core.admission.cover import payer_phases
from quorate.core.admission.holds import expected_ms, hold_duration_ms
from quorate.core.admission.layout import pack_request
from quorate.core.admission.payers import names_racks
from quorate.core.admission.search_budget import SearchBudget
from quorate.core.admission.spread import items_of
from quorate.core.profile.firm_places import firm_profile
from quorate.core.profile.lease_ends import lease_end_ms
from quorate.core.profile.profile import Profile
from quorate.core.profile.resource import FOREVER_MS
from quorate.core.profile.room_left import room_beside, room_left
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.selector import RACK, contradicts, names_label
from quorate.model.specs import Run
from quorate.model.state.free_slots import Island
from quorate.model.state.state_view import StateView

SHORT_SEARCH_STEPS: Final = 300
"""The most steps of the first search of each try.

A goal makes many tries, and with overlapping caps a try is slow.
"""
LONG_SEARCH_STEPS: Final = 1_000
"""The most steps of all second searches of a goal together.

A try makes a second search if its first search ran out of steps.
"""
_NO_ROOM: Final = frozenset(
    (
        RefusalCode.INSUFFICIENT_CAPACITY,
        RefusalCode.NO_SINGLE_DOMAIN,
        RefusalCode.FUNDS_ELSEWHERE,
    )
)

Room = Mapping[str, int]
"""The GPUs that come free, by domain. For a limit, these are the GPUs that its payers no longer pay
for, under an empty domain name."""
Ends = Mapping[str, Mapping[int, int]]
"""The GPUs that come free, by domain and by the expected end of the work that holds them."""


class Goal(Protocol):
    """The goal of a conflict."""

    @property
    def is_plain(self) -> bool:
        """Whether all GPUs of a domain are equal, so that a count shows how many are missing."""
        ...

    def lacking(self, room: Room) -> int:
        """Return how many GPUs of the scope are missing when ``room`` has come free; 0 if unknown.

        A result above 0 proves that the goal is not reached. The result never rises with more room.
        One more GPU in scope lowers the result by at most one; a GPU outside the scope may lower it
        by more.
        """
        ...

    def missing(self, view: Callable[[], StateView]) -> int:
        """Return 0 if ``view`` reaches the goal, else how many GPUs are missing (1 if unknown)."""
        ...

    def end_ms(self, view: StateView, leases: Iterable[str]) -> int:
        """Return the expected end of ``leases``; 0 if the goal does not depend on the end."""
        ...

    def room_of(self, ends: Ends) -> Room:
        """Return, for each domain, how many of the freed GPUs the goal may use at most."""
        ...


@dataclass(frozen=True, slots=True)
class Count:
    """The goal to free a number of GPUs anywhere in scope, by hand or for an exceeded limit."""

    gpus: int
    is_plain: bool = True

    def lacking(self, room: Room) -> int:
        """Return how many GPUs are missing after ``room`` has come free."""
        return max(0, self.gpus - sum(room.values()))

    def missing(self, view: Callable[[], StateView]) -> int:
        """Return 0: only the count decides, and ``view`` is not read."""
        del view
        return 0

    def end_ms(self, view: StateView, leases: Iterable[str]) -> int:
        """Return 0: this goal does not depend on expected ends."""
        del view, leases
        return 0

    def room_of(self, ends: Ends) -> Room:
        """Return all freed GPUs, by domain."""
        return {domain: sum(gpus.values()) for domain, gpus in ends.items()}


@dataclass(frozen=True, slots=True)
class Start:
    """The goal to start a run at its least width.

    Only work that has GPUs in scope is cut. But the start may also use GPUs of other domains where
    an envelope may pay: free GPUs, and GPUs that such a cut frees there.

    - ``free`` has the free GPUs, and ``total`` all GPUs, of each domain in scope where an envelope
      may pay.
    - ``apart`` has the free GPUs of each other domain. ``apart_gpus`` is the sum of these numbers,
      and ``apart_most`` the largest of them. ``apart_groups`` is the number of full groups for
      which these GPUs have room.
    - ``firm`` is the profile with the firm starts of other runs.
    - ``promised`` has an item for each domain in scope with firm starts: the GPUs that are free
      now, and pairs (instant, GPUs). A pair says how many GPUs the firm starts leave at that
      instant. Only instants at which they may leave the fewest GPUs have a pair.
    - ``own`` is the name of the run's reservation, which is closed in ``view``; it is empty if the
      run has none. The reservations in ``without`` are ignored, because they take only what the
      run's reservation leaves.
    """

    run: Run
    is_plain: bool
    at_ms: int
    has_executor: bool
    own: str
    without: Collection[str]
    groups: int
    group_gpus: int
    gpus: int
    one_domain: bool
    free: Mapping[str, int]
    total: Mapping[str, int]
    apart: Mapping[str, int]
    apart_groups: int
    apart_gpus: int
    apart_most: int
    firm: Profile | None
    promised: Mapping[str, tuple[int, tuple[tuple[int, int], ...]]]
    long_search: SearchBudget = field(
        default_factory=lambda: SearchBudget(LONG_SEARCH_STEPS), compare=False
    )
    """The steps left for second searches; all tries of the goal use them up together."""

    @classmethod
    def of(  # noqa: PLR0913 - what, where, when, and beside which promises
        cls,
        view: StateView,
        run: Run,
        flavor: str,
        domains: Iterable[str],
        at_ms: int,
        *,
        has_executor: bool,
        own: str = "",
        without: Collection[str] = (),
    ) -> Start:
        """Return the goal of starting ``run`` at ``at_ms`` with cuts in ``domains`` only.

        GPUs that are free in ``view`` but reserved for firm starts of other runs are treated as
        taken.
        """
        width = run.gpus if run.malleable is None else run.malleable.gpus_min
        run = replace(run, gpus=width, flavors=(flavor,))
        request = pack_request(run, view.pools[run.pool], flavor, width)
        first, *_ = items = items_of(request)
        spares = run.spares_per_group
        # The division of a divisible run is not known yet, so its groups are not counted.
        size = 0 if first.divisible else first.gpus + spares
        scope = set(domains)
        until_ms = needed_until_ms(view, run, at_ms, has_executor=has_executor, is_firm=bool(own))
        firm = firm_profile(view, at_ms, without=without) if view.reservations else None
        left = view if firm is None else room_beside(view, firm, run, at_ms, until_ms)
        islands = _payable(left, run, flavor, at_ms)
        inside = [island for island in islands if island.key.domain in scope]
        apart = {i.key.domain: i.gpus_free for i in islands if i.key.domain not in scope}
        return cls(
            run,
            not (request.whole_nodes or _asks_for_racks(view, run, flavor, at_ms)),
            at_ms,
            has_executor,
            own,
            without,
            first.count if size else 0,
            size,
            sum((item.gpus + spares) * item.count for item in items),
            request.one_domain,
            {island.key.domain: island.gpus_free for island in inside},
            {island.key.domain: island.gpus_total for island in inside},
            apart,
            sum(free // size for free in apart.values()) if size else 0,
            sum(apart.values()),
            max(apart.values(), default=0),
            firm,
            {} if firm is None else _promised(firm, inside, at_ms, until_ms),
        )

    def end_ms(self, view: StateView, leases: Iterable[str]) -> int:
        """Return when the last of ``leases`` is expected to end; 0 without firm starts in scope."""
        if not self.promised:
            return 0
        ends = (lease_end_ms(view, view.leases[name], self.at_ms) for name in leases)
        return max(ends, default=FOREVER_MS)

    def room_of(self, ends: Ends) -> Room:
        """Return, for each domain, how many of the freed GPUs are not needed by firm starts."""
        room: dict[str, int] = {}
        for domain, gpus in ends.items():
            room[domain] = sum(gpus.values())
            if domain in self.promised:
                free, points = self.promised[domain]
                least = min(
                    left + sum(more for end_ms, more in gpus.items() if end_ms > at_ms)
                    for at_ms, left in points
                )
                room[domain] = min(free + room[domain], max(0, least)) - self.free[domain]
        return room

    def lacking(self, room: Room) -> int:
        """Return the missing GPUs, counted by single GPUs or by full groups, whichever is more."""
        if self.one_domain:
            return self._lacking_in_one(room)
        short = self.gpus - self.apart_gpus
        for domain, free in self.free.items():
            short -= free + room.get(domain, 0)
        apart = [domain for domain in room if domain in self.apart] if self.apart else []
        short -= sum(room[domain] for domain in apart)
        return max(0, short, self._lacking_groups(room, apart) if self.groups else 0)

    def _lacking_in_one(self, room: Room) -> int:
        if self.apart_most >= self.gpus or any(
            self.apart[domain] + gpus >= self.gpus
            for domain, gpus in room.items()
            if domain in self.apart
        ):
            return 0
        return min(
            (
                max(0, self.gpus - free - room.get(domain, 0))
                for domain, free in self.free.items()
                if self.total[domain] >= self.gpus
            ),
            default=self.gpus,
        )

    def _lacking_groups(self, room: Room, apart: Iterable[str]) -> int:
        """Return the least number of GPUs of the scope that must come free for all full groups.

        A domain may have room for some groups already. The next group needs the GPUs that are
        missing in the domain. Each further group needs as many GPUs as a group has. ``apart`` are
        the domains in ``room`` that are outside the scope.
        """
        size, left = self.group_gpus, self.groups - self.apart_groups
        for domain in apart:
            free = self.apart[domain]
            left -= (free + room[domain]) // size - free // size
        partial: list[int] = []
        for domain, taken in self.free.items():
            free = taken + room.get(domain, 0)
            here = free // size
            left -= here
            if self.total[domain] // size > here:
                partial.append(size - free % size)
        if left <= 0:
            return 0
        partial.sort()
        # If no domain has room for even a part of a group, the group lacks its whole size.
        return sum(partial[:left]) + max(0, left - len(partial)) * size

    def missing(self, view: Callable[[], StateView]) -> int:
        """Return 0 if admission would start the run in ``view`` without delaying other firm starts.

        Otherwise return the number of missing GPUs, or 1 if it is not known.
        """
        state = view()
        short = self._short(state)
        if short:
            return short
        left = self.left_in(state, self.at_ms)
        return 0 if left is state else self._short(left)

    def left_in(self, view: StateView, at_ms: int) -> StateView:
        """Return ``view`` without the resources that other firm starts need during the run."""
        until_ms = needed_until_ms(
            view, self.run, at_ms, has_executor=self.has_executor, is_firm=bool(self.own)
        )
        # A profile over another state keeps no hard quotas for its entries.
        if self.firm is None or self.firm.bounded or view.pledges or at_ms != self.at_ms:
            return room_left(view, self.run, at_ms, until_ms=until_ms, without=self.without)
        return room_beside(view, self.firm.over(view), self.run, at_ms, until_ms)

    def _short(self, view: StateView) -> int:
        short = SearchBudget(SHORT_SEARCH_STEPS)
        answer = self._admit(view, short)
        if short.exhausted and isinstance(answer, Refusal):
            answer = self._admit(view, self.long_search)
        if isinstance(answer, Admitted):
            return 0
        if self.is_plain:
            return 1  # Counting has found no shortage, so the number is not known.
        room = answer if answer.code in _NO_ROOM else answer.also
        return 1 if room is None else max(1, room.short)

    def _admit(self, view: StateView, steps: SearchBudget) -> Admitted | Refusal:
        return admit(view, self.run, self.at_ms, has_executor=self.has_executor, steps=steps)


def needed_until_ms(
    view: StateView, run: Run, at_ms: int, *, has_executor: bool, is_firm: bool = False
) -> int:
    """Return until when ``run`` needs its room if leases are cut for it at ``at_ms``.

    With an executor, cut leases may take their grace to end, and the start waits for all of them. A
    start that ``is_firm`` needs its room only until its declared end, because other runs may be
    planned there from then on.
    """
    pool = view.pools[run.pool]
    lead_ms = pool.grace_max_ms if has_executor else 0
    return at_ms + lead_ms + (expected_ms if is_firm else hold_duration_ms)(run, pool)


def _promised(
    firm: Profile, islands: Iterable[Island], at_ms: int, until_ms: int
) -> dict[str, tuple[int, tuple[tuple[int, int], ...]]]:
    """Return, by domain, the number of GPUs that are free now, and pairs (instant, GPUs).

    A pair says how many GPUs the firm starts leave free at the instant.
    """
    planned, found = dict(firm.planned_rooms()), {}
    for island in islands:
        room = planned.get(island.key)
        if room is not None:
            instants = [at_ms, *(ms for ms in room.steps_ms if at_ms < ms < until_ms)]
            points = tuple((ms, room.value(ms)) for ms in instants)
            found[island.key.domain] = firm.view.island(island.key).gpus_free, points
    return found


def _asks_for_racks(view: StateView, run: Run, flavor: str, at_ms: int) -> bool:
    """Return whether the run, or an envelope that may pay for it, selects racks."""
    payers = payer_phases(view, cover_request(view, run, flavor, at_ms))[-1]
    return names_label(run.selector, RACK) or names_racks(view, payers)


def _payable(view: StateView, run: Run, flavor: str, at_ms: int) -> Sequence[Island]:
    """Return the islands that the run may use and where an envelope may pay; racks are ignored."""
    cover = cover_request(view, run, flavor, at_ms)
    selectors = {view.envelopes[key].spec.selector for key, _ in payer_phases(view, cover)[-1]}
    islands = [view.island(key) for key in view.domains(run.pool, flavor).keys]
    return [
        island
        for island in islands
        if not contradicts(run.selector, island.labels)
        and any(not contradicts(selector, island.labels) for selector in selectors)
    ]
