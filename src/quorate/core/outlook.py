"""The outlook: how many GPUs will be free, by domain and by payer, as far as is known now.

A level is what is free now, plus what leases give back when they are expected to end, less what
reservations take from their start to their expected end. Whoever starts something for a while may
use the least level of that while: less than that is free sooner or later.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter

from quorate.core.expected import lease_end_ms, run_end_ms, said_end_ms
from quorate.core.holds import expected_ms, grace_ms
from quorate.model.events import Share, Tier
from quorate.model.island import IslandKey
from quorate.model.records import Phase, PledgeRecord, ReservationRecord
from quorate.model.selector import RACK, names_label
from quorate.model.specs import CapId, EnvelopeId
from quorate.model.view import Curve, End, Ends, StateView

Taking = tuple[int, int, int]
"""(from, until, GPUs): taken for that while."""
FOREVER_MS = 1 << 62


@dataclass(slots=True)
class Level:
    """Free GPUs over time: ``base`` now, more at each of ``ends_ms``, less during ``takings``."""

    base: int
    ends_ms: Sequence[int]
    gained: Sequence[int]
    takings: Sequence[Taking]
    _dips: list[tuple[int, int]] | None = None

    @classmethod
    def of(cls, base: int, gains: Iterable[tuple[int, int]], takings: Sequence[Taking]) -> Level:
        """Return the level with (instant, GPUs) of ``gains``."""
        return cls(base, *curve_of(gains), takings)

    def at(self, at_ms: int) -> int:
        """Return what is free at ``at_ms``."""
        ended = bisect_right(self.ends_ms, at_ms)
        level = self.base + (self.gained[ended - 1] if ended else 0)
        for from_ms, until_ms, gpus in self.takings:
            if from_ms <= at_ms < until_ms:
                level -= gpus
        return level

    def least(self, from_ms: int, until_ms: int) -> int:
        """Return the least that is free from ``from_ms`` until just before ``until_ms``."""
        found = self.at(from_ms)
        if not self.takings:
            return found
        if self._dips is None:
            # It falls only where something is taken.
            self._dips = sorted({(start, self.at(start)) for start, _, _ in self.takings})
        for start_ms, level in self._dips:
            if start_ms >= until_ms:
                break
            if start_ms > from_ms and level < found:
                found = level
        return found

    def usable(self, instants: Sequence[int], duration_ms: int) -> list[int]:
        """Return ``least`` from each of ``instants``, which are in order, for ``duration_ms``."""
        steps = sorted(
            step for start, until, gpus in self.takings for step in ((start, gpus), (until, -gpus))
        )
        self.least(instants[0], instants[0])
        dips, ends_ms, gained = self._dips or [], self.ends_ms, self.gained
        found: list[int] = []
        ended = bisect_right(ends_ms, instants[0])
        stepped = taken = passed = 0
        for at_ms in instants:
            while ended < len(ends_ms) and ends_ms[ended] <= at_ms:
                ended += 1
            while stepped < len(steps) and steps[stepped][0] <= at_ms:
                taken += steps[stepped][1]
                stepped += 1
            while passed < len(dips) and dips[passed][0] <= at_ms:
                passed += 1
            level = self.base + (gained[ended - 1] if ended else 0) - taken
            until_ms, place = at_ms + duration_ms, passed
            while place < len(dips) and dips[place][0] < until_ms:
                level = min(level, dips[place][1])
                place += 1
            found.append(level)
        return found

    def first_below(self, gpus: int, from_ms: int) -> int | None:
        """Return the first instant from ``from_ms`` on at which less than ``gpus`` is free."""
        if self.at(from_ms) < gpus:
            return from_ms
        starts = sorted(start for start, _, _ in self.takings if start > from_ms)
        return next((at_ms for at_ms in starts if self.at(at_ms) < gpus), None)


def curve_of(gains: Iterable[tuple[int, int]]) -> Curve:
    """Return (instant, GPUs) of ``gains`` in order and added up."""
    ordered = sorted(gains)
    return [at_ms for at_ms, _ in ordered], list(accumulate(gpus for _, gpus in ordered))


def _curve(ends: Sequence[End]) -> Curve:
    return curve_of((at_ms, gpus) for at_ms, gpus, _ in ends)


@dataclass(frozen=True, slots=True)
class Plan:
    """A reservation as the others see it: what it takes, from when to when."""

    reservation: str
    start_ms: int
    end_ms: int
    pool: str
    flavor: str
    domains: tuple[tuple[str, int], ...]
    payers: tuple[Share, ...]
    is_choosy: bool

    def taking(self, gpus: int) -> Taking:
        """Return ``gpus`` taken for as long as it runs."""
        return (self.start_ms, self.end_ms, gpus)


def plan_of(
    view: StateView, record: ReservationRecord, now_ms: int, *, is_in_front: bool = False
) -> Plan | None:
    """Return ``record`` as a plan; None while nobody knows when it starts.

    ``is_in_front``: whoever asks was promised its start before, so this one has to be gone one
    grace before that.
    """
    if record.planned_start_ms is None:
        return None
    run = view.runs[record.made.run].spec
    pool = view.pools[run.pool]
    start_ms = max(record.planned_start_ms, now_ms)
    lines = (view.envelopes[share.payer].spec.selector for share in record.payers)
    return Plan(
        record.made.reservation,
        start_ms,
        start_ms + expected_ms(run, pool) + (grace_ms(run, pool) if is_in_front else 0),
        run.pool,
        record.slice.flavor,
        record.slice.domains,
        record.payers,
        # Where any GPU of a domain is not as good as another, numbers do not tell enough.
        pool.whole_nodes or any(names_label(line, RACK) for line in (run.selector, *lines)),
    )


@dataclass(slots=True)
class Outlook:
    """What is known at ``now_ms`` about what is to come. ``view`` must not change meanwhile."""

    view: StateView
    now_ms: int
    plans: list[Plan]
    ends: Ends
    _takings: dict[IslandKey, list[tuple[Plan, int]]] | None = None
    _islands: dict[IslandKey, Level] = field(default_factory=dict)
    _payers: dict[tuple[EnvelopeId, bool], Level] = field(default_factory=dict)
    _caps: dict[CapId, Level] = field(default_factory=dict)
    _counts: dict[tuple[str, str, int], tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        view: StateView,
        now_ms: int,
        *,
        exempt: str = "",
        before_seq: int | None = None,
        own_seq: int | None = None,
    ) -> Outlook:
        """Return the outlook with every reservation but ``exempt`` and those made later.

        ``own_seq`` is when a reservation was made whose start is looked for among all others.
        """
        plans = [
            plan
            for record in view.reservations.values()
            if record.made.reservation != exempt
            and (before_seq is None or record.seq < before_seq)
            and (
                plan := plan_of(
                    view,
                    record,
                    now_ms,
                    is_in_front=own_seq is not None and record.seq > own_seq,
                )
            )
            is not None
        ]
        return cls(view, now_ms, plans, view.ends_cache)

    def counts(self, pool: str, flavor: str, duration_ms: int) -> tuple[int, int]:
        """Return how many GPUs can be used from now on for a while: in all, and in one domain."""
        known = self._counts.get((pool, flavor, duration_ms))
        if known is not None:
            return known
        index = self.view.domains(pool, flavor)
        until_ms = self.now_ms + duration_ms
        self._island_takings(IslandKey(pool, flavor, ""))
        promised = {
            key: max(0, min(self._free(key), self.island(key).least(self.now_ms, until_ms)))
            for key in self._takings or ()
            if (key.pool, key.flavor) == (pool, flavor) and key.domain in index.numbers
        }
        total = sum(free * domains.bit_count() for free, domains in index.at.items())
        total -= sum(self._free(key) - usable for key, usable in promised.items())
        most = next((free for free, key in index.most_free() if key not in promised), 0)
        known = total, max([most, *promised.values()])
        self._counts[pool, flavor, duration_ms] = known
        return known

    # --- Domains ---

    def island(self, key: IslandKey) -> Level:
        """Return the level of the island under ``key``."""
        known = self._islands.get(key)
        if known is None:
            ends = self.island_ends(key)
            curve = self.ends.island_curves.get(key)
            if curve is None or ends is not self.ends.islands[key]:
                curve = _curve(ends)
                if ends is self.ends.islands[key]:
                    self.ends.island_curves[key] = curve
            takings = [*self._island_takings(key), *self._filled(key)]
            known = self._islands[key] = Level(self._free(key), *curve, takings)
        return known

    def _free(self, key: IslandKey) -> int:
        if key.domain not in self.view.domains(key.pool, key.flavor).numbers:
            return 0
        return self.view.island(key).gpus_free

    def island_ends(self, key: IslandKey) -> list[End]:
        """Return what leases will give back there, in order."""
        said = self.ends.islands.get(key)
        if said is None:
            said = self.ends.islands[key] = self._find_ends(key)
        return self._told(said)

    def _told(self, said: list[End]) -> list[End]:
        """Return ``said`` as it is expected now: what is overdue is expected later."""
        if not said or said[0][0] >= self.now_ms:
            return said
        late = bisect_left(said, self.now_ms, key=itemgetter(0))
        told = [(self.lease_end_ms(name), gpus, name) for _, gpus, name in said[:late]]
        return sorted(told + said[late:])

    def _find_ends(self, key: IslandKey) -> list[End]:
        view = self.view
        found: list[End] = []
        if key.domain not in view.domains(key.pool, key.flavor).numbers:
            return found
        by_node, leases, status = view.node_leases, view.leases, view.node_status
        for node in view.island(key).nodes:
            held = by_node.get(node.name)
            # What ends on a node that is given no work becomes free for nobody.
            if not held or node.name in status or node.name in view.unwiped:
                continue
            for name in held:
                lease = leases[name]
                slots = lease.fact.slots
                gpus = lease.gpus
                if len(slots) > 1:
                    gpus = sum(m.bit_count() for n, m in slots if n == node.name)
                found.append((said_end_ms(view, lease), gpus, name))
        found.sort()
        return found

    def lease_end_ms(self, name: str) -> int:
        """Return when an open lease is expected to end."""
        return lease_end_ms(self.view, self.view.leases[name], self.now_ms)

    def _island_takings(self, key: IslandKey) -> list[Taking]:
        if self._takings is None:
            self._takings = {}
            for plan in self.plans:
                for domain, gpus in plan.domains:
                    where = IslandKey(plan.pool, plan.flavor, domain)
                    self._takings.setdefault(where, []).append((plan, gpus))
        return [
            plan.taking(self._total(key) if plan.is_choosy else gpus)
            for plan, gpus in self._takings.get(key, ())
        ]

    def _total(self, key: IslandKey) -> int:
        """Return how many GPUs there are; none where the domain has gone since."""
        known = key.domain in self.view.domains(key.pool, key.flavor).numbers
        return self.view.island(key).gpus_total if known else 0

    def _filled(self, key: IslandKey) -> list[Taking]:
        """Return the filled spares there: when their fillers end they come back, not free."""
        view, found = self.view, []
        for pledge in view.pledges.values():
            gpus = sum(m.bit_count() for n, m in pledge.slots if view.nodes[n].island == key)
            if gpus:
                found.append((*self.pledge_span(pledge), gpus))
        return found

    def pledge_span(self, pledge: PledgeRecord) -> tuple[int, int]:
        """Return from when to when a filled spare will have its slots back."""
        places = dict(pledge.slots)
        filled = [
            self.lease_end_ms(name)
            for name in self.view.runs[pledge.filler].leases
            if any(places.get(n, 0) & m for n, m in self.view.leases[name].fact.slots)
        ]
        back_ms = max(filled, default=self.now_ms)
        record = self.view.runs[pledge.run]
        over_ms = self.now_ms
        if record.phase is Phase.RUNNING:
            over_ms = run_end_ms(self.view, record, self.now_ms)
        return back_ms, max(back_ms, over_ms)

    # --- Payers ---

    def payer(self, key: EnvelopeId, *, lent: bool = False) -> Level:
        """Return the level of what an envelope can pay at once, or of what it may lend."""
        known = self._payers.get((key, lent))
        if known is None:
            account = self.view.envelopes[key]
            base = account.spec.concurrency - account.gpus_active - account.gpus_reserved
            if lent:
                limit = account.spec.lending.concurrency_max
                base = FOREVER_MS if limit is None else limit - account.lent_gpus_active
            curve = self.ends.payer_curves.get(key)
            ends = self._payer_ends(key, lent=lent)
            if curve is None or ends is not self.ends.payers[key]:
                curve = _curve(ends)
                if ends is self.ends.payers[key]:
                    self.ends.payer_curves[key] = curve
            known = Level(base, *curve, self._shares(key, lent=lent))
            self._payers[key, lent] = known
        return known

    def cap(self, key: CapId, members: Sequence[EnvelopeId]) -> Level:
        """Return the level of a cap over ``members``."""
        known = self._caps.get(key)
        if known is None:
            account = self.view.caps[key]
            limit = account.spec.concurrency_max
            used = account.gpus_active + account.gpus_reserved
            known = Level.of(
                FOREVER_MS if limit is None else limit - used,
                [
                    (at_ms, gpus)
                    for member in members
                    for at_ms, gpus, _ in self._payer_ends(member, lent=False)
                ],
                [taking for member in members for taking in self._shares(member, lent=False)],
            )
            self._caps[key] = known
        return known

    def payer_ends(self, key: EnvelopeId) -> list[End]:
        """Return what leases will give back to their payer, in order."""
        said = self.ends.payers.get(key)
        if said is None:
            leases, view = self.view.leases, self.view
            found = [(name, leases[name]) for name in view.payer_leases.get(key, ())]
            said = sorted((said_end_ms(view, lease), lease.gpus, name) for name, lease in found)
            self.ends.payers[key] = said
        return self._told(said)

    def _payer_ends(self, key: EnvelopeId, *, lent: bool) -> list[End]:
        """Return all that comes back to a payer, or of what it lent; not in order."""
        view, ends = self.view, self.payer_ends(key)
        if lent:
            ends = [end for end in ends if view.leases[end[2]].fact.tier is Tier.BORROWED]
        # What was taken away for a trial still gives its width back when it was expected to, or
        # ending more work would leave less to count on.
        more = [
            (lease_end_ms(view, lease, self.now_ms), lease.gpus, name)
            for name, lease in view.lifted.items()
            if lease.fact.payer == key and (not lent or lease.fact.tier is Tier.BORROWED)
        ]
        more.extend(
            (self.pledge_span(pledge)[1], pledge.gpus, name)
            for name, pledge in view.pledges.items()
            if pledge.payer == key and (not lent or pledge.tier is Tier.BORROWED)
        )
        return ends + more if more else ends

    def _shares(self, key: EnvelopeId, *, lent: bool) -> list[Taking]:
        return [
            plan.taking(share.gpus)
            for plan in self.plans
            for share in plan.payers
            if share.payer == key and (not lent or share.tier is Tier.BORROWED)
        ]
