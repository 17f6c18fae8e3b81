"""The profile: how much of each resource will be free over time, as far as is known now.

The resources are rooms, payers (concurrency, lending, caps, GPU-hours) and hard quotas (nodes,
runs). A room is the GPUs of a domain and flavor. If the pool gives whole nodes, a room has only the
GPUs of free nodes. For firm starts whose run or payers name racks, the nodes of these racks are
rooms, too (``rack_rooms``). Each resource is a step function over time, computed from the view when
it is first read. Planned starts are inserted as entries. The view must not change while the profile
is used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from quorate.core.profile.expected_returns import ExpectedReturns
from quorate.core.profile.gained_rooms import GainedRooms
from quorate.core.profile.plan_entry import Entry
from quorate.core.profile.quota_headroom import QuotaHeadroom
from quorate.core.profile.rack_rooms import Nodes, rack_demands, rack_room, wanted_of
from quorate.core.profile.resource import FOREVER_MS, Resource, curve_of
from quorate.model.events import Share, Tier
from quorate.model.specs import CapId, EnvelopeId
from quorate.model.state.free_slots import Island, IslandKey
from quorate.model.state.reads.money_reads import cap_members
from quorate.model.state.state_view import StateView

K = TypeVar("K")
Need = tuple[Resource, int]
"""A resource, and how much of it is needed."""
Taking = tuple[int, int, int]
"""The instants from which and until which an amount is taken, and the amount."""


class Profile:
    """The free amounts of all resources over time, as expected at ``now_ms``."""

    __slots__ = (
        "_beside",
        "_caps",
        "_eras",
        "_has_caps",
        "_is_shut",
        "_lent",
        "_lifted",
        "_needs",
        "_payers",
        "_rack_rooms",
        "_racked",
        "_rooms",
        "_squeezed",
        "_unread_payers",
        "_unread_rooms",
        "bounded",
        "cap_gpu_ms",
        "era",
        "gains",
        "has_bounds",
        "headroom",
        "lent_gpu_ms",
        "now_ms",
        "payer_gpu_ms",
        "returns",
        "view",
    )

    def __init__(self, view: StateView, now_ms: int) -> None:
        self.view = view
        self.now_ms = now_ms
        self.returns = ExpectedReturns(view, now_ms)
        """The amounts that leases and filled spares give back, and when."""
        self.headroom = QuotaHeadroom(view, self.returns)
        """The headroom of hard quotas."""
        self._rooms: dict[IslandKey, Resource] = {}
        self._rack_rooms: dict[Nodes, Resource] = {}
        self._racked: list[tuple[Nodes, Taking]] = []
        """The GPUs that firm starts take on the nodes of racks that selectors name."""
        self._payers: dict[EnvelopeId, Resource] = {}
        self._lent: dict[EnvelopeId, Resource] = {}
        self._caps: dict[CapId, Resource] = {}
        self._has_caps = bool(view.caps)
        self.has_bounds = view.holdings.has_bounds
        """Whether any owner has a hard quota."""
        self._unread_rooms: dict[IslandKey, list[Taking]] = {}
        """The amounts that entries take of rooms that were not read yet."""
        self._unread_payers: dict[EnvelopeId, list[Taking]] = {}
        """The amounts that entries take of payers that were not read yet."""
        self.bounded: dict[str, Entry] = {}
        """The entries that count against a hard quota, by run."""
        self._beside: dict[str, list[tuple[Resource, int, int, int]]] = {}
        """After ``shut``, the amounts that firm starts take beyond their need, by run.

        Each is (resource, from, until, amount).
        """
        self._is_shut = False
        self._squeezed: dict[str, list[tuple[Resource, int, int, int]]] = {}
        self._needs: dict[str, tuple[Entry, list[Need]]] = {}
        self.era = self._eras = 0
        """While this number stays the same, no entry is removed, so free amounts only fall."""
        self._lifted: list[tuple[Entry, int]] = []
        """The removed entries that were not inserted again, with the ``era`` before each lift."""
        self.gains: GainedRooms | None = None
        """The comparison with the profile of the previous walk; None in other profiles."""
        # The GPU-milliseconds that entries take and that the accounts do not hold yet.
        self.payer_gpu_ms: dict[EnvelopeId, int] = {}
        self.lent_gpu_ms: dict[EnvelopeId, int] = {}
        self.cap_gpu_ms: dict[CapId, int] = {}

    def over(self, view: StateView) -> Profile:
        """Return a read-only profile of ``view`` with the entries of this profile.

        ``view`` has fewer leases than the view of this profile, and must have no filled spares. A
        start by a conflict takes no more than in this profile, even if more is free. In the result,
        entries take nothing of hard quotas.
        """
        profile = Profile(view, self.now_ms)
        for key, room in self.planned_rooms():
            profile._rooms[key] = profile._find_room(key).planned_as(room)
        for payer, width in self.planned_payers():
            profile.payer(payer).planned_as(width)
        for payer, width in self.planned_lenders():
            profile.lent(payer).planned_as(width)
        for cap, width in self.planned_caps():
            profile.cap(cap).planned_as(width)
        profile._racked = self._racked[:]
        profile.payer_gpu_ms, profile.lent_gpu_ms = self.payer_gpu_ms, self.lent_gpu_ms
        profile.cap_gpu_ms = self.cap_gpu_ms
        return profile

    # --- Rooms ---

    def room(self, key: IslandKey) -> Resource:
        """Return the free GPUs of an island over time; always 0 if the domain no longer exists."""
        known = self._rooms.get(key)
        if known is None:
            known = self._rooms[key] = self._find_room(key)
            for from_ms, until_ms, gpus in self.returns.pledges_of(key):
                known.take(from_ms, until_ms, gpus)
            for from_ms, until_ms, gpus in self._unread_rooms.pop(key, ()):
                known.take(from_ms, until_ms, gpus)
        return known

    def planned_room(self, key: IslandKey) -> Resource | None:
        """Return an island's room if the plan or a filled spare takes GPUs from it, else None."""
        known = self.room(key) if key in self._unread_rooms else self._rooms.get(key)
        return known if known is not None and known.steps_ms else None

    def planned_rooms(self) -> Iterator[tuple[IslandKey, Resource]]:
        """Yield the rooms from which the plan or a filled spare takes GPUs."""
        for key in tuple(self._unread_rooms):
            self.room(key)
        for key, room in self._rooms.items():
            if room.steps_ms:
                yield key, room

    def _find_room(self, key: IslandKey) -> Resource:
        view, gains = self.view, self.gains
        if gains is not None:
            base = gains.base_of(key)
            if base is not None:
                gains.made.rooms[key] = base
                return Resource(base[0], self.returns.expected(base[1])[1])
        if key.domain not in view.domains(key.pool, key.flavor).numbers:
            return Resource(0)
        island = view.island(key)
        if view.pools[key.pool].whole_nodes:
            return Resource(whole_gpus(island), self.returns.whole_curve(island))
        kept = self.returns.said_of(key)
        if gains is not None:
            gains.made.rooms[key] = (island.gpus_free, kept)
        return Resource(island.gpus_free, self.returns.expected(kept)[1])

    def rack_room(self, nodes: Nodes) -> Resource:
        """Return the free GPUs of ``nodes`` over time, less those that firm starts need on them."""
        known = self._rack_rooms.get(nodes)
        if known is None:
            known = self._rack_rooms[nodes] = rack_room(self.view, self.returns, nodes)
            for only, taking in self._racked:
                if only <= nodes:
                    known.take(*taking)
        return known

    def take_on(self, gpus_by_node: Mapping[str, int], from_ms: int, until_ms: int) -> None:
        """Count GPUs of nodes as taken for a time span; negative numbers give GPUs back.

        Only rooms of racks change.
        """
        for nodes, room in self._rack_rooms.items():
            gpus = sum(gpus_by_node[name] for name in nodes.intersection(gpus_by_node))
            if gpus:
                room.take(from_ms, until_ms, gpus)

    # --- Payers ---

    def payer(self, key: EnvelopeId) -> Resource:
        """Return how many more GPUs an envelope can pay for, at each instant."""
        known = self._payers.get(key)
        if known is None:
            account = self.view.envelopes[key]
            free = account.spec.concurrency - account.gpus_active - account.gpus_reserved
            known = self._payers[key] = Resource(free, self.returns.payer_curve(key))
            for from_ms, until_ms, gpus in self._unread_payers.pop(key, ()):
                known.take(from_ms, until_ms, gpus)
        return known

    def lent(self, key: EnvelopeId) -> Resource:
        """Return how many more GPUs an envelope may lend, at each instant."""
        known = self._lent.get(key)
        if known is None:
            account = self.view.envelopes[key]
            limit = account.spec.lending.concurrency_max
            free = FOREVER_MS if limit is None else limit - account.lent_gpus_active
            gains = self.returns.widths_of(key, lent=True)
            known = self._lent[key] = Resource(free, curve_of(gains))
        return known

    def cap(self, key: CapId) -> Resource:
        """Return how many more GPUs the envelopes under a cap can pay for, at each instant."""
        known = self._caps.get(key)
        if known is None:
            account = self.view.caps[key]
            limit = account.spec.concurrency_max
            used = account.gpus_active + account.gpus_reserved
            members, widths_of = cap_members(self.view, key), self.returns.widths_of
            gains = (end for member in members for end in widths_of(member, lent=False))
            free = FOREVER_MS if limit is None else limit - used
            known = self._caps[key] = Resource(free, curve_of(gains))
        return known

    def widths(self, payers: Iterable[tuple[EnvelopeId, Tier]]) -> list[Resource]:
        """Return the resources that limit how many GPUs ``payers`` can pay for at a time."""
        found: dict[str, Resource] = {}
        for key, tier in payers:
            account = self.view.envelopes[key]
            found[f"envelope {key}"] = self.payer(key)
            if tier is Tier.BORROWED and account.spec.lending.concurrency_max is not None:
                found[f"lending {key}"] = self.lent(key)
            found |= {f"cap {cap}": self.cap(cap) for cap in account.caps}
        return list(found.values())

    def planned_payers(
        self, only: Collection[EnvelopeId] | None = None
    ) -> Iterator[tuple[EnvelopeId, Resource]]:
        """Yield the payers whose concurrency the plan takes; only those in ``only``, if given."""
        for key in tuple(self._unread_payers) if only is None else only:
            if key in self._unread_payers:
                self.payer(key)
        return _planned(self._payers, only)

    def planned_lenders(
        self, only: Iterable[EnvelopeId] | None = None
    ) -> Iterator[tuple[EnvelopeId, Resource]]:
        """Yield the payers from which the plan borrows; only those in ``only``, if given."""
        return _planned(self._lent, only)

    def planned_caps(self, only: Iterable[CapId] | None = None) -> Iterator[tuple[CapId, Resource]]:
        """Yield the caps whose concurrency the plan takes; only those in ``only``, if given."""
        return _planned(self._caps, only)

    # --- Entries ---

    def put(self, entry: Entry) -> None:
        """Insert ``entry``: take what it needs from its start to its end."""
        self._put(entry, 1)
        if self.gains is not None:
            self.gains.put(entry)
        if self._lifted and self._lifted[-1][0] is entry:
            self.era = self._lifted.pop()[1]

    def lift(self, entry: Entry) -> None:
        """Remove ``entry``, and begin a new ``era`` until ``entry`` is inserted again."""
        self._put(entry, -1)
        if self.gains is not None:
            self.gains.lift(entry)
        self._lifted.append((entry, self.era))
        self._eras += 1
        self.era = self._eras

    def _put(self, entry: Entry, sign: int) -> None:
        if self._is_plain(entry):
            self._take_plainly(entry, sign)
        else:
            for resource, from_ms, until_ms, taken in self._takes(entry, sign):
                resource.take(from_ms, until_ms, sign * taken)
        if not (entry.is_firm or entry.is_tentative):
            self.count_hours(entry.shares, sign)
        if self.has_bounds and self.view.holdings.bounds_of(entry.owner):
            if sign > 0:
                self.bounded[entry.run] = entry
            else:
                self.bounded.pop(entry.run, None)
        if entry.keeps or (entry.is_choosy and entry.is_firm):
            self._put_beside(entry, sign)
            self._put_on_racks(entry, sign)

    def _is_plain(self, entry: Entry) -> bool:
        """Return whether ``entry`` takes only GPUs of its domains and concurrency of its payers."""
        if entry.by_conflict or entry.is_choosy or entry.keeps or self.has_bounds:
            return False
        if Tier.BORROWED in [share.tier for share in entry.shares]:
            return False
        envelopes = self.view.envelopes
        return not (self._has_caps and any(envelopes[each.payer].caps for each in entry.shares))

    def _take_plainly(self, entry: Entry, sign: int) -> None:
        """Take the resources that a plain entry needs, or (``sign`` -1) give them back.

        If a room or payer was not read yet, its amount is noted, and taken at its first read.
        """
        start_ms, end_ms = entry.start_ms, entry.end_ms
        pool, flavor = entry.pool, entry.slice.flavor
        for domain, gpus in entry.slice.domains:
            key = IslandKey(pool, flavor, domain)
            room = self._rooms.get(key)
            if room is None:
                self._unread_rooms.setdefault(key, []).append((start_ms, end_ms, sign * gpus))
            else:
                room.take(start_ms, end_ms, sign * gpus)
        for share in entry.shares:
            payer = self._payers.get(share.payer)
            if payer is None:
                taking = (start_ms, end_ms, sign * share.gpus)
                self._unread_payers.setdefault(share.payer, []).append(taking)
            else:
                payer.take(start_ms, end_ms, sign * share.gpus)

    def _put_beside(self, entry: Entry, sign: int) -> None:
        """Add the GPUs that a firm start takes beyond its need, or (``sign`` -1) remove them."""
        start_ms, end_ms = entry.start_ms, entry.end_ms
        if sign > 0:
            key, keeps = IslandKey(entry.pool, entry.slice.flavor, ""), dict(entry.keeps)
            beside = self._beside[entry.run] = []
            for domain, gpus in entry.slice.domains:
                room = self.room(key._replace(domain=domain))
                if entry.is_choosy and entry.is_firm:
                    more = self.taken(entry, "domain", domain, gpus) - gpus
                    beside.append((room, start_ms, end_ms, more))
                elif domain in keeps:
                    # These GPUs must be free at the start only.
                    beside.append((room, start_ms, start_ms + 1, keeps[domain]))
        if self._is_shut:
            _take_all(self._beside[entry.run], sign)
        if sign < 0:
            del self._beside[entry.run]

    def _put_on_racks(self, entry: Entry, sign: int) -> None:
        """Take the GPUs that ``entry`` needs in named racks, or (``sign`` -1) give them back."""
        for nodes, gpus in self._demands(entry):
            taking = (entry.start_ms, entry.end_ms, sign * gpus)
            self._racked.append((nodes, taking))
            for wider, room in self._rack_rooms.items():
                if nodes <= wider:
                    room.take(*taking)

    def shut(self) -> None:
        """From now on, also count the GPUs that firm starts take beyond their need.

        Before the call, all firm starts are inserted, each only with its need. If each took its
        whole domains at once, a new node of another size would move some firm starts.
        """
        self._is_shut = True
        for beside in self._beside.values():
            _take_all(beside, 1)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Within a ``with`` block, do not count the GPUs that firm starts take beyond their need.

        The block must not search for a start.
        """
        assert self._is_shut, "shut must be called before opened"
        self._is_shut = False
        for beside in self._beside.values():
            _take_all(beside, -1)
        yield
        self.shut()

    def _takes(self, entry: Entry, sign: int) -> list[tuple[Resource, int, int, int]]:
        """Return what ``entry`` takes when it is inserted or, if ``sign`` is -1, what it took.

        An element is (resource, from, until, amount). A start by a conflict takes, at each instant,
        only the amounts that other entries leave. The conflict frees the amounts that are missing.
        Entries that are inserted later get nothing of what the start needs, not even resources that
        come free only during the run.
        """
        if entry.by_conflict and sign < 0:
            return self._squeezed.pop(entry.run)
        needs = self.needs(entry)
        if entry.is_choosy and not entry.is_firm:
            needs = [
                (resource, self.taken(entry, kind, name, amount))
                for kind, name, resource, amount in self.named_needs(entry)
            ]
        span = (entry.start_ms, entry.end_ms)
        if not entry.by_conflict:
            return [(resource, *span, amount) for resource, amount in needs]
        takes = [
            (resource, *piece)
            for resource, amount in needs
            for piece in resource.at_most(*span, amount)
        ]
        self._squeezed[entry.run] = takes
        return takes

    def count_hours(self, shares: Iterable[Share], sign: int) -> None:
        """Add the GPU-hours of ``shares`` to those of the plan, or (``sign`` -1) remove them.

        The GPU-hours of the plan are those that no account holds yet.
        """
        for share in shares:
            gpu_ms = sign * share.gpus * share.hold_ms
            self.payer_gpu_ms[share.payer] = self.payer_gpu_ms.get(share.payer, 0) + gpu_ms
            if share.tier is Tier.BORROWED:
                self.lent_gpu_ms[share.payer] = self.lent_gpu_ms.get(share.payer, 0) + gpu_ms
            for key in self.view.envelopes[share.payer].caps:
                self.cap_gpu_ms[key] = self.cap_gpu_ms.get(key, 0) + gpu_ms

    def taken(self, entry: Entry, kind: str, name: str, amount: int) -> int:
        """Return how much ``entry`` takes of a resource of which it needs ``amount``.

        An entry that needs specific racks or node sizes (``is_choosy``) takes all GPUs of its
        domains, because it is not known which of them the run will use.
        """
        if kind != "domain" or not entry.is_choosy:
            return amount
        return max(amount, self.gpus_total(IslandKey(entry.pool, entry.slice.flavor, name)))

    def needs(self, entry: Entry) -> list[Need]:
        """Return everything that ``entry`` needs: rooms, concurrency of payers, and hard quotas."""
        known = self._needs.get(entry.run)
        if known is None or known[0] is not entry:
            known = self._needs[entry.run] = (entry, self._find_needs(entry))
        return known[1]

    def _find_needs(self, entry: Entry) -> list[Need]:
        is_plain = len(entry.slice.domains) == len(entry.shares) == 1
        if not is_plain or self.has_bounds:
            return [(resource, amount) for _, _, resource, amount in self.named_needs(entry)]
        # Most entries are in one domain and have one payer.
        (domain, gpus), (share,) = entry.slice.domains[0], entry.shares
        account = self.view.envelopes[share.payer]
        if account.caps or share.tier is Tier.BORROWED:
            return [(resource, amount) for _, _, resource, amount in self.named_needs(entry)]
        room = self.room(IslandKey(entry.pool, entry.slice.flavor, domain))
        return [(room, gpus), (self.payer(share.payer), share.gpus)]

    def named_needs(self, entry: Entry) -> list[tuple[str, str, Resource, int]]:
        """Return everything that ``entry`` needs, as (kind, name, resource, amount).

        The kinds are domain, envelope, lending, cap, runs and nodes. A quota has the name of its
        owner.
        """
        view, needs = self.view, list[tuple[str, str, Resource, int]]()
        for domain, gpus in entry.slice.domains:
            key = IslandKey(entry.pool, entry.slice.flavor, domain)
            needs.append(("domain", domain, self.room(key), gpus))
        paid: dict[EnvelopeId, int] = {}
        lent: dict[EnvelopeId, int] = {}
        under: dict[CapId, int] = {}
        for share in entry.shares:
            account = view.envelopes[share.payer]
            paid[share.payer] = paid.get(share.payer, 0) + share.gpus
            if share.tier is Tier.BORROWED and account.spec.lending.concurrency_max is not None:
                lent[share.payer] = lent.get(share.payer, 0) + share.gpus
            for cap in account.caps:
                if view.caps[cap].spec.concurrency_max is not None:
                    under[cap] = under.get(cap, 0) + share.gpus
        needs += (("envelope", key, self.payer(key), gpus) for key, gpus in paid.items())
        needs += (("lending", key, self.lent(key), gpus) for key, gpus in lent.items())
        needs += (("cap", cap, self.cap(cap), gpus) for cap, gpus in under.items())
        for name in view.holdings.bounds_of(entry.owner):
            quota = view.owners[name].quota
            if quota.concurrent_runs_max is not None:
                needs.append(("runs", name, self.headroom.runs(name), 1))
            if quota.nodes_max is not None and entry.nodes:
                needs.append(("nodes", name, self.headroom.nodes(name), entry.nodes))
        return needs

    def rack_needs(self, entry: Entry) -> list[tuple[str, str, Resource, int]]:
        """Return the GPUs that ``entry`` needs in named racks, in the form of ``named_needs``.

        The kind is racks, and the name lists the nodes (``nodes_in``). There is a need for the
        nodes of each payer, and for those of any two payers together. The amount of such a
        need is the GPUs that the entry can use on these nodes only.
        """
        demands = self._demands(entry)
        each = {one | two for one, _ in demands for two, _ in demands}
        return [
            ("racks", " ".join(sorted(nodes)), self.rack_room(nodes), wanted_of(demands, nodes))
            for nodes in sorted(each, key=sorted)
        ]

    def _demands(self, entry: Entry) -> Sequence[tuple[Nodes, int]]:
        is_pin = entry.is_choosy and entry.is_firm
        return rack_demands(self.view, entry) if is_pin else ()

    def gpus_total(self, key: IslandKey) -> int:
        """Return how many GPUs an island has; 0 if the domain no longer exists."""
        known = key.domain in self.view.domains(key.pool, key.flavor).numbers
        return self.view.island(key).gpus_total if known else 0


def nodes_in(name: str) -> frozenset[str]:
    """Return the nodes that are listed in ``name``, which names a need of the kind racks."""
    return frozenset(name.split(" "))


def _planned(
    resources: Mapping[K, Resource], only: Iterable[K] | None
) -> Iterator[tuple[K, Resource]]:
    for key in resources if only is None else only:
        known = resources.get(key)
        if known is not None and known.steps_ms:
            yield key, known


def _take_all(takings: list[tuple[Resource, int, int, int]], sign: int) -> None:
    for resource, from_ms, until_ms, amount in takings:
        resource.take(from_ms, until_ms, sign * amount)


def whole_gpus(island: Island) -> int:
    """Return how many GPUs the free nodes of ``island`` have."""
    return sum(
        size * (island.buckets[size] & nodes).bit_count() for size, nodes in island.sizes.items()
    )
