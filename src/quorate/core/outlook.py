"""The outlook: how many GPUs will be free, by domain and by payer, as far as is known now.

A level is what is free now, plus what leases give back when they are expected to end, less what
reservations take from their start to their expected end. Whoever starts something for a while may
use the least level of that while: less than that is free sooner or later.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from quorate.core.expected import lease_end_ms, run_end_ms
from quorate.core.holds import expected_ms
from quorate.model.events import Share, Tier
from quorate.model.island import IslandKey
from quorate.model.records import ClaimRecord, Phase, ReservationRecord
from quorate.model.selector import RACK, names_label
from quorate.model.specs import CapId, EnvelopeId
from quorate.model.view import Curve, Ends, StateView

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


def plan_of(view: StateView, record: ReservationRecord, now_ms: int) -> Plan | None:
    """Return ``record`` as a plan; None while nobody knows when it starts."""
    if record.planned_start_ms is None:
        return None
    run = view.runs[record.made.run].spec
    pool = view.pools[run.pool]
    start_ms = max(record.planned_start_ms, now_ms)
    lines = (view.envelopes[share.payer].spec.selector for share in record.payers)
    return Plan(
        record.made.reservation,
        start_ms,
        start_ms + expected_ms(run, pool),
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

    @classmethod
    def of(
        cls, view: StateView, now_ms: int, *, exempt: str = "", before_seq: int | None = None
    ) -> Outlook:
        """Return the outlook with every reservation but ``exempt`` and those made later."""
        plans = [
            plan
            for record in view.reservations.values()
            if record.made.reservation != exempt
            and (before_seq is None or record.seq < before_seq)
            and (plan := plan_of(view, record, now_ms)) is not None
        ]
        known = view.ends_cache
        if now_ms not in known:
            known.clear()
            known[now_ms] = Ends()
        return cls(view, now_ms, plans, known[now_ms])

    # --- Domains ---

    def island(self, key: IslandKey) -> Level:
        """Return the level of the island under ``key``."""
        known = self._islands.get(key)
        if known is None:
            curve = self.ends.islands.get(key)
            if curve is None:
                curve = curve_of((end_ms, gpus) for end_ms, gpus, _ in self.island_ends(key))
                self.ends.islands[key] = curve
            takings = [*self._island_takings(key), *self._filled(key)]
            known = self._islands[key] = Level(self._free(key), *curve, takings)
        return known

    def _free(self, key: IslandKey) -> int:
        if key.domain not in self.view.domains(key.pool, key.flavor).numbers:
            return 0
        return self.view.island(key).gpus_free

    def island_ends(self, key: IslandKey) -> list[tuple[int, int, str]]:
        """Return (instant, GPUs, lease) of what leases will give back there."""
        known = self.ends.leases.get(key)
        if known is None:
            known = self.ends.leases[key] = self._find_ends(key)
        return known

    def _find_ends(self, key: IslandKey) -> list[tuple[int, int, str]]:
        view = self.view
        found: list[tuple[int, int, str]] = []
        if key.domain not in view.domains(key.pool, key.flavor).numbers:
            return found
        for node in view.island(key).nodes:
            # What ends on a node that is given no work becomes free for nobody.
            if node.name in view.node_status:
                continue
            for name in view.node_leases.get(node.name, ()):
                slots = view.leases[name].fact.slots
                if len(slots) == 1:
                    gpus = slots[0][1].bit_count()
                else:
                    gpus = sum(m.bit_count() for n, m in slots if n == node.name)
                found.append((self.lease_end_ms(name), gpus, name))
        return found

    def lease_end_ms(self, name: str) -> int:
        """Return when an open lease is expected to end."""
        lease = self.view.leases[name]
        if lease.ending is not None:
            return lease_end_ms(self.view, lease, self.now_ms)
        run = lease.fact.run
        known = self.ends.runs.get(run)
        if known is None:
            known = self.ends.runs[run] = run_end_ms(self.view, self.view.runs[run], self.now_ms)
        return known

    def _island_takings(self, key: IslandKey) -> list[Taking]:
        if self._takings is None:
            self._takings = {}
            for plan in self.plans:
                for domain, gpus in plan.domains:
                    where = IslandKey(plan.pool, plan.flavor, domain)
                    self._takings.setdefault(where, []).append((plan, gpus))
        return [
            plan.taking(self.view.island(key).gpus_total if plan.is_choosy else gpus)
            for plan, gpus in self._takings.get(key, ())
        ]

    def _filled(self, key: IslandKey) -> list[Taking]:
        """Return the filled spares there: when their fillers end they come back, not free."""
        view, found = self.view, []
        for claim in view.claims.values():
            gpus = sum(m.bit_count() for n, m in claim.slots if view.nodes[n].island == key)
            if gpus:
                found.append((*self.claim_span(claim), gpus))
        return found

    def claim_span(self, claim: ClaimRecord) -> tuple[int, int]:
        """Return from when to when a filled spare will have its slots back."""
        ends = []
        for name in (claim.filler, claim.run):
            record = self.view.runs[name]
            running = record.phase is Phase.RUNNING
            ends.append(run_end_ms(self.view, record, self.now_ms) if running else self.now_ms)
        return ends[0], max(ends)

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
            curve = self.ends.widths.get((key, lent))
            if curve is None:
                curve = curve_of(self._payer_ends(key, lent=lent))
                self.ends.widths[key, lent] = curve
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
                [gain for member in members for gain in self._payer_ends(member, lent=False)],
                [taking for member in members for taking in self._shares(member, lent=False)],
            )
            self._caps[key] = known
        return known

    def _payer_ends(self, key: EnvelopeId, *, lent: bool) -> list[tuple[int, int]]:
        known = self.ends.payers.get((key, lent))
        if known is None:
            known = self.ends.payers[key, lent] = self._find_payer_ends(key, lent=lent)
        return known

    def _find_payer_ends(self, key: EnvelopeId, *, lent: bool) -> list[tuple[int, int]]:
        view = self.view
        leases = ((name, view.leases[name]) for name in view.payer_leases.get(key, ()))
        found = [
            (self.lease_end_ms(name), lease.gpus)
            for name, lease in leases
            if not lent or lease.fact.tier is Tier.BORROWED
        ]
        found.extend(
            (self.claim_span(claim)[1], claim.gpus)
            for claim in view.claims.values()
            if claim.payer == key and (not lent or claim.tier is Tier.BORROWED)
        )
        return found

    def _shares(self, key: EnvelopeId, *, lent: bool) -> list[Taking]:
        return [
            plan.taking(share.gpus)
            for plan in self.plans
            for share in plan.payers
            if share.payer == key and (not lent or share.tier is Tier.BORROWED)
        ]
