"""The earliest start of one run in a profile, found by counting.

Quota, payers and room must all hold for the expected duration and one grace. Between two critical
instants, at which the plan begins to take something or a window opens or closes, what fits only
grows; so the last millisecond of such a stretch tells whether anything in it fits, and halving
finds the first. Where counting is not enough (racks, nodes of several sizes that are given whole, a
quota of nodes that are shared), the start is tried in the state expected then.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from quorate.core.admit import cover_request
from quorate.core.cover import payer_phases
from quorate.core.holds import expected_ms
from quorate.core.layout import PackRequest, pack_request
from quorate.core.payment import pay
from quorate.core.planning.accounts import ExpectedAccounts
from quorate.core.planning.entry import Entry, shares_of
from quorate.core.planning.profile import Need, Profile
from quorate.core.planning.resource import FOREVER_MS, Resource
from quorate.core.planning.room import would_start
from quorate.core.purse import CoverRequest, Demand, Leg, Place, Purse, names_racks
from quorate.core.spread import Item, fills_nodes, items_of
from quorate.core.steps import Steps
from quorate.model.events import Slice, Tier
from quorate.model.island import IslandKey
from quorate.model.selector import RACK, contradicts, matches, names_label
from quorate.model.specs import EnvelopeId, Run
from quorate.model.view import Payers
from quorate.model.words import Word

T = TypeVar("T")

FIND_STEPS_MAX: Final = 300
"""How long one start is searched for. Overlapping caps make paying hard, and many are planned."""
ATTEMPT_STEPS: Final = 25
"""How many steps of searching one look at a later instant counts for."""


class Lack(Word):
    """What a run lacks to start now, the plan aside: the first of these that it does."""

    QUOTA = "quota"
    FUNDS = "funds"
    ROOM = "room"
    NOTHING = "nothing"


class Domain(Struct, frozen=True, gc=False):
    """A domain that a run may use: its room, and which payers pay there."""

    key: IslandKey
    place: Place
    room: Resource
    payers: Payers
    nodes_gpus: int


class Ask(Struct, frozen=True, gc=False):
    """One flavor at one width: what is to be placed, where it may go and who may pay."""

    run: Run
    request: PackRequest
    items: tuple[Item, ...]
    cover: CoverRequest
    phases: tuple[Payers, ...]
    domains: tuple[Domain, ...]
    sets: tuple[Sequence[Domain], ...]
    """The domains with the same payers together, then all of them."""
    gpus: int
    """All GPUs of it in one domain, spares included."""
    takes_whole: bool
    """Whether counting GPUs of a domain is not enough: it needs certain racks or node sizes."""
    is_choosy: bool
    """Whether counting is not enough for any reason, so that a start is tried for real."""

    @property
    def in_one(self) -> bool:
        """Whether it goes into one domain in any case."""
        return self.request.one_domain or (
            len(self.items) == 1 and self.items[0].count == 1 and not self.items[0].divisible
        )


Placement = tuple[tuple[Domain, int], ...]
"""GPUs by domain, spares included."""


class Searcher:
    """Finds starts in one profile. Keeps what it has found out about runs that ask for the same."""

    __slots__ = ("_asks", "_open", "_places", "has_executor", "profile")

    def __init__(self, profile: Profile, *, has_executor: bool) -> None:
        self.profile = profile
        self.has_executor = has_executor
        self._asks: dict[tuple[str, str, int], Ask] = {}
        self._open: dict[tuple[str, str], list[tuple[dict[str, str], Resource, int]]] = {}
        self._places: dict[tuple[object, ...], tuple[tuple[Domain, ...], frozenset[int]]] = {}

    def find(self, run: Run, from_ms: int, steps: Steps | None = None) -> Entry | None:
        """Return the earliest start of ``run`` from ``from_ms`` on; None if there is none.

        The start of its least width, at the widest width that fits there; ties by flavor, then
        domain.
        """
        steps = Steps(FIND_STEPS_MAX) if steps is None else steps
        *_, least = widths = run.widths()
        best: tuple[int, Ask, Placement, Sequence[Leg]] | None = None
        for flavor in run.flavors:
            ask = self.ask(run, flavor, least)
            found = self._start(ask, from_ms, steps, FOREVER_MS if best is None else best[0])
            if found is not None and (best is None or found[0] < best[0]):
                best = (found[0], ask, found[1], found[2])
        if best is None:
            return None
        start_ms, ask, placement, legs = best
        for width in widths[:-1]:
            wider = self.ask(run, ask.request.flavor, width)
            fitting = self._fits(wider, start_ms, steps)
            if fitting is not None:
                return self._entry(wider, start_ms, *fitting)
        return self._entry(ask, start_ms, placement, legs)

    def fits_now(self, run: Run) -> bool:
        """Return whether counting does not speak against a start of ``run`` now."""
        now_ms, steps = self.profile.now_ms, Steps(FIND_STEPS_MAX)
        least = run.widths()[-1]
        return any(
            self._fits(self.ask(run, flavor, least), now_ms, steps) is not None
            for flavor in run.flavors
        )

    def has_room_now(self, run: Run, duration_ms: int) -> bool:
        """Return whether there is room for ``run`` from now on for a while, whoever pays."""
        pool, least, now_ms = (
            self.profile.view.pools[run.pool],
            run.widths()[-1],
            self.profile.now_ms,
        )
        for flavor in run.flavors:
            rooms = self._open_rooms(run.pool, flavor)
            if sum(free for _, _, free in rooms) < least:
                continue
            request = pack_request(run, pool, flavor, least)
            free = [
                room.least(now_ms, now_ms + duration_ms)
                for labels, room, _ in rooms
                if not contradicts(run.selector, labels)
            ]
            if _holds(request, items_of(request), free):
                return True
        return False

    def _open_rooms(self, pool: str, flavor: str) -> list[tuple[dict[str, str], Resource, int]]:
        """Return (labels, room, GPUs) of the domains that have anything free now.

        As of when it was first asked in this walk: there is only ever less.
        """
        known = self._open.get((pool, flavor))
        if known is None:
            view, now_ms = self.profile.view, self.profile.now_ms
            known = self._open[pool, flavor] = [
                (view.island(key).labels, room, free)
                for key in view.domains(pool, flavor).keys
                if (free := (room := self.profile.room(key)).value(now_ms)) > 0
            ]
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

    def lacks_now(self, run: Run) -> Lack:
        """Return what ``run`` lacks to start now if nothing were planned, by counting."""
        if any(quota.free_now < 1 for quota in self.profile.quotas(run.owner)):
            return Lack.QUOTA
        least = run.widths()[-1]
        lacks = [self._lacks(self.ask(run, flavor, least)) for flavor in run.flavors]
        return max(lacks, key=list(Lack).index)

    def _lacks(self, ask: Ask) -> Lack:
        view = self.profile.view
        purse = Purse(view, replace(ask.cover, asked_ms=None), ask.phases[-1])
        if sum(purse.room(key, tier) for key, tier in purse.payers) < ask.gpus:
            return Lack.FUNDS
        free = [domain.room.free_now for domain in ask.domains]
        placement = _filled(ask, ask.domains, free)
        if placement is None:
            return Lack.ROOM
        paid = pay(purse, _demands(placement), Steps(FIND_STEPS_MAX))
        return Lack.FUNDS if paid is None else Lack.NOTHING

    def ask(self, run: Run, flavor: str, width: int) -> Ask:
        """Return what a start of ``run`` in ``flavor`` at ``width`` asks for."""
        known = self._asks.get((run.name, flavor, width))
        if known is None:
            known = self._asks[run.name, flavor, width] = self._ask(run, flavor, width)
        return known

    def _ask(self, run: Run, flavor: str, width: int) -> Ask:
        view, now_ms = self.profile.view, self.profile.now_ms
        pool = view.pools[run.pool]
        request = pack_request(run, pool, flavor, width)
        cover = cover_request(
            view, run, flavor, now_ms, has_executor=self.has_executor, asked_ms=now_ms
        )
        phases, items = payer_phases(view, cover), items_of(request)
        racks = names_label(run.selector, RACK) or names_racks(view, phases[-1])
        domains, sizes = self._domains(run, flavor, phases[-1], racks=racks)
        spares = request.spares_per_group
        if request.whole_nodes and not fills_nodes(items, spares, sizes):
            domains = ()
        takes_whole = racks or (request.whole_nodes and len(sizes) > 1)
        # A part of a divisible item fills nodes only together with its spares.
        in_parts = request.whole_nodes and spares > 0 and any(item.divisible for item in items)
        bounded = any(
            view.owners[name].quota.nodes_max is not None
            for name in view.holdings.bounds_of(run.owner)
        )
        return Ask(
            run,
            request,
            items,
            cover,
            phases,
            domains,
            _alike(domains),
            sum((item.gpus + spares) * item.count for item in items),
            takes_whole,
            takes_whole or in_parts or (bounded and not request.whole_nodes),
        )

    def _domains(
        self, run: Run, flavor: str, payers: Payers, *, racks: bool
    ) -> tuple[tuple[Domain, ...], frozenset[int]]:
        """Return the domains that ``run`` may use and is paid for in, and their node sizes."""
        key = (run.pool, flavor, run.selector, payers)
        known = self._places.get(key)
        if known is None:
            view, found, sizes = self.profile.view, list[Domain](), set[int]()
            lines = [(payer, view.envelopes[payer[0]].spec.selector) for payer in payers]
            for island_key in sorted(view.domains(run.pool, flavor).keys):
                island = view.island(island_key)
                labels = island.labels
                if contradicts(run.selector, labels):
                    continue
                paying = tuple(
                    payer
                    for payer, line in lines
                    if (not contradicts(line, labels) if racks else matches(line, labels))
                )
                if paying:
                    sizes.update(island.sizes)
                    place = Place(island_key.domain, labels)
                    room = self.profile.room(island_key)
                    found.append(Domain(island_key, place, room, paying, max(island.sizes)))
            known = self._places[key] = (tuple(found), frozenset(sizes))
        return known

    # --- When ---

    def _start(
        self, ask: Ask, from_ms: int, steps: Steps, before_ms: int
    ) -> tuple[int, Placement, Sequence[Leg]] | None:
        """Return the first start before ``before_ms``, where and paid by whom."""
        if not ask.domains:
            return None
        at_ms = from_ms
        while at_ms < before_ms and steps.spend():
            found = (
                self._in_one_domain(ask, at_ms, steps, before_ms)
                if ask.in_one
                else self._spread(ask, at_ms, steps, before_ms)
            )
            if found is None or not ask.is_choosy or self._is_real(ask, *found[:2]):
                return found
            later = self._next_change(ask, found[0])
            if later is None or not steps.spend(ATTEMPT_STEPS):
                return None
            at_ms = later
        return None

    def _in_one_domain(
        self, ask: Ask, from_ms: int, steps: Steps, before_ms: int
    ) -> tuple[int, Placement, Sequence[Leg]] | None:
        """Return the first start in one domain; ties by the domain's key."""
        duration_ms, best_ms, best = ask.cover.duration_ms, before_ms, None
        for domain in ask.domains:
            room = domain.room
            at_ms: int | None = from_ms
            while at_ms is not None:
                at_ms = room.earliest(ask.gpus, duration_ms, at_ms)
                if at_ms is None or at_ms >= best_ms:
                    break
                placement = ((domain, ask.gpus),)
                paid = self._paid_from(ask, placement, at_ms, steps)
                if paid is None:
                    break
                ready_ms = _earliest(self._quotas(ask, placement), duration_ms, paid[0])
                if ready_ms is None:
                    break
                if ready_ms == at_ms:
                    best_ms, best = at_ms, (at_ms, placement, paid[1])
                    break
                at_ms = ready_ms
            if best_ms == from_ms:
                break
        return best

    def _spread(
        self, ask: Ask, from_ms: int, steps: Steps, before_ms: int
    ) -> tuple[int, Placement, Sequence[Leg]] | None:
        """Return the first start over any number of domains.

        In one domain it may start, too, and spread it is looked for before that only.
        """
        single = self._in_one_domain(ask, from_ms, steps, before_ms)
        stop_ms = before_ms if single is None else single[0]
        if stop_ms <= from_ms:
            return single
        resources = self._resources(ask)
        critical = _critical(resources, ask.cover.duration_ms, from_ms)
        critical += self._windows(ask, from_ms)
        critical = sorted(at_ms for at_ms in critical if at_ms < stop_ms)
        last_ms = min(_last_end_ms(resources), stop_ms - 1)

        def tried(at_ms: int) -> tuple[Placement, Sequence[Leg]] | None:
            return self._fits(ask, at_ms, steps)

        found = _first_fitting(tried, critical, from_ms, last_ms, steps)
        return single if found is None else (found[0], *found[1])

    def _paid_from(
        self, ask: Ask, placement: Placement, from_ms: int, steps: Steps
    ) -> tuple[int, Sequence[Leg]] | None:
        """Return the first instant from ``from_ms`` on at which ``placement`` is paid, and how."""
        demands = _demands(placement)
        legs = self._pay(ask, demands, from_ms, steps)
        if legs is not None:
            return from_ms, legs
        payers = [payer for domain, _ in placement for payer in domain.payers]
        resources = self._payer_resources(payers)
        critical = _critical(resources, ask.cover.duration_ms, from_ms)
        critical += self._windows(ask, from_ms)
        critical.sort()
        return _first_fitting(
            lambda at_ms: self._pay(ask, demands, at_ms, steps),
            critical,
            from_ms,
            _last_end_ms(resources),
            steps,
        )

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
        lead_ms = ask.cover.outlast_ms - ask.cover.now_ms
        for key, _ in ask.phases[-1]:
            spec = self.profile.view.envelopes[key].spec
            found |= {spec.start_ms, spec.end_ms - max(0, lead_ms)}
        return [at_ms for at_ms in found if at_ms > after_ms]

    def _resources(self, ask: Ask) -> list[Resource]:
        found = [domain.room for domain in ask.domains]
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

    def _fits(self, ask: Ask, at_ms: int, steps: Steps) -> tuple[Placement, Sequence[Leg]] | None:
        """Return where ``ask`` goes at ``at_ms`` and who pays, by counting; None if it does not."""
        until_ms = at_ms + ask.cover.duration_ms
        for domains in ask.sets:
            for placement in _placements(ask, domains, at_ms, until_ms):
                if any(q.least(at_ms, until_ms) < n for q, n in self._quotas(ask, placement)):
                    continue
                legs = self._pay(ask, _demands(placement), at_ms, steps)
                if legs is not None:
                    return placement, legs
                if len(placement) == 1:
                    break  # Another domain of the same payers costs them the same.
        return None

    def _pay(
        self, ask: Ask, demands: Sequence[Demand], at_ms: int, steps: Steps
    ) -> Sequence[Leg] | None:
        """Return who pays for ``demands`` from ``at_ms`` on, family first; None if they cannot."""
        grace_ms = ask.cover.outlast_ms - ask.cover.now_ms
        cover = replace(ask.cover, now_ms=at_ms, outlast_ms=at_ms + grace_ms)
        accounts = ExpectedAccounts(self.profile, at_ms, at_ms + cover.duration_ms)
        for payers in ask.phases:
            legs = pay(Purse(accounts, cover, payers), demands, steps)
            if legs is not None:
                return legs
        return None

    def _quotas(self, ask: Ask, placement: Placement) -> list[Need]:
        """Return the hard quotas that a start counts for: the fewest nodes that it needs more.

        In a pool that shares nodes what its owner's own nodes have left is used first.
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

    def _is_real(self, ask: Ask, at_ms: int, placement: Placement) -> bool:
        """Return whether a choosy run would really start in the state expected at ``at_ms``.

        Later than now it takes whole domains, so only those that nothing else is planned for.
        """
        until_ms = at_ms + ask.cover.duration_ms
        is_planned = ask.takes_whole and at_ms > self.profile.now_ms
        if is_planned and any(d.room.most_taken(at_ms, until_ms) for d, _ in placement):
            return False
        return would_start(self.profile, ask.run, at_ms, has_executor=self.has_executor)

    def _entry(self, ask: Ask, start_ms: int, placement: Placement, legs: Sequence[Leg]) -> Entry:
        view, run = self.profile.view, ask.run
        domains = tuple((domain.key.domain, gpus) for domain, gpus in placement)
        room = 0
        if not ask.request.whole_nodes:
            bounds = view.holdings.bounds_of(run.owner)
            room = min((view.holdings.room.get(name, 0) for name in bounds), default=0)
        return Entry(
            run.name,
            run.owner,
            run.pool,
            start_ms,
            start_ms + expected_ms(run, view.pools[run.pool]),
            Slice(ask.request.flavor, ask.request.gpus, domains),
            shares_of(legs),
            _nodes_of(placement, room),
            ask.takes_whole,
        )


def _nodes_of(placement: Placement, left: int) -> int:
    """Return the fewest nodes that hold ``placement`` when ``left`` GPUs need none."""
    nodes = 0
    for domain, gpus in placement:
        own = min(gpus, left)
        left -= own
        nodes += -(-(gpus - own) // domain.nodes_gpus)
    return nodes


def _demands(placement: Placement) -> list[Demand]:
    return [(domain.place, gpus) for domain, gpus in placement]


def _alike(domains: tuple[Domain, ...]) -> tuple[Sequence[Domain], ...]:
    """Return the sets of domains to place a run in: those with the same payers, then all."""
    sets: dict[Payers, list[Domain]] = {}
    for domain in domains:
        sets.setdefault(domain.payers, []).append(domain)
    found: list[Sequence[Domain]] = list(sets.values())
    return (*found, domains) if len(found) > 1 else tuple(found)


def _placements(
    ask: Ask, domains: Sequence[Domain], from_ms: int, until_ms: int
) -> Iterator[Placement]:
    """Yield placements by counting: all in one of the domains that hold it, then filled by key."""
    free = []
    for domain in domains:
        left = domain.room.least(from_ms, until_ms)
        if left >= ask.gpus:
            yield ((domain, ask.gpus),)
        free.append(left)
    if not ask.in_one and all(left < ask.gpus for left in free):
        filled = _filled(ask, domains, free)
        if filled is not None:
            yield filled


def _holds(request: PackRequest, items: tuple[Item, ...], free: list[int]) -> bool:
    """Return whether domains with ``free`` GPUs hold ``request``."""
    spares = request.spares_per_group
    gpus = sum((item.gpus + spares) * item.count for item in items)
    if any(left >= gpus for left in free):
        return True
    return not request.one_domain and _divide(items, spares, free) is not None


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
    steps: Steps,
) -> tuple[int, T] | None:
    """Return the first instant from ``from_ms`` on that fits, and how.

    Between two of ``critical``, which are in order, what fits only grows.
    """
    found = tried(from_ms)
    if found is not None:
        return from_ms, found
    at_ms, index = from_ms, bisect_right(critical, from_ms)
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


def _halved(tried: Callable[[int], T | None], low_ms: int, high_ms: int, found: T) -> tuple[int, T]:
    """Return the first instant that fits: none at ``low_ms``, as ``found`` at ``high_ms``."""
    while high_ms - low_ms > 1:
        middle_ms = (low_ms + high_ms) // 2
        fitting = tried(middle_ms)
        if fitting is None:
            low_ms = middle_ms
        else:
            high_ms, found = middle_ms, fitting
    return high_ms, found
