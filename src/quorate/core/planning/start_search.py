"""The earliest start of one run in a profile, found by counting.

Quota, payers and room must all hold for the expected duration and one grace. Between two critical
instants, at which the plan begins to take something or a window opens or closes, what fits only
grows; so the last millisecond of such a stretch tells whether anything in it fits, and halving
finds the first. Where counting is not enough (racks, nodes of several sizes that are given whole, a
quota of nodes that are shared), the start is tried in the state expected then.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from quorate.core.admission.admit import cover_request
from quorate.core.admission.cover import payer_phases
from quorate.core.admission.cover_search import pay
from quorate.core.admission.holds import expected_ms
from quorate.core.admission.layout import PackRequest, pack_request
from quorate.core.admission.payers import (
    CoverRequest,
    Demand,
    Leg,
    PayerList,
    Place,
    is_open,
    names_racks,
)
from quorate.core.admission.search_budget import SearchBudget
from quorate.core.admission.spread import Item, fills_nodes, items_of
from quorate.core.planning.expected_states import ExpectedStates
from quorate.core.profile.firm_places import is_choosy
from quorate.core.profile.first_room import FirstRoom, Parts, parts_of
from quorate.core.profile.plan_entry import Entry, shares_of, slice_of
from quorate.core.profile.planned_accounts import ExpectedAccounts
from quorate.core.profile.profile import Need, Profile, whole_gpus
from quorate.core.profile.resource import FOREVER_MS, Resource
from quorate.model.closed_words import Word
from quorate.model.events import Slice, Tier
from quorate.model.selector import RACK, Selector, contradicts, matches, names_label
from quorate.model.specs import EnvelopeId, Run
from quorate.model.state.free_slots import IslandKey
from quorate.model.state.reads.money_reads import Payers
from quorate.model.state.room_index import Domain, Site
from quorate.model.state.state_view import StateView

T = TypeVar("T")

FIND_STEPS_MAX: Final = 300
"""Steps of the search for one start. Overlapping caps make it hard, and many are planned."""
ASKS_MAX: Final = 16_384
"""How many ``Ask`` values, one for each run, flavor and width, are kept."""
ATTEMPT_STEPS: Final = 25
"""How many steps of searching one look at a later instant counts for."""


class Lack(Word):
    """What a run lacks to start now if nothing is planned: the first of these that applies."""

    QUOTA = "quota"
    FUNDS = "funds"
    ROOM = "room"
    NOTHING = "nothing"


class Sites(Struct, frozen=True, gc=False):
    """The domains where a run may go and has payers."""

    everywhere: Site
    by_payers: tuple[tuple[Payers, Site], ...]
    """The domains, grouped by who pays there."""

    @property
    def sets(self) -> Iterator[tuple[Domain, ...]]:
        """Yield the domains to place a run in: those with the same payers, then all."""
        for _, site in self.by_payers:
            yield site.domains
        if len(self.by_payers) > 1:
            yield self.everywhere.domains


class Ask(Struct, frozen=True, gc=False):
    """One flavor at one width: what is to be placed, where it may go and who may pay.

    It holds for any instant, so it is kept from one decision to the next. ``cover`` is for a start
    at 0 ms.
    """

    run: Run
    request: PackRequest
    items: tuple[Item, ...]
    cover: CoverRequest
    phases: tuple[Payers, ...]
    sites: Sites
    gpus: int
    """How many GPUs it takes if it goes into one domain, spares included."""
    parts: Parts
    """Parts that domains must hold together in order to hold all of it."""
    is_parted: bool
    """Whether domains that hold ``parts`` hold all of it."""
    takes_whole: bool
    """Whether counting GPUs of a domain is not enough: it needs certain racks or node sizes."""
    is_choosy: bool
    """Whether counting is not enough for any reason, so that a start is tried for real."""
    is_plain: bool
    """Whether the same payers pay everywhere, each for itself: no caps, no loans, no racks."""

    in_one: bool
    """Whether it cannot be spread over several domains."""
    duration_ms: int
    lead_ms: int
    """How long before the end of a payer's window a start has to be."""

    def cover_at(self, at_ms: int, asked_ms: int | None) -> CoverRequest:
        """Return what a start at ``at_ms``, planned at ``asked_ms``, asks of its payers."""
        lead_ms = self.lead_ms
        return replace(self.cover, now_ms=at_ms, outlast_ms=at_ms + lead_ms, asked_ms=asked_ms)


Placement = tuple[tuple[Domain, int], ...]
"""GPUs by domain, spares included."""


DomainStart = tuple[int, Domain, Sequence[Leg]]
"""When, in which domain, and paid by whom."""
PaidAt = dict[int, tuple[int, Sequence[Leg]] | None]
"""Instant -> the first instant from then on at which payers can pay, and how."""


class NowFree(dict[tuple[str, str, Selector, int], list[int]]):
    """The GPUs free in each domain now, by pool, flavor, selector and for how many ms."""


class Start(NamedTuple):
    """When, where, paid by whom and, where it was tried for real, how wide without spares."""

    start_ms: int
    placement: Placement
    legs: Sequence[Leg]
    width: int | None = None
    by_room: bool = False
    """Whether nothing but room, or a hard quota, kept it from an earlier start."""


class Searcher:
    """Finds starts in one profile, and caches what the searches for other runs can use."""

    __slots__ = (
        "_asks",
        "_expected",
        "_free",
        "_free_after",
        "_free_sums",
        "_open",
        "_rooms",
        "has_executor",
        "profile",
    )

    def __init__(self, profile: Profile, *, has_executor: bool) -> None:
        self.profile = profile
        self.has_executor = has_executor
        self._asks = profile.view.ask_cache
        self._open: dict[tuple[str, str], list[tuple[Domain, Resource]]] = {}
        self._expected = ExpectedStates(profile)
        self._free_sums: dict[tuple[str, str], tuple[int, int]] = {}
        self._rooms = FirstRoom(profile)
        self._free: dict[int, list[Domain]] = {}
        self._free_after: dict[int, tuple[int, tuple[list[Domain], list[int]]]] = {}

    def find(self, run: Run, from_ms: int, steps: SearchBudget | None = None) -> Entry | None:
        """Return the earliest start of ``run`` from ``from_ms`` on; None if there is none.

        It is the earliest start at the run's least width, at the widest width that fits then. Of
        equally early starts, the first flavor wins, then the first domain.
        """
        return self.find_by(run, from_ms, steps)[0]

    def find_by(
        self, run: Run, from_ms: int, steps: SearchBudget | None = None
    ) -> tuple[Entry | None, Ask | None]:
        """Return the earliest start as ``find`` does, and what was asked for if only room counted.

        That is None where anything else may have kept the run from an earlier start, or may change
        who pays.
        """
        steps = SearchBudget(FIND_STEPS_MAX) if steps is None else steps
        *_, least = widths = run.widths()
        best: tuple[int, Ask, Start] | None = None
        for flavor in run.flavors:
            ask = self.ask(run, flavor, least)
            if self._is_hopeless(ask):
                continue
            found = self._start(ask, from_ms, steps, FOREVER_MS if best is None else best[0])
            if found is not None and (best is None or found[0] < best[0]):
                best = (found[0], ask, found)
        if best is None:
            return None, None
        start_ms, ask, (_, placement, legs, real_width, by_room) = best
        if ask.is_choosy:
            # As it was tried for real, and as wide as that was.
            width = least if real_width is None else real_width
            tried = self.ask(run, ask.request.flavor, width)
            return self._entry(tried, start_ms, placement, legs), None
        for width in widths[:-1]:
            wider = self.ask(run, ask.request.flavor, width)
            fitting = self._fits(wider, start_ms, steps)
            if fitting is not None:
                return self._entry(wider, start_ms, *fitting), None
        entry = self._entry(ask, start_ms, placement, legs)
        is_alone = by_room and ask.is_plain and len(widths) == len(run.flavors) == 1
        is_alone = is_alone and not self.profile.view.holdings.has_bounds
        return entry, ask if is_alone else None

    def paid_again(self, ask: Ask, domains: Sequence[Domain], entry: Entry) -> Sequence[Leg] | None:
        """Return who pays for the place of ``entry`` in ``domains``, if they hold it as before.

        That is None where they divide it otherwise, or payers cannot pay for it.
        """
        if ask.in_one:
            return self._pay_plainly(ask, [(_place(domains[0]), ask.gpus)], entry.start_ms)
        found = self._fits_in(ask, domains, entry.start_ms, SearchBudget(FIND_STEPS_MAX))
        if found is None:
            return None
        placement, legs = found
        divided = tuple((domain.key.domain, gpus) for domain, gpus in placement)
        return legs if divided == entry.slice.domains else None

    def is_hopeless(self, run: Run) -> bool:
        """Return whether no domain ever has room for ``run``, even if all leases end."""
        least = run.widths()[-1]
        return all(self._is_hopeless(self.ask(run, flavor, least)) for flavor in run.flavors)

    def _is_hopeless(self, ask: Ask) -> bool:
        gpus = ask.gpus if ask.in_one else ask.parts.gpus + ask.parts.extra
        return not self._rooms.left_alone(ask.sites.everywhere, gpus)

    def fits_now(self, run: Run) -> bool:
        """Return whether ``run`` can start now by counting."""
        least = run.widths()[-1]
        asks = [self.ask(run, flavor, least) for flavor in run.flavors]
        if any(ask.in_one and self._fits_in_free(ask) for ask in asks):
            return True
        # What is expected to end at this very instant counts too.
        now_ms, steps = self.profile.now_ms, SearchBudget(FIND_STEPS_MAX)
        return any(self._counted(ask, now_ms, steps, now_ms + 1) is not None for ask in asks)

    def _fits_in_free(self, ask: Ask) -> bool:
        """Return whether ``ask`` fits by counting into a domain that has free GPUs now."""
        now_ms, steps = self.profile.now_ms, SearchBudget(FIND_STEPS_MAX)
        return any(
            self._fits_in(ask, self._free_now_in(site), now_ms, steps) is not None
            for _, site in ask.sites.by_payers
        )

    def has_room_now(self, view: StateView, run: Run, duration_ms: int, known: NowFree) -> bool:
        """Return whether ``view`` has room for ``run`` beside the plan for ``duration_ms``.

        Payers are not looked at. ``view`` is the profile's view plus what has started since.
        ``known`` has what is free, as far as it was looked at in the same ``view`` and plan.
        """
        least = run.widths()[-1]
        for flavor in run.flavors:
            key = (run.pool, flavor, run.selector, duration_ms)
            free = known.get(key)
            if free is None:
                free = known[key] = self._free_now(view, run, flavor, duration_ms)
            if sum(free) >= least:
                ask = self.ask(run, flavor, least)
                if _holds(ask.request, ask.items, free):
                    return True
        return False

    def may_have_room(self, view: StateView, run: Run, until_ms: int) -> bool:
        """Return whether ``view`` may have room for ``run`` beside the plan until ``until_ms``.

        Payers are not looked at. Where this is False, admission finds no room either.
        """
        least = run.widths()[-1]
        for flavor in run.flavors:
            ask = self.ask(run, flavor, least)
            free = self._free_now(view, run, flavor, until_ms - self.profile.now_ms)
            if ask.in_one:
                if any(gpus >= ask.gpus for gpus in free):
                    return True
            elif sum(ask.parts.held_in(gpus) for gpus in free) >= ask.parts.count:
                return True
        return False

    def is_any_free(self, pool: str, flavors: Iterable[str], gpus: int) -> bool:
        """Return whether ``gpus`` GPUs of one of ``flavors`` are free now if nothing is planned."""
        return any(self._free_gpus_now(pool, flavor)[0] >= gpus for flavor in flavors)

    def _free_gpus_now(self, pool: str, flavor: str) -> tuple[int, int]:
        """Return how many GPUs of a flavor are free now if nothing is planned.

        As (in all domains together, in the domain that has most).
        """
        known = self._free_sums.get((pool, flavor))
        if known is None:
            free = [room.free_now for _, room in self._open_rooms(pool, flavor)]
            known = self._free_sums[pool, flavor] = (sum(free), max(free, default=0))
        return known

    def _free_now(self, view: StateView, run: Run, flavor: str, duration_ms: int) -> list[int]:
        """Return the GPUs free for ``run`` beside the plan, in each domain that has any."""
        now_ms, found = self.profile.now_ms, list[int]()
        for domain, room in self._open_rooms(run.pool, flavor):
            if not contradicts(run.selector, domain.labels):
                free = _free_gpus(view, domain)
                gpus = min(free, room.least(now_ms, now_ms + duration_ms))
                if gpus > 0:
                    found.append(gpus)
        return found

    def _open_rooms(self, pool: str, flavor: str) -> list[tuple[Domain, Resource]]:
        """Return the domains that have free GPUs now if nothing is planned, and their rooms.

        In a full fleet these are few.
        """
        known = self._open.get((pool, flavor))
        if known is None:
            site = self._whole_site(pool, flavor)
            known = [(domain, self.profile.room(domain.key)) for domain in self._free_domains(site)]
            self._open[pool, flavor] = known
        return known

    def _free_domains(self, site: Site) -> list[Domain]:
        """Compute ``_free_now_in``, from the domains with most free GPUs on."""
        if not site.domains:
            return []
        view, first = self.profile.view, site.domains[0].key
        free = view.domains(first.pool, first.flavor).most_free(1)
        found = sorted(site.numbers[key] for _, key in free if key in site.numbers)
        return [site.domains[n] for n in found if _free_gpus(view, site.domains[n]) > 0]

    def _whole_site(self, pool: str, flavor: str) -> Site:
        """Return all domains of a flavor."""
        view = self.profile.view
        index, kept = view.domains(pool, flavor), view.room_index.base.kept
        known: Site | None = kept.get((pool, flavor))
        if known is None:
            islands = [view.island(key) for key in index.keys]
            domains = [Domain(each.key, each.labels, max(each.sizes)) for each in islands]
            sizes = {size for each in islands for size in each.sizes}
            known = kept[pool, flavor] = view.room_index.site(domains, sizes)
        return known

    def next_change_ms(self, run: Run, after_ms: int) -> int | None:
        """Return the first instant after ``after_ms`` at which more may fit than before."""
        least = run.widths()[-1]
        found = (self._next_change(self.ask(run, f, least), after_ms) for f in run.flavors)
        return min((at_ms for at_ms in found if at_ms is not None), default=None)

    def counts_on_ends_now(self, run: Run) -> bool:
        """Return whether something that ``run`` needs is expected to come back at this instant."""
        least, now_ms = run.widths()[-1], self.profile.now_ms
        return any(
            bisect_left(resource.ends_ms, now_ms) < bisect_right(resource.ends_ms, now_ms)
            for flavor in run.flavors
            for resource in self._resources(self.ask(run, flavor, least))
        )

    def lacks_now(self, view: StateView, run: Run) -> Lack:
        """Return what ``run`` lacks to start now if nothing were planned, by counting.

        ``view`` is the profile's view plus what has started since.
        """
        if view.holdings.has_bounds and any(
            quota.free_now < 1 for quota in self.profile.quotas(run.owner)
        ):
            return Lack.QUOTA
        least = run.widths()[-1]
        if len(run.flavors) == 1:
            return self._lacks(view, self.ask(run, run.flavors[0], least))
        lacks = [self._lacks(view, self.ask(run, flavor, least)) for flavor in run.flavors]
        return max(lacks, key=list(Lack).index)

    def _lacks(self, view: StateView, ask: Ask) -> Lack:
        if ask.is_plain:
            if self._left_plainly(view, ask, ask.gpus) < ask.gpus:
                return Lack.FUNDS
            domains, free = self._free_in(view, ask.sites.everywhere)
            least = ask.gpus if ask.in_one else ask.parts.gpus + ask.parts.extra
            # Most runs wait for room, and no domain has enough for a part of them.
            fits = max(free, default=0) >= least
            placement = _filled(ask, domains, free.copy()) if fits else None
            if placement is None:
                return Lack.ROOM
            gpus = sum(gpus for _, gpus in placement)
            return Lack.NOTHING if self._left_plainly(view, ask, gpus) >= gpus else Lack.FUNDS
        payer_list = PayerList(view, ask.cover_at(self.profile.now_ms, None), ask.phases[-1])
        if sum(payer_list.room(key, tier) for key, tier in payer_list.payers) < ask.gpus:
            return Lack.FUNDS
        domains, free = self._free_in(view, ask.sites.everywhere)
        placement = _filled(ask, domains, free.copy())
        if placement is None:
            return Lack.ROOM
        paid = pay(payer_list, _demands(placement), SearchBudget(FIND_STEPS_MAX))
        return Lack.FUNDS if paid is None else Lack.NOTHING

    def _left_plainly(self, view: StateView, ask: Ask, wanted: int) -> int:
        """Return how many GPUs payers that share nothing with each other can pay now.

        When these are as many as ``wanted``, other payers are not looked at.
        """
        now_ms, envelopes, left = self.profile.now_ms, view.envelopes, 0
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

    def _free_in(self, view: StateView, site: Site) -> tuple[list[Domain], list[int]]:
        """Return the domains that have free GPUs in ``view``, in order, and how many each has.

        ``view`` is the profile's view plus what has started since: its sequence tells which.
        """
        known = self._free_after.get(site.number)
        if known is None or known[0] != view.seq:
            free = [(_free_gpus(view, domain), domain) for domain in self._free_now_in(site)]
            some = [each for each in free if each[0]]
            found = ([domain for _, domain in some], [gpus for gpus, _ in some])
            known = self._free_after[site.number] = (view.seq, found)
        return known[1]

    def _free_now_in(self, site: Site) -> list[Domain]:
        """Return the domains of ``site`` that have anything free now, in their order."""
        known = self._free.get(site.number)
        if known is None:
            known = self._free[site.number] = self._free_domains(site)
        return known

    def has_free(self, run: Run) -> bool:
        """Return whether ``run`` may have room now if nothing is planned.

        Payers are not looked at. Where this is False, admission finds no room either.
        """
        least = run.widths()[-1]
        for flavor in run.flavors:
            free, most = self._free_gpus_now(run.pool, flavor)
            if free >= least:
                ask = self.ask(run, flavor, least)
                if most >= (ask.gpus if ask.in_one else ask.parts.gpus + ask.parts.extra):
                    return True
        return False

    def payers_of(self, run: Run) -> list[EnvelopeId]:
        """Return the envelopes that may pay for ``run``, each once."""
        asks = (self.ask(run, flavor, run.widths()[-1]) for flavor in run.flavors)
        return list(dict.fromkeys(key for ask in asks for key, _ in ask.phases[-1]))

    def ask(self, run: Run, flavor: str, width: int) -> Ask:
        """Return what a start of ``run`` in ``flavor`` at ``width`` asks for."""
        key = (run.name, flavor, width, self.has_executor)
        known = self._asks.get(key)
        if not isinstance(known, Ask) or known.run is not run:
            if len(self._asks) >= ASKS_MAX:
                self._asks.clear()
            known = self._asks[key] = self._ask(run, flavor, width)
        return known

    def _ask(self, run: Run, flavor: str, width: int) -> Ask:
        view = self.profile.view
        pool = view.pools[run.pool]
        request = pack_request(run, pool, flavor, width)
        cover = cover_request(view, run, flavor, 0, has_executor=self.has_executor)
        phases, items = payer_phases(view, cover), items_of(request)
        racks = names_label(run.selector, RACK) or names_racks(view, phases[-1])
        sites = self._sites(run, flavor, phases[-1], racks=racks)
        spares = request.spares_per_group
        sizes = sites.everywhere.node_sizes
        if request.whole_nodes and not fills_nodes(items, spares, sizes):
            sites = Sites(view.room_index.site((), ()), ())
        takes_whole = racks or (request.whole_nodes and len(sizes) > 1)
        # A part of a divisible item fills nodes only together with its spares.
        in_parts = request.whole_nodes and spares > 0 and any(item.divisible for item in items)
        bounded = any(
            view.owners[name].quota.nodes_max is not None
            for name in view.holdings.bounds_of(run.owner)
        )
        parts, is_parted = parts_of([(i.gpus, i.count, i.divisible) for i in items], spares)
        return Ask(
            run,
            request,
            items,
            cover,
            phases,
            sites,
            sum((item.gpus + spares) * item.count for item in items),
            parts,
            is_parted,
            takes_whole,
            takes_whole or in_parts or (bounded and not request.whole_nodes),
            len(phases) == 1
            and not racks
            and [payers for payers, _ in sites.by_payers] == [phases[0]]
            and not any(view.envelopes[key].caps for key, _ in phases[0]),
            request.one_domain
            or (len(items) == 1 and items[0].count == 1 and not items[0].divisible),
            cover.duration_ms,
            cover.outlast_ms,
        )

    def _sites(self, run: Run, flavor: str, payers: Payers, *, racks: bool) -> Sites:
        """Return the domains that ``run`` may use, by who pays there."""
        view = self.profile.view
        lines = tuple(view.envelopes[key].spec.selector for key, _ in payers)
        view.domains(run.pool, flavor)  # What was added is in its place from here on.
        kept = view.room_index.base.kept
        key = (run.pool, flavor, run.selector, lines, racks)
        served = kept.get(key)
        if served is None:
            served = kept[key] = _served(view, run, flavor, lines, racks=racks)
        everywhere, sets = served
        return Sites(
            everywhere, tuple((tuple(payers[at] for at in paying), site) for paying, site in sets)
        )

    # --- When ---

    def _start(self, ask: Ask, from_ms: int, steps: SearchBudget, before_ms: int) -> Start | None:
        """Return the first start before ``before_ms``, where and paid by whom."""
        if from_ms >= before_ms or not steps.spend():
            return None
        found = self._counted(ask, from_ms, steps, before_ms)
        if found is None or not ask.is_choosy:
            return found
        real = self._real(ask, found[0])
        return self._real_start(ask, found[0], steps, before_ms) if real is None else real

    def _real_start(
        self, ask: Ask, from_ms: int, steps: SearchBudget, before_ms: int
    ) -> Start | None:
        """Return the first start after ``from_ms`` at which a choosy run would really start.

        By counting there is one at ``from_ms``. Between two critical instants what fits only grows.
        When the search steps are used up, only instants from the last critical one on are tried.
        """
        resources = self._resources(ask)
        critical = _critical(resources, ask.duration_ms, from_ms) + self._windows(ask, from_ms)
        critical = sorted({at_ms for at_ms in critical if at_ms < before_ms})
        last_ms = min(max(_last_end_ms(resources), *critical, from_ms), before_ms - 1)
        at_ms, first = from_ms, list[int]()
        while True:
            index = bisect_right(critical, at_ms)
            stop_ms = critical[index] if index < len(critical) else last_ms + 1
            instants = first + _ends_between(resources, at_ms, stop_ms)
            found = _first_growing(instants, lambda at_ms: self._real_at(ask, at_ms))
            if found is not None or index == len(critical):
                return found
            if not steps.spend(ATTEMPT_STEPS):
                index = len(critical) - 1
            at_ms = critical[index]
            first = [at_ms]

    def _real_at(self, ask: Ask, at_ms: int) -> Start | None:
        """Return the start of a choosy run at ``at_ms``, if it would really start then."""
        found = self._counted(ask, at_ms, SearchBudget(FIND_STEPS_MAX), at_ms + 1)
        return None if found is None else self._real(ask, at_ms)

    def _counted(self, ask: Ask, from_ms: int, steps: SearchBudget, before_ms: int) -> Start | None:
        """Return the first start before ``before_ms`` that counting allows."""
        if ask.in_one:
            return self._in_one_domain(ask, from_ms, steps, before_ms)
        return self._spread(ask, from_ms, steps, before_ms)

    def _in_one_domain(
        self, ask: Ask, from_ms: int, steps: SearchBudget, before_ms: int
    ) -> Start | None:
        """Return the first start in one domain; ties by the domain's key."""
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
        """Return the first start in a domain of several sites, each with payers of its own.

        Sites that are paid for as soon as they may have room come first: where one of them has
        room, the others, which have to wait for money, are searched no further than that.
        """
        best: DomainStart | None = None
        waiting: list[tuple[int, Payers, Site, list[Demand]]] = []
        for payers, site in ask.sites.by_payers:
            at_ms = self._rooms.bound_of(site, ask.gpus, ask.duration_ms, from_ms)
            demands = _demands(((site.domains[0], ask.gpus),))
            legs = self._pay(ask, demands, at_ms, steps) if at_ms < before_ms else None
            if legs is None:
                waiting.append((at_ms, payers, site, demands))
                continue
            paid_at: PaidAt = {at_ms: (at_ms, legs)}
            found = self._in_site(ask, payers, site, at_ms, paid_at, steps, before_ms)
            best, before_ms = _earlier(best, found, before_ms)
        for at_ms, payers, site, demands in waiting:
            paid = self._paid_after(ask, payers, demands, at_ms, steps, before_ms)
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
        """Return the first start in a domain of ``site``.

        ``paid_at`` has what ``_paid_from`` returned for an instant, as far as it was asked.
        """
        duration_ms, room_of = ask.duration_ms, self.profile.room

        def ready_ms(domain: Domain, at_ms: int) -> int | None:
            """Return when room, money and quotas hold together, from ``at_ms`` on."""
            placement = ((domain, ask.gpus),)
            while True:
                if at_ms not in paid_at:
                    demands = _demands(placement)
                    paid_at[at_ms] = self._paid_from(ask, payers, demands, at_ms, steps, before_ms)
                paid = paid_at[at_ms]
                if paid is None:
                    return None
                then_ms = _earliest(self._quotas(ask, placement), duration_ms, paid[0])
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
        """Return the first start over any number of domains.

        A start in one domain counts, too; a start over several is looked for only before that one.
        """
        if ask.is_parted and len(ask.sites.by_payers) == 1:
            return self._parted(ask, from_ms, steps, before_ms)
        single = self._in_one_domain(ask, from_ms, steps, before_ms)
        stop_ms = before_ms if single is None else single[0]
        found = self._spread_anyhow(ask, from_ms, steps, stop_ms)
        return single if found is None else found

    def _parted(self, ask: Ask, from_ms: int, steps: SearchBudget, before_ms: int) -> Start | None:
        """Return the first start of equal parts whose payers are the same in every domain."""
        duration_ms, ((payers, site),) = ask.duration_ms, ask.sites.by_payers
        quotas = self.profile.quotas(ask.run.owner)
        demands = [(_place(site.domains[0]), ask.gpus)] if site.domains else []
        # Money is looked at before room where that is quick: no start is earlier than its payment.
        known = self._paid_by_one(ask, payers, demands, from_ms)
        at_ms = from_ms if known is None else known[0]
        while steps.spend():
            found = self._rooms.in_any(site, ask.parts, duration_ms, at_ms, before_ms)
            if found is None:
                return None
            room_ms, domains = found
            fitting = self._fits_in(ask, domains, room_ms, steps)
            if fitting is not None:
                by_room = at_ms == from_ms and len(ask.items) == 1
                return Start(room_ms, *fitting, by_room=by_room)
            paid = self._paid_from(ask, payers, demands, room_ms, steps, before_ms)
            if paid is None:
                return None
            ready_ms = _earliest([(quota, 1) for quota in quotas], duration_ms, paid[0])
            if ready_ms is None or ready_ms >= before_ms:
                return None
            if ready_ms == room_ms:
                # It may be short of spares' money, or of nodes for some placements.
                return self._spread_anyhow(ask, room_ms, steps, before_ms)
            at_ms = ready_ms
        return None

    def _spread_anyhow(
        self, ask: Ask, from_ms: int, steps: SearchBudget, before_ms: int
    ) -> Start | None:
        """Return the first start over any number of domains, with any payers."""
        duration_ms, site = ask.duration_ms, ask.sites.everywhere
        if before_ms <= from_ms:
            return None
        first = self._rooms.in_any(site, ask.parts, duration_ms, from_ms, before_ms)
        if first is None:
            return None
        first_ms = first[0]
        resources = self._resources(ask)
        critical = _critical(resources, duration_ms, first_ms)
        critical += self._windows(ask, first_ms)
        critical = sorted(at_ms for at_ms in critical if at_ms < before_ms)
        last_ms = min(_last_end_ms(resources), before_ms - 1)

        def tried(at_ms: int) -> tuple[Placement, Sequence[Leg]] | None:
            return self._fits(ask, at_ms, steps)

        found = _first_fitting(tried, critical, first_ms, last_ms, steps)
        return None if found is None else Start(found[0], *found[1])

    def _paid_from(  # noqa: PLR0913, PLR0917 - what, between when, and who pays
        self,
        ask: Ask,
        payers: Payers,
        demands: Sequence[Demand],
        from_ms: int,
        steps: SearchBudget,
        before_ms: int,
    ) -> tuple[int, Sequence[Leg]] | None:
        """Return the first instant before ``before_ms`` at which ``demands`` are paid, and how."""
        legs = self._pay(ask, demands, from_ms, steps)
        if legs is not None:
            return from_ms, legs
        return self._paid_after(ask, payers, demands, from_ms, steps, before_ms)

    def _paid_after(  # noqa: PLR0913, PLR0917 - what, between when, and who pays
        self,
        ask: Ask,
        payers: Payers,
        demands: Sequence[Demand],
        after_ms: int,
        steps: SearchBudget,
        before_ms: int,
    ) -> tuple[int, Sequence[Leg]] | None:
        """Return ``_paid_from`` where ``demands`` are not paid at ``after_ms``."""
        if after_ms + 1 >= before_ms:
            return None
        by_one = self._paid_by_one(ask, payers, demands, after_ms)
        if by_one is not None:
            return by_one if by_one[0] < before_ms else None
        resources = self._payer_resources(payers)
        critical = _critical(resources, ask.duration_ms, after_ms)
        critical += self._windows(ask, after_ms)
        return _first_after(
            lambda at_ms: self._pay(ask, demands, at_ms, steps),
            sorted(at_ms for at_ms in critical if at_ms < before_ms),
            after_ms,
            min(_last_end_ms(resources), before_ms - 1),
            steps,
        )

    def _paid_by_one(
        self, ask: Ask, payers: Payers, demands: Sequence[Demand], from_ms: int
    ) -> tuple[int, Sequence[Leg]] | None:
        """Return the same as ``_paid_from`` where one envelope pays, whose window outlasts the run.

        None where that is not so: then this says nothing.
        """
        if not ask.is_plain or len(payers) != 1 or not demands:
            return None
        profile, ((key, _),) = self.profile, payers
        spec = profile.view.envelopes[key].spec
        if not is_open(spec, from_ms, from_ms + ask.lead_ms, profile.now_ms):
            return None
        gpus = sum(wanted for _, wanted in demands)
        at_ms = profile.payer(key).earliest(gpus, ask.duration_ms, from_ms)
        if at_ms is None or at_ms + ask.duration_ms > spec.end_ms:
            return None  # Close to its end a window is paid for to the end only.
        legs = self._pay_plainly(ask, demands, at_ms)
        return None if legs is None else (at_ms, legs)

    def _next_change(self, ask: Ask, after_ms: int) -> int | None:
        """Return the first instant after ``after_ms`` at which what ``ask`` needs grows."""
        found = [at_ms for at_ms in self._windows(ask, after_ms) if at_ms > after_ms]
        for resource in self._resources(ask):
            for instants in (resource.ends_ms, resource.steps_ms):
                at = bisect_right(instants, after_ms)
                if at < len(instants):
                    found.append(instants[at])
        return min(found, default=None)

    def _windows(self, ask: Ask, after_ms: int) -> list[int]:
        """Return when windows of payers open or become too short, after an instant."""
        found = set()
        lead_ms = ask.lead_ms
        for key, _ in ask.phases[-1]:
            spec = self.profile.view.envelopes[key].spec
            found |= {spec.start_ms, spec.end_ms - max(0, lead_ms)}
        return [at_ms for at_ms in found if at_ms > after_ms]

    def _resources(self, ask: Ask) -> list[Resource]:
        found = [self.profile.room(domain.key) for domain in ask.sites.everywhere.domains]
        found += self._payer_resources(ask.phases[-1])
        found += self.profile.quotas(ask.run.owner)
        return found

    def _payer_resources(self, payers: Iterable[tuple[EnvelopeId, Tier]]) -> list[Resource]:
        profile, found = self.profile, list[Resource]()
        for key in dict.fromkeys(key for key, _ in payers):
            account = profile.view.envelopes[key]
            found.append(profile.payer(key))
            if account.spec.lending.concurrency_max is not None:
                found.append(profile.lent(key))
            found += [profile.cap(cap) for cap in account.caps]
        return found

    # --- Where, and paid by whom ---

    def _fits(
        self, ask: Ask, at_ms: int, steps: SearchBudget
    ) -> tuple[Placement, Sequence[Leg]] | None:
        """Return where ``ask`` goes at ``at_ms`` and who pays, by counting; None if it does not."""
        for domains in ask.sites.sets:
            found = self._fits_in(ask, domains, at_ms, steps)
            if found is not None:
                return found
        return None

    def _fits_in(
        self, ask: Ask, domains: Sequence[Domain], at_ms: int, steps: SearchBudget
    ) -> tuple[Placement, Sequence[Leg]] | None:
        """Return where in ``domains``, of the same payers, ``ask`` goes at ``at_ms``."""
        until_ms = at_ms + ask.duration_ms
        for placement in self._placements(ask, domains, at_ms, until_ms):
            if any(q.least(at_ms, until_ms) < n for q, n in self._quotas(ask, placement)):
                continue
            legs = self._pay(ask, _demands(placement), at_ms, steps)
            if legs is not None:
                return placement, legs
            if len(placement) == 1:
                break  # Another domain of the same payers costs them the same.
        return None

    def _placements(
        self, ask: Ask, domains: Sequence[Domain], from_ms: int, until_ms: int
    ) -> Iterator[Placement]:
        """Yield placements by counting: in each domain that holds it all, or else over several."""
        free, room_of = [], self.profile.room
        for domain in domains:
            left = room_of(domain.key).least(from_ms, until_ms)
            if left >= ask.gpus:
                yield ((domain, ask.gpus),)
            free.append(left)
        if not ask.in_one and all(left < ask.gpus for left in free):
            filled = _filled(ask, domains, free)
            if filled is not None:
                yield filled

    def _pay(
        self, ask: Ask, demands: Sequence[Demand], at_ms: int, steps: SearchBudget
    ) -> Sequence[Leg] | None:
        """Return who pays for ``demands`` from ``at_ms`` on, family first; None if they cannot."""
        if ask.is_plain:
            return self._pay_plainly(ask, demands, at_ms)
        cover = ask.cover_at(at_ms, self.profile.now_ms)
        accounts = ExpectedAccounts(self.profile, at_ms, at_ms + cover.duration_ms)
        for phase in ask.phases:
            payers = accounts.with_width(phase)
            legs = pay(PayerList(accounts, cover, payers), demands, steps)
            if legs is not None:
                return legs
        return None

    def _pay_plainly(self, ask: Ask, demands: Sequence[Demand], at_ms: int) -> Sequence[Leg] | None:
        """Return who pays, where all payers pay everywhere and share nothing with each other.

        So it is enough to ask them in order, each for as much as it can pay. None: they cannot pay
        for it together.
        """
        profile, duration_ms = self.profile, ask.duration_ms
        outlast_ms, asked_ms = at_ms + ask.lead_ms, profile.now_ms
        legs, index, (_, left) = list[Leg](), 0, demands[0]
        for key, tier in ask.sites.by_payers[0][0]:
            account = profile.view.envelopes[key]
            if not is_open(account.spec, at_ms, outlast_ms, asked_ms):
                continue
            end_ms = account.spec.end_ms
            room = profile.payer(key).least(at_ms, max(at_ms + 1, min(at_ms + duration_ms, end_ms)))
            if room <= 0:
                continue
            hold_ms = min(duration_ms, end_ms - at_ms)
            taken = account.committed_gpu_ms + profile.payer_gpu_ms.get(key, 0)
            room = min(room, (account.spec.gpu_ms_granted - taken) // hold_ms)
            while room > 0:
                gpus = min(left, room)
                legs.append(Leg(index, key, tier, gpus, hold_ms))
                left -= gpus
                room -= gpus
                if not left:
                    index += 1
                    if index == len(demands):
                        return legs
                    left = demands[index][1]
        return None

    def _quotas(self, ask: Ask, placement: Placement) -> list[Need]:
        """Return the hard quotas that a start counts for, and how much of each it needs.

        Of nodes, the fewest that it needs: in a pool that shares nodes, it may first use the GPUs
        that the quota's owner does not use on nodes it holds already.
        """
        view, owner = self.profile.view, ask.run.owner
        found: list[Need] = []
        for name in view.holdings.bounds_of(owner):
            quota = view.owners[name].quota
            if quota.concurrent_runs_max is not None:
                found.append((self.profile.runs(name), 1))
            if quota.nodes_max is not None:
                left = 0 if ask.request.whole_nodes else view.holdings.room.get(name, 0)
                found.append((self.profile.nodes(name), _nodes_of(placement, left)))
        return found

    def _real(self, ask: Ask, at_ms: int) -> Start | None:
        """Return where a choosy run would really start in the state expected at ``at_ms``.

        A start that takes whole domains later than now may use only domains without other entries.
        """
        admitted = self._expected.would_start(
            replace(ask.run, flavors=(ask.request.flavor,)),
            at_ms,
            has_executor=self.has_executor,
            takes_whole=ask.takes_whole and at_ms > self.profile.now_ms,
        )
        if admitted is None:
            return None
        domains = {domain.key.domain: domain for domain in ask.sites.everywhere.domains}
        there = slice_of(admitted).domains
        placement = tuple((domains[name], gpus) for name, gpus in there)
        return Start(at_ms, placement, admitted.legs, admitted.width)

    def _entry(self, ask: Ask, start_ms: int, placement: Placement, legs: Sequence[Leg]) -> Entry:
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
            _nodes_of(placement, room),
        )
        # As once it is firm: other payers might have been for certain racks, and these are not.
        is_choice = ask.takes_whole and is_choosy(view, run, entry)
        return replace(entry, is_choosy=True) if is_choice else entry


Served = tuple[Site, list[tuple[tuple[int, ...], Site]]]
"""All domains where a budget line pays, and these domains by the numbers of the paying lines."""


def _served(
    view: StateView, run: Run, flavor: str, lines: Sequence[Selector], *, racks: bool
) -> Served:
    """Return where ``run`` may go and one of ``lines`` pays."""
    served: dict[tuple[int, ...], list[Domain]] = {}
    everywhere, sizes = list[Domain](), dict[IslandKey, Iterable[int]]()
    for key in view.domains(run.pool, flavor).keys:
        island = view.island(key)
        labels = island.labels
        if contradicts(run.selector, labels):
            continue
        paying = tuple(
            number
            for number, line in enumerate(lines)
            if (not contradicts(line, labels) if racks else matches(line, labels))
        )
        if paying:
            domain = Domain(key, labels, max(island.sizes))
            sizes[key] = island.sizes
            everywhere.append(domain)
            served.setdefault(paying, []).append(domain)

    def site(domains: Collection[Domain]) -> Site:
        there = {size for domain in domains for size in sizes[domain.key]}
        return view.room_index.site(domains, there)

    whole = site(everywhere)
    if len(served) == 1:
        return whole, [(paying, whole) for paying in served]
    return whole, [(paying, site(domains)) for paying, domains in served.items()]


def _nodes_of(placement: Placement, left: int) -> int:
    """Return the fewest nodes that hold ``placement`` when ``left`` GPUs need none."""
    nodes = 0
    for domain, gpus in placement:
        own = min(gpus, left)
        left -= own
        nodes += -(-(gpus - own) // domain.nodes_gpus)
    return nodes


def _free_gpus(view: StateView, domain: Domain) -> int:
    """Return how many GPUs of a domain are free, of whole nodes where its pool gives those."""
    island = view.island(domain.key)
    return whole_gpus(island) if view.pools[domain.key.pool].whole_nodes else island.gpus_free


def _demands(placement: Placement) -> list[Demand]:
    return [(_place(domain), gpus) for domain, gpus in placement]


def _place(domain: Domain) -> Place:
    return Place(domain.key.domain, domain.labels)


def _holds(request: PackRequest, items: tuple[Item, ...], free: Sequence[int]) -> bool:
    """Return whether domains with ``free`` GPUs hold ``request``."""
    spares = request.spares_per_group
    gpus = sum((item.gpus + spares) * item.count for item in items)
    if any(left >= gpus for left in free):
        return True
    return not request.one_domain and _divide(items, spares, list(free)) is not None


def _filled(ask: Ask, domains: Sequence[Domain], free: list[int]) -> Placement | None:
    """Return a placement where ``free`` GPUs are free of ``domains``; None if there is none."""
    for domain, left in zip(domains, free, strict=True):
        if left >= ask.gpus:
            return ((domain, ask.gpus),)
    if ask.in_one:
        return None
    taken = _divide(ask.items, ask.request.spares_per_group, free)
    if taken is None:
        return None
    return tuple((domains[at], gpus) for at, gpus in enumerate(taken) if gpus)


def _divide(items: tuple[Item, ...], spares: int, free: list[int]) -> list[int] | None:
    """Return how many GPUs of each domain hold ``items``, the widest groups first; None if none."""
    taken = [0] * len(free)
    for item in sorted(items, key=lambda each: -each.gpus):
        fill = _divided if item.divisible else _grouped
        if not fill(item, spares, free, taken):
            return None
    return taken


def _divided(item: Item, spares: int, free: list[int], taken: list[int]) -> bool:
    """Put a divisible item into domains in their order; each part of it costs its spares."""
    left = item.gpus
    for at, gpus_free in enumerate(free):
        gpus = min(left, gpus_free - spares)
        if gpus > 0:
            taken[at] += gpus + spares
            free[at] -= gpus + spares
            left -= gpus
            if not left:
                return True
    return False


def _grouped(item: Item, spares: int, free: list[int], taken: list[int]) -> bool:
    """Put groups into domains in their order; a single one goes where it leaves least."""
    size, left = item.gpus + spares, item.count
    if left == 1:
        fitting = [(gpus_free, at) for at, gpus_free in enumerate(free) if gpus_free >= size]
        if not fitting:
            return False
        at = min(fitting)[1]
        taken[at] += size
        free[at] -= size
        return True
    for at, gpus_free in enumerate(free):
        count = min(left, max(0, gpus_free) // size)
        taken[at] += count * size
        free[at] -= count * size
        left -= count
    return not left


def _earliest(needs: Sequence[Need], duration_ms: int, from_ms: int) -> int | None:
    """Return the first instant from which all of ``needs`` hold for a while."""
    at_ms = from_ms
    while True:
        before_ms = at_ms
        for resource, amount in needs:
            found = resource.earliest(amount, duration_ms, at_ms)
            if found is None:
                return None
            at_ms = found
        if at_ms == before_ms:
            return at_ms


def _earlier(
    best: DomainStart | None, found: DomainStart | None, before_ms: int
) -> tuple[DomainStart | None, int]:
    """Return the earlier start, ties by the domain's key, and before when a better one has to be.

    ``before_ms`` is when that was before ``found``.
    """
    if found is None:
        return best, before_ms
    if best is not None:
        found = min(best, found, key=lambda start: (start[0], start[1].key))
    return found, found[0] + 1


def _critical(resources: Iterable[Resource], duration_ms: int, after_ms: int) -> list[int]:
    """Return the instants after ``after_ms`` at which less may fit than just before."""
    found: set[int] = set()
    for resource in resources:
        steps_ms = resource.steps_ms
        for at_ms in steps_ms[bisect_right(steps_ms, after_ms) :]:
            found.add(at_ms)
            if at_ms - duration_ms + 1 > after_ms:
                found.add(at_ms - duration_ms + 1)
    return list(found)


def _last_end_ms(resources: Iterable[Resource]) -> int:
    """Return the instant from which nothing more comes back."""
    return max((r.ends_ms[-1] for r in resources if r.ends_ms), default=0)


def _first_fitting(
    tried: Callable[[int], T | None],
    critical: Sequence[int],
    from_ms: int,
    last_ms: int,
    steps: SearchBudget,
) -> tuple[int, T] | None:
    """Return the first instant from ``from_ms`` on that fits, and how.

    Between two of ``critical``, which are in order, what fits only grows.
    """
    found = tried(from_ms)
    if found is not None:
        return from_ms, found
    return _first_after(tried, critical, from_ms, last_ms, steps)


def _first_after(
    tried: Callable[[int], T | None],
    critical: Sequence[int],
    after_ms: int,
    last_ms: int,
    steps: SearchBudget,
) -> tuple[int, T] | None:
    """Return ``_first_fitting`` where ``after_ms`` does not fit."""
    at_ms, index = after_ms, bisect_right(critical, after_ms)
    while True:
        stop_ms = critical[index] if index < len(critical) else max(at_ms, last_ms) + 1
        if stop_ms - 1 > at_ms or index == len(critical):
            found = tried(stop_ms - 1)
            if found is not None:
                return _halved(tried, at_ms, stop_ms - 1, found)
        if index == len(critical) or not steps.spend():
            return None
        at_ms = critical[index]
        index += 1
        found = tried(at_ms)
        if found is not None:
            return at_ms, found


def _ends_between(resources: Iterable[Resource], after_ms: int, before_ms: int) -> list[int]:
    """Return the instants between two at which something comes back, in order."""
    found: set[int] = set()
    for resource in resources:
        ends_ms = resource.ends_ms
        found.update(ends_ms[bisect_right(ends_ms, after_ms) : bisect_left(ends_ms, before_ms)])
    return sorted(found)


def _first_growing(instants: Sequence[int], tried: Callable[[int], T | None]) -> T | None:
    """Return what ``tried`` returns for the first of ``instants`` that fits; what fits only grows.

    Near instants are tried first: trying a far one costs most.
    """
    low, high, found = -1, 0, None
    while low + 1 < len(instants):
        found = tried(instants[high])
        if found is not None:
            break
        low, high = high, min(2 * high + 1, len(instants) - 1)
    while found is not None and high - low > 1:
        middle = (low + high) // 2
        fitting = tried(instants[middle])
        if fitting is None:
            low = middle
        else:
            high, found = middle, fitting
    return found


def _halved(tried: Callable[[int], T | None], low_ms: int, high_ms: int, found: T) -> tuple[int, T]:
    """Return the first instant after ``low_ms``, which does not fit, that does, and how.

    ``high_ms`` fits, as ``found`` says.
    """
    while high_ms - low_ms > 1:
        middle_ms = (low_ms + high_ms) // 2
        fitting = tried(middle_ms)
        if fitting is None:
            low_ms = middle_ms
        else:
            high_ms, found = middle_ms, fitting
    return high_ms, found
