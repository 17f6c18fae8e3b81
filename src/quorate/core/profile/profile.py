"""The profile: what will be free of everything a start needs, as far as is known now.

Rooms by domain and flavor (GPUs; GPUs of whole nodes where a pool gives whole nodes), payers
(concurrency, lent, caps, GPU-hours) and quotas (nodes, runs), each a step function. Each is
computed when it is first read, from the view as it was when the profile was made; later starts and
reservations are put in. The view must not change meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from operator import itemgetter
from typing import TypeVar

from quorate.core.admission.quota_holders import family_of
from quorate.core.profile.gained_rooms import GainedRooms
from quorate.core.profile.lease_ends import lease_end_ms, run_end_ms, said_end_ms
from quorate.core.profile.plan_entry import Entry
from quorate.core.profile.resource import FOREVER_MS, Resource, curve_of
from quorate.model.events import Share, Tier
from quorate.model.specs import CapId, EnvelopeId
from quorate.model.state.expected_ends import Curve, End, Kept
from quorate.model.state.free_slots import Island, IslandKey
from quorate.model.state.records import Phase, PledgeRecord
from quorate.model.state.state_view import StateView

K = TypeVar("K")
Need = tuple[Resource, int]
"""A resource, and how much of it is needed."""


class Profile:
    """The expected future as of ``now_ms``."""

    __slots__ = (
        "_beside",
        "_caps",
        "_eras",
        "_is_shut",
        "_lent",
        "_lifted",
        "_needs",
        "_node_ends",
        "_nodes",
        "_payers",
        "_pledged",
        "_rooms",
        "_runs",
        "_squeezed",
        "bounded",
        "cap_gpu_ms",
        "era",
        "gains",
        "lent_gpu_ms",
        "now_ms",
        "payer_gpu_ms",
        "view",
    )

    def __init__(self, view: StateView, now_ms: int) -> None:
        self.view = view
        self.now_ms = now_ms
        self._rooms: dict[IslandKey, Resource] = {}
        self._payers: dict[EnvelopeId, Resource] = {}
        self._lent: dict[EnvelopeId, Resource] = {}
        self._caps: dict[CapId, Resource] = {}
        self._runs: dict[str, Resource] = {}
        self._nodes: dict[str, Resource] = {}
        self._node_ends: dict[str, dict[str, int]] = {}
        self.bounded: dict[str, Entry] = {}
        """What is put in and counts under a hard quota, by run."""
        self._beside: dict[str, list[tuple[Resource, int, int, int]]] = {}
        """What firm places take beyond what they need, once the profile is shut, by run.

        As (resource, from, until, amount).
        """
        self._is_shut = False
        self._squeezed: dict[str, list[Need]] = {}
        self._pledged: dict[IslandKey, list[tuple[int, int, int]]] | None = None
        self._needs: dict[str, tuple[Entry, list[Need]]] = {}
        self.era = self._eras = 0
        """While this number stays the same, what is free only decreases."""
        self._lifted: list[tuple[Entry, int]] = []
        """What was lifted and not put back, and the era before that."""
        self.gains: GainedRooms | None = None
        """What a walk compares with the walk before it; None in any other profile."""
        # GPU-hours that entries take which are not held in the accounts yet.
        self.payer_gpu_ms: dict[EnvelopeId, int] = {}
        self.lent_gpu_ms: dict[EnvelopeId, int] = {}
        self.cap_gpu_ms: dict[CapId, int] = {}

    def over(self, view: StateView) -> Profile:
        """Return the profile of ``view``, where leases have gone, with what is put into this one.

        The result is read-only. A start by a conflict takes no more than in this one, even if more
        is free. ``view`` must have no filled spares.
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
        profile.payer_gpu_ms, profile.lent_gpu_ms = self.payer_gpu_ms, self.lent_gpu_ms
        profile.cap_gpu_ms = self.cap_gpu_ms
        return profile

    # --- Rooms ---

    def room(self, key: IslandKey) -> Resource:
        """Return the room of the island under ``key``; nothing where the domain has gone."""
        known = self._rooms.get(key)
        if known is None:
            known = self._rooms[key] = self._find_room(key)
            for from_ms, until_ms, gpus in self._pledges_of(key):
                known.take(from_ms, until_ms, gpus)
        return known

    def planned_room(self, key: IslandKey) -> Resource | None:
        """Return the room under ``key`` if the plan, or a filled spare, takes something of it."""
        known = self._rooms.get(key)
        return known if known is not None and known.steps_ms else None

    def planned_rooms(self) -> Iterator[tuple[IslandKey, Resource]]:
        """Yield the rooms that the plan, or a filled spare, takes something of."""
        for key, room in self._rooms.items():
            if room.steps_ms:
                yield key, room

    def _find_room(self, key: IslandKey) -> Resource:
        view, gains = self.view, self.gains
        if gains is not None:
            base = gains.base_of(key)
            if base is not None:
                gains.made.rooms[key] = base
                return Resource(base[0], self._expected(base[1])[1])
        if key.domain not in view.domains(key.pool, key.flavor).numbers:
            return Resource(0)
        island = view.island(key)
        if view.pools[key.pool].whole_nodes:
            return Resource(whole_gpus(island), self._whole_curve(island))
        kept = self._said_of(key)
        if gains is not None:
            gains.made.rooms[key] = (island.gpus_free, kept)
        return Resource(island.gpus_free, self._expected(kept)[1])

    def island_ends(self, key: IslandKey) -> list[End]:
        """Return what leases of an island will give back, in order."""
        return self._expected(self._said_of(key))[0]

    def late_leases(self, key: IslandKey) -> set[str]:
        """Return the leases of an island that are past the ends that ``said_end_ms`` gives."""
        said = self._said_of(key).said
        return {name for _, _, name in said[: bisect_left(said, self.now_ms, key=itemgetter(0))]}

    def _said_of(self, key: IslandKey) -> Kept:
        cached = self.view.ends_cache.islands.get(key)
        if cached is not None and not cached[1]:
            return cached[0]
        if cached is None:
            said = self._said_ends(key)
        else:
            kept, changed = cached
            said = [end for end in kept.said if end[2] not in changed]
            for name in changed:
                said.extend(self._said_by(name, key))
            said.sort()
        kept = Kept(said, _curve_of_ends(said))
        self.view.ends_cache.islands.keep(key, kept)
        return kept

    def _said_by(self, name: str, key: IslandKey) -> Iterator[End]:
        """Yield what a lease, if it is still open, will give back on the nodes of an island."""
        view, lease = self.view, self.view.leases.get(name)
        if lease is None:
            return
        for node, mask in lease.fact.slots:
            # What ends on a node that takes no work becomes free for no run.
            is_used = node not in view.node_status and node not in view.unwiped
            if is_used and view.nodes[node].island == key:
                yield said_end_ms(view, lease), mask.bit_count(), name

    def _said_ends(self, key: IslandKey) -> list[End]:
        view = self.view
        if key.domain not in view.domains(key.pool, key.flavor).numbers:
            return []
        held = (view.node_leases.get(node.name, ()) for node in view.island(key).nodes)
        names = dict.fromkeys(name for names in held for name in names)
        return sorted(end for name in names for end in self._said_by(name, key))

    def _expected(self, kept: Kept) -> tuple[list[End], Curve]:
        """Return the ends of ``kept`` as they are expected now: what is overdue comes later."""
        said, now_ms = kept.said, self.now_ms
        if not said or said[0][0] >= now_ms:
            return said, kept.said_curve
        if not kept.from_ms <= now_ms <= kept.until_ms:
            late = bisect_left(said, now_ms, key=itemgetter(0))
            overdue = [(self.lease_end_ms(name), gpus, name) for _, gpus, name in said[:late]]
            kept.expected = sorted(overdue + said[late:])
            kept.expected_curve = _curve_of_ends(kept.expected)
            # These hold until another lease is overdue, or an overdue one reaches its rung.
            rungs = [end_ms - 1 for end_ms, _, _ in overdue]
            kept.from_ms, kept.until_ms = now_ms, min(rungs + [e[0] for e in said[late : late + 1]])
        return kept.expected, kept.expected_curve

    def is_room_outlasted(self, key: IslandKey, since_ms: int) -> bool:
        """Return whether a lease of an island has passed an end that was expected of it since."""
        return self._is_outlasted(self._said_of(key), since_ms)

    def is_payer_outlasted(self, key: EnvelopeId, since_ms: int) -> bool:
        """Return whether a lease of a payer has passed an end that was expected of it since."""
        return self._is_outlasted(self._paid_by(key), since_ms)

    def _is_outlasted(self, kept: Kept, since_ms: int) -> bool:
        """Return whether an end that was expected at ``since_ms`` or later has passed by now."""
        said, now_ms = kept.said, self.now_ms
        if not said or said[0][0] >= now_ms:
            return False
        if kept.from_ms <= since_ms and now_ms <= kept.until_ms:
            return False  # What was expected then is still to come.
        late = bisect_left(said, since_ms, key=itemgetter(0))
        if late < len(said) and said[late][0] < now_ms:
            return True
        view = self.view
        overdue = {name for _, _, name in said[:late]}
        if any(lease_end_ms(view, view.leases[name], since_ms) <= now_ms for name in overdue):
            return True
        self._expected(kept)  # So that the next question is answered at once.
        return False

    def _whole_curve(self, island: Island) -> Curve:
        """Return when nodes of ``island`` come free as a whole: with the last of their leases."""
        view, gains = self.view, []
        for node in island.nodes:
            held = view.node_leases.get(node.name)
            if held and node.name not in view.node_status and node.name not in view.unwiped:
                gains.append((max(self.lease_end_ms(name) for name in held), node.gpus))
        return curve_of(gains)

    def lease_end_ms(self, name: str) -> int:
        """Return when an open lease is expected to end."""
        return lease_end_ms(self.view, self.view.leases[name], self.now_ms)

    def _pledges_of(self, key: IslandKey) -> Sequence[tuple[int, int, int]]:
        """Return the filled spares of an island: their slots return to the spare, not to others.

        As (from, until, GPUs). Those on nodes that take no work have no part of the room.
        """
        if self._pledged is None:
            self._pledged, view = {}, self.view
            for pledge in view.pledges.values():
                span = self.pledge_span(pledge)
                for node, mask in pledge.slots:
                    if node not in view.node_status and node not in view.unwiped:
                        taking = (*span, mask.bit_count())
                        self._pledged.setdefault(view.nodes[node].island, []).append(taking)
        return self._pledged.get(key, ())

    def pledge_span(self, pledge: PledgeRecord) -> tuple[int, int]:
        """Return from when until when the run of a filled spare will have its slots back."""
        view, places = self.view, dict(pledge.slots)
        filled = [
            self.lease_end_ms(name)
            for name in view.runs[pledge.filler].leases
            if any(places.get(n, 0) & m for n, m in view.leases[name].fact.slots)
        ]
        back_ms = max(filled, default=self.now_ms)
        return back_ms, max(back_ms, self._over_ms(pledge))

    def _over_ms(self, pledge: PledgeRecord) -> int:
        """Return when the run of a filled spare is expected to end; then its payer is free."""
        record = self.view.runs[pledge.run]
        is_running = record.phase is Phase.RUNNING
        return run_end_ms(self.view, record, self.now_ms) if is_running else self.now_ms

    # --- Payers ---

    def payer(self, key: EnvelopeId) -> Resource:
        """Return how many GPUs an envelope can pay at once."""
        known = self._payers.get(key)
        if known is None:
            account = self.view.envelopes[key]
            free = account.spec.concurrency - account.gpus_active - account.gpus_reserved
            known = self._payers[key] = Resource(free, self._payer_curve(key))
        return known

    def lent(self, key: EnvelopeId) -> Resource:
        """Return how many GPUs an envelope may lend at once."""
        known = self._lent.get(key)
        if known is None:
            account = self.view.envelopes[key]
            limit = account.spec.lending.concurrency_max
            free = FOREVER_MS if limit is None else limit - account.lent_gpus_active
            known = self._lent[key] = Resource(free, curve_of(self._payer_ends(key, lent=True)))
        return known

    def cap(self, key: CapId) -> Resource:
        """Return how many GPUs the envelopes under a cap can pay at once together."""
        known = self._caps.get(key)
        if known is None:
            account = self.view.caps[key]
            limit = account.spec.concurrency_max
            used = account.gpus_active + account.gpus_reserved
            members = cap_members(self.view, key)
            gains = (end for member in members for end in self._payer_ends(member, lent=False))
            free = FOREVER_MS if limit is None else limit - used
            known = self._caps[key] = Resource(free, curve_of(gains))
        return known

    def widths(self, payers: Iterable[tuple[EnvelopeId, Tier]]) -> list[Resource]:
        """Return the width of ``payers``, of their lending and of their caps."""
        found: dict[str, Resource] = {}
        for key, tier in payers:
            account = self.view.envelopes[key]
            found[f"envelope {key}"] = self.payer(key)
            if tier is Tier.BORROWED and account.spec.lending.concurrency_max is not None:
                found[f"lending {key}"] = self.lent(key)
            found |= {f"cap {cap}": self.cap(cap) for cap in account.caps}
        return list(found.values())

    def planned_payers(
        self, only: Iterable[EnvelopeId] | None = None
    ) -> Iterator[tuple[EnvelopeId, Resource]]:
        """Yield the payers whose width the plan takes some of, of ``only`` if these are given."""
        return _planned(self._payers, only)

    def planned_lenders(
        self, only: Iterable[EnvelopeId] | None = None
    ) -> Iterator[tuple[EnvelopeId, Resource]]:
        """Yield the payers whose lending the plan takes some of, of ``only`` if these are given."""
        return _planned(self._lent, only)

    def planned_caps(self, only: Iterable[CapId] | None = None) -> Iterator[tuple[CapId, Resource]]:
        """Yield the caps whose width the plan takes some of, of ``only`` if these are given."""
        return _planned(self._caps, only)

    def planned_runs(self) -> Iterator[tuple[str, Resource]]:
        """Yield the owners whose limit on runs the plan takes some of."""
        for owner, runs in self._runs.items():
            if runs.steps_ms:
                yield owner, runs

    def planned_nodes(self) -> Iterator[tuple[str, Resource]]:
        """Yield the owners whose limit on nodes the plan takes some of."""
        for owner, nodes in self._nodes.items():
            if nodes.steps_ms:
                yield owner, nodes

    def payer_ends(self, key: EnvelopeId) -> list[End]:
        """Return what leases will give back to their payer, in order."""
        return self._expected(self._paid_by(key))[0]

    def _paid_by(self, key: EnvelopeId) -> Kept:
        view = self.view
        cached = view.ends_cache.payers.get(key)
        if cached is not None and not cached[1]:
            return cached[0]
        names: Iterable[str] = view.payer_leases.get(key, ())
        said: list[End] = []
        if cached is not None:
            names = [name for name in cached[1] if name in names]
            said = [end for end in cached[0].said if end[2] not in cached[1]]
        for name in names:
            lease = view.leases[name]
            said.append((said_end_ms(view, lease), lease.gpus, name))
        said.sort()
        kept = Kept(said, _curve_of_ends(said))
        view.ends_cache.payers.keep(key, kept)
        return kept

    def _payer_curve(self, key: EnvelopeId) -> Curve:
        ends, curve = self._expected(self._paid_by(key))
        more = self._beside_leases(key, lent=False)
        return curve_of([*((at_ms, gpus) for at_ms, gpus, _ in ends), *more]) if more else curve

    def _payer_ends(self, key: EnvelopeId, *, lent: bool) -> list[tuple[int, int]]:
        """Return all width that comes back to a payer, or only what it lent; not in order."""
        leases = self.view.leases
        return [
            (at_ms, gpus)
            for at_ms, gpus, name in self.payer_ends(key)
            if not lent or leases[name].fact.tier is Tier.BORROWED
        ] + self._beside_leases(key, lent=lent)

    def _beside_leases(self, key: EnvelopeId, *, lent: bool) -> list[tuple[int, int]]:
        """Return the width that comes back to a payer other than from open leases.

        A lease that was removed for a trial still gives its width back at its expected end, or
        ending more work would leave less to count on. A filled spare gives its width back when the
        run that it belongs to ends.
        """
        view = self.view
        if not (view.lifted or view.pledges):
            return []
        gains = [
            (lease_end_ms(view, lease, self.now_ms), lease.gpus)
            for lease in view.lifted.values()
            if lease.fact.payer == key and (not lent or lease.fact.tier is Tier.BORROWED)
        ]
        gains.extend(
            (self._over_ms(pledge), pledge.gpus)
            for pledge in view.pledges.values()
            if pledge.payer == key and (not lent or pledge.tier is Tier.BORROWED)
        )
        return gains

    # --- Quotas ---

    def runs(self, owner: str) -> Resource:
        """Return how many more runs may run under ``owner``, which has a limit on them."""
        resource = self._runs.get(owner)
        if resource is None:
            view, limit = self.view, self.view.owners[owner].quota.concurrent_runs_max
            assert limit is not None, owner
            last_ms = dict[str, int]()
            for name in self._family_leases(owner):
                run = view.leases[name].fact.run
                last_ms[run] = max(last_ms.get(run, 0), self.lease_end_ms(name))
            # A claim counts as no run.
            gains = ((end, 1) for run, end in last_ms.items() if not view.runs[run].spec.sensitive)
            free = limit - view.holdings.runs.get(owner, 0)
            resource = self._runs[owner] = Resource(free, curve_of(gains))
        return resource

    def nodes(self, owner: str) -> Resource:
        """Return how many more nodes may be held under ``owner``, which has a limit on them."""
        resource = self._nodes.get(owner)
        if resource is None:
            view, limit = self.view, self.view.owners[owner].quota.nodes_max
            assert limit is not None, owner
            uses = self.node_uses(owner).items()
            until = {node: max(end_ms for end_ms, _ in ends) for node, ends in uses}
            free = limit - view.holdings.nodes.get(owner, 0)
            gains = ((end_ms, 1) for end_ms in until.values() if end_ms < FOREVER_MS)
            resource = self._nodes[owner] = Resource(free, curve_of(gains))
            self._node_ends[owner] = until
        return resource

    def node_uses(self, owner: str) -> dict[str, list[tuple[int, int]]]:
        """Return (expected end, GPUs) of each lease under ``owner``, by node."""
        view, found = self.view, dict[str, list[tuple[int, int]]]()
        for name in self._family_leases(owner):
            lease = view.leases[name]
            # When a claim's nodes will have been wiped is not known.
            is_claim = view.runs[lease.fact.run].spec.sensitive
            end_ms = FOREVER_MS if is_claim else self.lease_end_ms(name)
            for node, mask in lease.fact.slots:
                found.setdefault(node, []).append((end_ms, mask.bit_count()))
        return found

    def hold_nodes(self, owner: str, nodes: Iterable[str], from_ms: int, until_ms: int) -> None:
        """Count ``nodes`` on which work of ``owner`` has just begun.

        Each is counted only from when other work under the same quota has left it.
        """
        holdings, named = self.view.holdings, tuple(nodes)
        for name in holdings.bounds_of(owner):
            if self.view.owners[name].quota.nodes_max is None:
                continue
            resource, ends = self.nodes(name), self._node_ends[name]
            for node in named:
                # What a filled spare or a claim holds comes back at no known instant.
                kept_ms = FOREVER_MS if holdings.has(name, node) else from_ms
                held_ms = ends.get(node, kept_ms)
                resource.take(max(from_ms, held_ms), until_ms, 1)
                ends[node] = max(held_ms, until_ms)

    def _family_leases(self, owner: str) -> Iterator[str]:
        view = self.view
        for name in family_of(view, owner):
            yield from view.owner_leases.get(name, ())

    def quotas(self, owner: str) -> list[Resource]:
        """Return every hard quota that a start of ``owner`` counts for."""
        view, found = self.view, list[Resource]()
        for name in view.holdings.bounds_of(owner):
            quota = view.owners[name].quota
            if quota.concurrent_runs_max is not None:
                found.append(self.runs(name))
            if quota.nodes_max is not None:
                found.append(self.nodes(name))
        return found

    # --- Entries ---

    def put(self, entry: Entry) -> None:
        """Take what ``entry`` needs, for as long as it does."""
        self._put(entry, 1)
        if self.gains is not None:
            self.gains.put(entry)
        if self._lifted and self._lifted[-1][0] is entry:
            self.era = self._lifted.pop()[1]

    def lift(self, entry: Entry) -> None:
        """Give back what ``entry`` takes; a new era lasts until it is put back."""
        self._put(entry, -1)
        if self.gains is not None:
            self.gains.lift(entry)
        self._lifted.append((entry, self.era))
        self._eras += 1
        self.era = self._eras

    def _put(self, entry: Entry, sign: int) -> None:
        for resource, taken in self._takes(entry, sign):
            resource.take(entry.start_ms, entry.end_ms, sign * taken)
        if not (entry.is_firm or entry.is_tentative):
            self.count_hours(entry.shares, sign)
        if self.view.holdings.bounds_of(entry.owner):
            if sign > 0:
                self.bounded[entry.run] = entry
            else:
                self.bounded.pop(entry.run, None)
        if entry.keeps or (entry.is_choosy and entry.is_firm):
            self._put_beside(entry, sign)

    def _put_beside(self, entry: Entry, sign: int) -> None:
        """Note what a firm place takes beyond what it needs, or (``sign`` -1) forget it."""
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
                    # Only leases that run at its start can be in its way.
                    beside.append((room, start_ms, start_ms + 1, keeps[domain]))
        if self._is_shut:
            _take_all(self._beside[entry.run], sign)
        if sign < 0:
            del self._beside[entry.run]

    def shut(self) -> None:
        """From now on, also take what firm places take beyond what they need.

        Firm places are put in before that, each with what it needs only; otherwise a node of
        another size, which makes all of them choosy, would displace some of them.
        """
        self._is_shut = True
        for beside in self._beside.values():
            _take_all(beside, 1)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Leave out what firm places take beyond what they need, within a ``with`` block.

        No search may run meanwhile.
        """
        assert self._is_shut, "only what is shut is opened"
        self._is_shut = False
        for beside in self._beside.values():
            _take_all(beside, -1)
        yield
        self.shut()

    def _takes(self, entry: Entry, sign: int) -> list[Need]:
        """Return what ``entry`` takes, or took when it was put in.

        An entry that starts by a conflict takes what others leave: the conflict frees the rest.
        """
        if entry.by_conflict and sign < 0:
            return self._squeezed.pop(entry.run)
        needs = self.needs(entry)
        if entry.is_choosy and not entry.is_firm:
            needs = [
                (resource, self.taken(entry, kind, name, amount))
                for kind, name, resource, amount in self.named_needs(entry)
            ]
        if entry.by_conflict:
            span = (entry.start_ms, entry.end_ms)
            needs = [(each, max(0, min(amount, each.least(*span)))) for each, amount in needs]
            self._squeezed[entry.run] = needs
        return needs

    def count_hours(self, shares: Iterable[Share], sign: int) -> None:
        """Count the GPU-hours of ``shares`` as taken beside what accounts have, or (-1) as free."""
        for share in shares:
            gpu_ms = sign * share.gpus * share.hold_ms
            self.payer_gpu_ms[share.payer] = self.payer_gpu_ms.get(share.payer, 0) + gpu_ms
            if share.tier is Tier.BORROWED:
                self.lent_gpu_ms[share.payer] = self.lent_gpu_ms.get(share.payer, 0) + gpu_ms
            for key in self.view.envelopes[share.payer].caps:
                self.cap_gpu_ms[key] = self.cap_gpu_ms.get(key, 0) + gpu_ms

    def taken(self, entry: Entry, kind: str, name: str, amount: int) -> int:
        """Return what ``entry`` takes of a resource of which it needs ``amount``.

        A choosy entry takes all of its domains: which GPUs it leaves to others is not known.
        """
        if kind != "domain" or not entry.is_choosy:
            return amount
        return max(amount, self.gpus_total(IslandKey(entry.pool, entry.slice.flavor, name)))

    def needs(self, entry: Entry) -> list[Need]:
        """Return everything that ``entry`` needs while it runs: room, width of payers, quotas."""
        known = self._needs.get(entry.run)
        if known is None or known[0] is not entry:
            known = self._needs[entry.run] = (entry, self._find_needs(entry))
        return known[1]

    def _find_needs(self, entry: Entry) -> list[Need]:
        is_plain = len(entry.slice.domains) == len(entry.shares) == 1
        if not is_plain or self.view.holdings.has_bounds:
            return [(resource, amount) for _, _, resource, amount in self.named_needs(entry)]
        # Most are in one domain and have one payer.
        (domain, gpus), (share,) = entry.slice.domains[0], entry.shares
        account = self.view.envelopes[share.payer]
        if account.caps or share.tier is Tier.BORROWED:
            return [(resource, amount) for _, _, resource, amount in self.named_needs(entry)]
        room = self.room(IslandKey(entry.pool, entry.slice.flavor, domain))
        return [(room, gpus), (self.payer(share.payer), share.gpus)]

    def named_needs(self, entry: Entry) -> list[tuple[str, str, Resource, int]]:
        """Return (kind, name, resource, amount) of everything that ``entry`` needs while it runs.

        Kinds are domain, envelope, lending, cap, runs and nodes; a quota has its owner's name.
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
                needs.append(("runs", name, self.runs(name), 1))
            if quota.nodes_max is not None and entry.nodes:
                needs.append(("nodes", name, self.nodes(name), entry.nodes))
        return needs

    def gpus_total(self, key: IslandKey) -> int:
        """Return how many GPUs an island has; none where the domain has gone since."""
        known = key.domain in self.view.domains(key.pool, key.flavor).numbers
        return self.view.island(key).gpus_total if known else 0


def _curve_of_ends(ends: list[End]) -> Curve:
    """Return the curve of ``ends``, which are in order."""
    return [end[0] for end in ends], list(accumulate([end[1] for end in ends]))


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
    """Return the GPUs of the nodes of ``island`` no slot of which is taken."""
    return sum(
        size * (island.buckets[size] & nodes).bit_count() for size, nodes in island.sizes.items()
    )


def cap_members(view: StateView, cap: CapId) -> list[EnvelopeId]:
    """Return the envelopes under ``cap``."""
    budget = cap.partition("/")[0]
    return [
        key
        for line in view.budgets[budget].envelopes
        if cap in view.envelopes[key := EnvelopeId(f"{budget}/{line.name}")].caps
    ]
