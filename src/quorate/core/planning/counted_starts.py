"""Finds the first start of a run by counting: GPUs of domains, money of payers, and hard quotas.

There must be enough of each resource for the expected duration of the run and one grace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from quorate.core.admission.payers import Demand, Leg
from quorate.core.admission.search_budget import SearchBudget
from quorate.core.planning.division import (
    Placement,
    demands_of,
    nodes_of,
    place_by_count,
    place_of_domain,
)
from quorate.core.planning.instants import (
    critical_instants,
    first_common_ms,
    first_fitting,
    last_end_ms,
)
from quorate.core.planning.start_ask import Ask
from quorate.core.planning.start_payers import StartPayers
from quorate.core.profile.first_room import FirstRoom
from quorate.core.profile.profile import Need, Profile
from quorate.core.profile.resource import Resource
from quorate.model.state.reads.money_reads import Payers
from quorate.model.state.room_index import Domain, Site

DomainStart = tuple[int, Domain, Sequence[Leg]]
"""A start in one domain: its instant, its domain, and its legs (what each payer pays)."""
PaidAt = dict[int, tuple[int, Sequence[Leg]] | None]
"""For each examined instant: the first instant at or after it when payers can pay, and their legs.

The value is None if no payers were found.
"""


class Start(NamedTuple):
    """The instant, the placement and the payers of a start.

    ``width`` is set if admission has tried the start in an expected state. Spares are not counted
    in ``width``.
    """

    start_ms: int
    placement: Placement
    legs: Sequence[Leg]
    width: int | None = None
    by_room: bool = False
    """Whether lack of room, or a hard quota, is the only reason that the start is not earlier."""


class CountedStarts:
    """Finds, by counting, the first starts of runs in one profile."""

    __slots__ = ("_payers", "_profile", "_rooms")

    def __init__(self, profile: Profile, rooms: FirstRoom, payers: StartPayers) -> None:
        self._profile = profile
        self._rooms = rooms
        self._payers = payers

    def first(self, ask: Ask, from_ms: int, steps: SearchBudget, before_ms: int) -> Start | None:
        """Return the first start that counting finds, from ``from_ms`` on, before ``before_ms``."""
        if ask.in_one:
            return self._in_one_domain(ask, from_ms, steps, before_ms)
        return self._spread(ask, from_ms, steps, before_ms)

    def _in_one_domain(
        self, ask: Ask, from_ms: int, steps: SearchBudget, before_ms: int
    ) -> Start | None:
        """Return the first start in one domain.

        If several starts are equally early, the one in the first domain is returned.
        """
        if len(ask.sites.by_payers) != 1:
            best = self._in_sites(ask, from_ms, steps, before_ms)
            return None if best is None else Start(best[0], ((best[1], ask.gpus),), best[2])
        ((payers, site),) = ask.sites.by_payers
        paid_at: PaidAt = {}
        best = self._in_site(ask, payers, site, from_ms, paid_at, steps, before_ms)
        if best is None:
            return None
        by_room = all(paid is not None and paid[0] == ms for ms, paid in paid_at.items())
        return Start(best[0], ((best[1], ask.gpus),), best[2], by_room=by_room)

    def _in_sites(
        self, ask: Ask, from_ms: int, steps: SearchBudget, before_ms: int
    ) -> DomainStart | None:
        """Return the first start in one domain, for a request whose domains have different payers.

        A site is a group of domains with the same payers. Sites whose payers can pay as soon as
        there may be room are searched first. If one of these sites has a start, the other sites,
        whose payers have no money yet, are searched only for earlier starts.
        """
        best: DomainStart | None = None
        waiting: list[tuple[int, Payers, Site, list[Demand]]] = []
        for payers, site in ask.sites.by_payers:
            at_ms = self._rooms.bound_of(site, ask.gpus, ask.duration_ms, from_ms)
            demands = demands_of(((site.domains[0], ask.gpus),))
            legs = self._payers.pay(ask, demands, at_ms, steps) if at_ms < before_ms else None
            if legs is None:
                waiting.append((at_ms, payers, site, demands))
                continue
            paid_at: PaidAt = {at_ms: (at_ms, legs)}
            found = self._in_site(ask, payers, site, at_ms, paid_at, steps, before_ms)
            best, before_ms = _earlier(best, found, before_ms)
        for at_ms, payers, site, demands in waiting:
            paid = self._payers.paid_after(ask, payers, demands, at_ms, steps, before_ms)
            if paid is not None:
                found = self._in_site(ask, payers, site, paid[0], {paid[0]: paid}, steps, before_ms)
                best, before_ms = _earlier(best, found, before_ms)
        return best

    def _in_site(  # noqa: PLR0913, PLR0917 - what, where, between when, and who pays
        self,
        ask: Ask,
        payers: Payers,
        site: Site,
        from_ms: int,
        paid_at: PaidAt,
        steps: SearchBudget,
        before_ms: int,
    ) -> DomainStart | None:
        """Return the first start in a domain of ``site``, whose domains have the same payers.

        ``paid_at`` caches the results of ``StartPayers.paid_from``, by instant.
        """
        duration_ms, room_of = ask.duration_ms, self._profile.room

        def ready_ms(domain: Domain, at_ms: int) -> int | None:
            """Return the first instant from ``at_ms`` on with room, money and quotas; or None."""
            placement = ((domain, ask.gpus),)
            while True:
                if at_ms not in paid_at:
                    demands = demands_of(placement)
                    paid_at[at_ms] = self._payers.paid_from(
                        ask, payers, demands, at_ms, steps, before_ms
                    )
                paid = paid_at[at_ms]
                if paid is None:
                    return None
                then_ms = first_common_ms(self._quotas(ask, placement), duration_ms, paid[0])
                if then_ms is None or then_ms == at_ms:
                    return then_ms
                found = room_of(domain.key).earliest(ask.gpus, duration_ms, then_ms)
                if found is None or found >= before_ms:
                    return None
                at_ms = found

        found = self._rooms.in_one(site, ask.gpus, duration_ms, from_ms, before_ms, ready_ms)
        if found is None:
            return None
        paid = paid_at[found[0]]
        assert paid is not None, found
        return *found, paid[1]

    def _spread(self, ask: Ask, from_ms: int, steps: SearchBudget, before_ms: int) -> Start | None:
        """Return the first start in one domain or divided among several.

        Divided starts are searched for only at instants before the first start in one domain.
        """
        if ask.is_parted and len(ask.sites.by_payers) == 1:
            return self._parted(ask, from_ms, steps, before_ms)
        single = self._in_one_domain(ask, from_ms, steps, before_ms)
        stop_ms = before_ms if single is None else single[0]
        found = self._spread_anyhow(ask, from_ms, steps, stop_ms)
        return single if found is None else found

    def _parted(self, ask: Ask, from_ms: int, steps: SearchBudget, before_ms: int) -> Start | None:
        """Return the first start of a run of equal parts; all domains have the same payers."""
        duration_ms, ((payers, site),) = ask.duration_ms, ask.sites.by_payers
        quotas = self._profile.headroom.of(ask.run.owner)
        demands = [(place_of_domain(site.domains[0]), ask.gpus)] if site.domains else []
        # If the payers are known without a search, the search for room begins when they can pay.
        known = self._payers.paid_by_one(ask, payers, demands, from_ms)
        at_ms = from_ms if known is None else known[0]
        while steps.spend():
            found = self._rooms.in_any(site, ask.parts, duration_ms, at_ms, before_ms)
            if found is None:
                return None
            room_ms, domains = found
            fitting = self.fits_in(ask, domains, room_ms, steps)
            if fitting is not None:
                by_room = at_ms == from_ms and len(ask.items) == 1
                return Start(room_ms, *fitting, by_room=by_room)
            paid = self._payers.paid_from(ask, payers, demands, room_ms, steps, before_ms)
            if paid is None:
                return None
            ready_ms = first_common_ms([(quota, 1) for quota in quotas], duration_ms, paid[0])
            if ready_ms is None or ready_ms >= before_ms:
                return None
            if ready_ms == room_ms:
                # Payers may lack money for spares, or a quota may lack nodes for this placement.
                return self._spread_anyhow(ask, room_ms, steps, before_ms)
            at_ms = ready_ms
        return None

    def _spread_anyhow(
        self, ask: Ask, from_ms: int, steps: SearchBudget, before_ms: int
    ) -> Start | None:
        """Return the first start over any number of domains, whose payers may differ."""
        duration_ms, site = ask.duration_ms, ask.sites.everywhere
        if before_ms <= from_ms:
            return None
        first = self._rooms.in_any(site, ask.parts, duration_ms, from_ms, before_ms)
        if first is None:
            return None
        first_ms = first[0]
        resources = self.resources(ask)
        critical = critical_instants(resources, duration_ms, first_ms)
        critical += self._payers.windows(ask, first_ms)
        critical = sorted(at_ms for at_ms in critical if at_ms < before_ms)
        last_ms = min(last_end_ms(resources), before_ms - 1)

        def tried(at_ms: int) -> tuple[Placement, Sequence[Leg]] | None:
            return self.fits(ask, at_ms, steps)

        found = first_fitting(tried, critical, first_ms, last_ms, steps)
        return None if found is None else Start(found[0], *found[1])

    def fits(
        self, ask: Ask, at_ms: int, steps: SearchBudget
    ) -> tuple[Placement, Sequence[Leg]] | None:
        """Return a placement of the request ``ask`` at ``at_ms``, and its payers; or None.

        The placement is found by counting.
        """
        for domains in ask.sites.sets:
            found = self.fits_in(ask, domains, at_ms, steps)
            if found is not None:
                return found
        return None

    def fits_in(
        self, ask: Ask, domains: Sequence[Domain], at_ms: int, steps: SearchBudget
    ) -> tuple[Placement, Sequence[Leg]] | None:
        """Return a placement of the request ``ask`` in ``domains``, and its payers; or None.

        The placement is found by counting.
        """
        until_ms = at_ms + ask.duration_ms
        for placement in self._placements(ask, domains, at_ms, until_ms):
            if any(q.least(at_ms, until_ms) < n for q, n in self._quotas(ask, placement)):
                continue
            legs = self._payers.pay(ask, demands_of(placement), at_ms, steps)
            if legs is not None:
                return placement, legs
            if len(placement) == 1:
                break  # The same payers could not pay in another domain either.
        return None

    def _placements(
        self, ask: Ask, domains: Sequence[Domain], from_ms: int, until_ms: int
    ) -> Iterator[Placement]:
        """Yield a placement in each domain that has room for all GPUs.

        If no domain has so much room, yield one placement that is divided among domains.
        """
        free, room_of = [], self._profile.room
        for domain in domains:
            left = room_of(domain.key).least(from_ms, until_ms)
            if left >= ask.gpus:
                yield ((domain, ask.gpus),)
            free.append(left)
        if not ask.in_one and all(left < ask.gpus for left in free):
            filled = place_by_count(ask, domains, free)
            if filled is not None:
                yield filled

    def _quotas(self, ask: Ask, placement: Placement) -> list[Need]:
        """Return the hard quotas that bound a start, and how much of each the start needs.

        The need of a quota of nodes is the fewest nodes that the start can take. In a pool that
        shares nodes, the start may first use free GPUs of nodes that the quota already counts.
        """
        view, owner = self._profile.view, ask.run.owner
        found: list[Need] = []
        for name in view.holdings.bounds_of(owner):
            quota = view.owners[name].quota
            if quota.concurrent_runs_max is not None:
                found.append((self._profile.headroom.runs(name), 1))
            if quota.nodes_max is not None:
                left = 0 if ask.request.whole_nodes else view.holdings.room.get(name, 0)
                found.append((self._profile.headroom.nodes(name), nodes_of(placement, left)))
        return found

    def resources(self, ask: Ask) -> list[Resource]:
        """Return all resources that a start of the request ``ask`` may need."""
        found = [self._profile.room(domain.key) for domain in ask.sites.everywhere.domains]
        found += self._payers.resources(ask.phases[-1])
        found += self._profile.headroom.of(ask.run.owner)
        return found


def _earlier(
    best: DomainStart | None, found: DomainStart | None, before_ms: int
) -> tuple[DomainStart | None, int]:
    """Return the earlier of two starts, and the instant before which a better start has to begin.

    If both starts are equally early, the one whose domain has the lower key is returned. If both
    are None, None is returned. The search for ``found`` had the limit ``before_ms``.
    """
    if found is None:
        return best, before_ms
    if best is not None:
        found = min(best, found, key=lambda start: (start[0], start[1].key))
    return found, found[0] + 1
