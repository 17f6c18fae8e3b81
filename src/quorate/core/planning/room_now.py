"""Checks by counting whether a run may start at this instant, and what it lacks if it cannot.

Some checks count the GPUs of planned starts as taken, and others do not. Only domains with free
GPUs are examined, and in a full fleet these domains are few.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from quorate.core.admission.cover_search import pay
from quorate.core.admission.payers import PayerList, is_open
from quorate.core.admission.search_budget import SearchBudget
from quorate.core.planning.division import demands_of, holds, place_by_count
from quorate.core.planning.instants import FIND_STEPS_MAX
from quorate.core.planning.start_ask import Ask, Asks
from quorate.core.profile.gained_rooms import Funded
from quorate.core.profile.profile import Profile, whole_gpus
from quorate.core.profile.resource import Resource
from quorate.model.closed_words import Word
from quorate.model.selector import Selector, contradicts
from quorate.model.specs import Run
from quorate.model.state.room_index import Domain, Site
from quorate.model.state.state_view import StateView


class Lack(Word):
    """Why a run cannot start now, even if no start were planned: the first reason that applies."""

    QUOTA = "quota"
    FUNDS = "funds"
    ROOM = "room"
    NOTHING = "nothing"


class NowFree(dict[tuple[str, str, Selector, int], list[int]]):
    """The free GPUs of each domain now, by pool, flavor, selector and duration in ms."""


class _FreeIn(NamedTuple):
    """The domains with free GPUs after event number ``seq``, and how many are free in each."""

    seq: int
    domains: list[Domain]
    gpus: list[int]
    total: int
    most: int


class RoomNow:
    """Checks for starts now, in one profile. All runs share its caches."""

    __slots__ = ("_asks", "_free", "_free_after", "_free_sums", "_open", "_profile")

    def __init__(self, profile: Profile, asks: Asks) -> None:
        self._profile = profile
        self._asks = asks
        self._open: dict[tuple[str, str], list[tuple[Domain, Resource]]] = {}
        self._free_sums: dict[tuple[str, str], tuple[int, int]] = {}
        self._free: dict[int, list[Domain]] = {}
        self._free_after: dict[int, _FreeIn] = {}

    def has_room(self, view: StateView, run: Run, duration_ms: int, known: NowFree) -> bool:
        """Return whether planned starts leave room for ``run`` now, for ``duration_ms``.

        Payers are not considered. ``view`` is the profile's view plus the runs started since.
        ``known`` caches free GPUs for one ``view`` and plan.
        """
        least = run.widths()[-1]
        for flavor in run.flavors:
            key = (run.pool, flavor, run.selector, duration_ms)
            free = known.get(key)
            if free is None:
                free = known[key] = self._free_now(view, run, flavor, duration_ms)
            if sum(free) >= least:
                ask = self._asks.of(run, flavor, least)
                if holds(ask.request, ask.items, free):
                    return True
        return False

    def may_have_room(self, view: StateView, run: Run, until_ms: int) -> bool:
        """Return whether planned starts may leave room for ``run`` until ``until_ms``.

        Payers are not considered. If the result is False, admission finds no room either.
        """
        least = run.widths()[-1]
        for flavor in run.flavors:
            ask = self._asks.of(run, flavor, least)
            free = self._free_now(view, run, flavor, until_ms - self._profile.now_ms)
            if ask.in_one:
                if any(gpus >= ask.gpus for gpus in free):
                    return True
            elif sum(ask.parts.held_in(gpus) for gpus in free) >= ask.parts.count:
                return True
        return False

    def is_any_free(self, pool: str, flavors: Iterable[str], gpus: int) -> bool:
        """Return whether ``gpus`` GPUs of one flavor are free now; planned starts are ignored."""
        return any(self._free_gpus_now(pool, flavor)[0] >= gpus for flavor in flavors)

    def has_free(self, run: Run) -> bool:
        """Return whether ``run`` may have room now if no start were planned.

        Payers are not considered. If the result is False, admission finds no room either.
        """
        least = run.widths()[-1]
        for flavor in run.flavors:
            free, most = self._free_gpus_now(run.pool, flavor)
            if free >= least:
                ask = self._asks.of(run, flavor, least)
                if most >= (ask.gpus if ask.in_one else ask.parts.gpus + ask.parts.extra):
                    return True
        return False

    def has_free_in(self, view: StateView, run: Run) -> bool:
        """Return whether ``run`` may have room now in ``view`` if no start were planned.

        ``view`` is the profile's view plus the runs started since. Payers are not considered.
        """
        least = run.widths()[-1]
        for flavor in run.flavors:
            free = self._free_in(view, self._whole_site(run.pool, flavor))
            if free.total >= least:
                ask = self._asks.of(run, flavor, least)
                if free.most >= (ask.gpus if ask.in_one else ask.parts.gpus + ask.parts.extra):
                    return True
        return False

    def lacks(self, view: StateView, run: Run) -> Lack:
        """Return what ``run`` would lack for a start now if no start were planned.

        The answer is found by counting. ``view`` is the profile's view plus the runs started since.
        """
        if self._profile.has_bounds and any(
            quota.free_now < 1 for quota in self._profile.headroom.of(run.owner)
        ):
            return Lack.QUOTA
        least = run.widths()[-1]
        if len(run.flavors) == 1:
            return self._lacks(view, self._asks.of(run, run.flavors[0], least))
        lacks = [self._lacks(view, self._asks.of(run, flavor, least)) for flavor in run.flavors]
        return max(lacks, key=list(Lack).index)

    def _lacks(self, view: StateView, ask: Ask) -> Lack:
        if ask.is_plain:
            if not self._is_funded(view, ask):
                return Lack.FUNDS
            free = self._free_in(view, ask.sites.everywhere)
            # Checked first, because usually no domain has enough GPUs for even a part of the run.
            fits = free.most >= (ask.gpus if ask.in_one else ask.parts.gpus + ask.parts.extra)
            placement = place_by_count(ask, free.domains, free.gpus.copy()) if fits else None
            if placement is None:
                return Lack.ROOM
            gpus = sum(gpus for _, gpus in placement)
            return Lack.NOTHING if self._left_plainly(view, ask, gpus) >= gpus else Lack.FUNDS
        payer_list = PayerList(view, ask.cover_at(self._profile.now_ms, None), ask.phases[-1])
        if sum(payer_list.room(key, tier) for key, tier in payer_list.payers) < ask.gpus:
            return Lack.FUNDS
        free = self._free_in(view, ask.sites.everywhere)
        placement = place_by_count(ask, free.domains, free.gpus.copy())
        if placement is None:
            return Lack.ROOM
        paid = pay(payer_list, demands_of(placement), SearchBudget(FIND_STEPS_MAX))
        return Lack.FUNDS if paid is None else Lack.NOTHING

    def _is_funded(self, view: StateView, ask: Ask) -> bool:
        """Return whether the payers of a plain request ``ask`` can pay now for all its GPUs.

        If the payers could pay in the previous walk, and no event has concerned them since, they
        still can.
        """
        gains, now_ms = self._profile.gains, self._profile.now_ms
        if gains is None:
            return self._left_plainly(view, ask, ask.gpus) >= ask.gpus
        name, payers = ask.run.name, ask.phases[-1]
        # Events of this walk count, too: ``view`` has the starts and holds since the walk began.
        is_same = gains.are_untouched(payers, view.room_index.changed_payers)
        known = gains.former.funded.get(name) if is_same else None
        if known is None or known.ask is not ask or known.until_ms <= now_ms:
            if self._left_plainly(view, ask, ask.gpus) < ask.gpus:
                return False
            ends_ms = [view.envelopes[key].spec.end_ms for key, _ in payers]
            lead_ms = max(0, ask.lead_ms)
            known = Funded(ask, min(end_ms for end_ms in ends_ms if end_ms > now_ms) - lead_ms)
        if is_same:
            gains.made.funded[name] = known
        return True

    def _left_plainly(self, view: StateView, ask: Ask, wanted: int) -> int:
        """Return for how many GPUs the payers of a plain request ``ask`` can pay now.

        Payers are examined only until they can pay for ``wanted`` GPUs.
        """
        now_ms, envelopes, left = self._profile.now_ms, view.envelopes, 0
        for key, _ in ask.phases[-1]:
            account = envelopes[key]
            spec, gpus = account.spec, account.gpus_left
            if gpus > 0 and is_open(spec, now_ms, now_ms + ask.lead_ms, None):
                hold_ms = min(ask.duration_ms, spec.end_ms - now_ms)
                by_hours = (spec.gpu_ms_granted - account.committed_gpu_ms) // hold_ms
                left += max(0, min(gpus, by_hours))
                if left >= wanted:
                    break
        return left

    def _free_gpus_now(self, pool: str, flavor: str) -> tuple[int, int]:
        """Return the free GPUs of a flavor, in all domains and in the domain with the most.

        GPUs that planned starts will take are counted as free.
        """
        known = self._free_sums.get((pool, flavor))
        if known is None:
            free = [room.free_now for _, room in self._open_rooms(pool, flavor)]
            known = self._free_sums[pool, flavor] = (sum(free), max(free, default=0))
        return known

    def _free_now(self, view: StateView, run: Run, flavor: str, duration_ms: int) -> list[int]:
        """Return how many GPUs the plan leaves for ``run`` now, in each domain that has some."""
        now_ms, found = self._profile.now_ms, list[int]()
        for domain, room in self._open_rooms(run.pool, flavor):
            if not contradicts(run.selector, domain.labels):
                free = _free_gpus(view, domain)
                gpus = min(free, room.least(now_ms, now_ms + duration_ms))
                if gpus > 0:
                    found.append(gpus)
        return found

    def _open_rooms(self, pool: str, flavor: str) -> list[tuple[Domain, Resource]]:
        """Return the domains that have free GPUs now, and their rooms.

        GPUs that planned starts will take are counted as free. In a full fleet, these domains are
        few.
        """
        known = self._open.get((pool, flavor))
        if known is None:
            site = self._whole_site(pool, flavor)
            known = [
                (domain, self._profile.room(domain.key)) for domain in self._free_domains(site)
            ]
            self._open[pool, flavor] = known
        return known

    def _free_in(self, view: StateView, site: Site) -> _FreeIn:
        """Return the domains of ``site`` that have free GPUs in ``view``.

        ``view`` is the profile's view plus the runs started since. Its sequence number is the cache
        key.
        """
        known = self._free_after.get(site.number)
        if known is None or known.seq != view.seq:
            free = [(_free_gpus(view, domain), domain) for domain in self.domains_of(site)]
            gpus = [each for each, _ in free if each]
            domains = [domain for each, domain in free if each]
            known = _FreeIn(view.seq, domains, gpus, sum(gpus), max(gpus, default=0))
            self._free_after[site.number] = known
        return known

    def domains_of(self, site: Site) -> list[Domain]:
        """Return the domains of ``site`` that have free GPUs now, in their order."""
        known = self._free.get(site.number)
        if known is None:
            known = self._free[site.number] = self._free_domains(site)
        return known

    def _free_domains(self, site: Site) -> list[Domain]:
        """Compute the domains of ``site`` that have free GPUs, in their order."""
        if not site.domains:
            return []
        view, first = self._profile.view, site.domains[0].key
        free = view.domains(first.pool, first.flavor).most_free(1)
        found = sorted(site.numbers[key] for _, key in free if key in site.numbers)
        return [site.domains[n] for n in found if _free_gpus(view, site.domains[n]) > 0]

    def _whole_site(self, pool: str, flavor: str) -> Site:
        """Return all domains of a flavor in a pool."""
        view = self._profile.view
        index, kept = view.domains(pool, flavor), view.room_index.base.kept
        known: Site | None = kept.get((pool, flavor))
        if known is None:
            islands = [view.island(key) for key in index.keys]
            domains = [Domain(each.key, each.labels, max(each.sizes)) for each in islands]
            sizes = {size for each in islands for size in each.sizes}
            known = kept[pool, flavor] = view.room_index.site(domains, sizes)
        return known


def _free_gpus(view: StateView, domain: Domain) -> int:
    """Return the free GPUs of a domain; in a pool of whole nodes, only those of free nodes."""
    island = view.island(domain.key)
    return whole_gpus(island) if view.pools[domain.key.pool].whole_nodes else island.gpus_free
