"""The timeline of one run: the instants at which it might start, and the state it would find.

Instants come from counting: at which of them the domains it may use have enough free for all the
while it would run, and its payers enough width. Whoever asks then has the state of that instant
made, in which everything expected to end by then has ended, and tries for real.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from quorate.core.cover import payer_phases
from quorate.core.layout import PackRequest
from quorate.core.outlook import FOREVER_MS, Level, Outlook
from quorate.core.purse import CoverRequest
from quorate.core.spread import items_of
from quorate.model.events import Slots, Tier
from quorate.model.island import IslandKey
from quorate.model.records import EnvelopeAccount, Lease
from quorate.model.selector import contradicts
from quorate.model.specs import EnvelopeId
from quorate.model.state import State
from quorate.model.view import End, StateView


@dataclass(slots=True)
class Counter:
    """Whether one flavor has, by count, what a request needs; one domain changes at a time."""

    need: int
    group: int
    groups: int
    one_domain: bool
    usable: dict[IslandKey, int] = field(default_factory=dict)
    width: dict[EnvelopeId, int] = field(default_factory=dict)
    total: int = 0
    groups_fit: int = 0
    holding: int = 0
    width_total: int = 0

    @classmethod
    def of(cls, request: PackRequest) -> Counter:
        """Return the counter of what ``request`` needs at least."""
        spares, items = request.spares_per_group, items_of(request)
        first = items[0]
        if first.divisible:
            return cls(request.gpus + spares, 1, 0, request.one_domain)
        need = sum((item.gpus + spares) * item.count for item in items)
        return cls(need, first.gpus + spares, first.count, request.one_domain)

    def set_domain(self, key: IslandKey, gpus: int) -> None:
        """Note that ``gpus`` of a domain can be used."""
        gpus = max(0, gpus)
        was = self.usable.get(key, 0)
        self.usable[key] = gpus
        self.total += gpus - was
        self.groups_fit += gpus // self.group - was // self.group
        self.holding += (gpus >= self.need) - (was >= self.need)

    def set_payer(self, key: EnvelopeId, gpus: int) -> None:
        """Note that a payer can pay ``gpus`` at once."""
        gpus = max(0, gpus)
        self.width_total += gpus - self.width.get(key, 0)
        self.width[key] = gpus

    @property
    def may_fit(self) -> bool:
        """Whether counting does not speak against it."""
        if self.width_total < self.need or self.total < self.need:
            return False
        return self.holding > 0 if self.one_domain else self.groups_fit >= self.groups


Change = tuple[int, int, IslandKey | EnvelopeId, int]
"""(instant, counter, what, how much of it can be used from then on)."""
FIRST_ENDS: Final = 512
"""How many ends are looked at before later ones are; then twice as many each time."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A level that a counter follows, and from when on and how far it can be used."""

    number: int
    key: IslandKey | EnvelopeId
    level: Level
    duration_ms: int
    first_ms: int
    at_most: int = FOREVER_MS

    def changes(self, from_ms: int, until_ms: int) -> Iterator[Change]:
        """Yield how much can be used from each instant of a while at which that may change."""
        level, first_ms = self.level, self.first_ms
        first = bisect_left(level.ends_ms, max(from_ms, first_ms + 1))
        ends_ms = level.ends_ms[first : bisect_left(level.ends_ms, until_ms, first)]
        instants = {first_ms, *ends_ms} if from_ms <= first_ms < until_ms else set(ends_ms)
        for start_ms, stop_ms, _ in level.takings:
            # Room grows when a reservation ends, and shrinks one duration before it starts.
            for at_ms in (stop_ms, start_ms - self.duration_ms + 1):
                if at_ms > first_ms and from_ms <= at_ms < until_ms:
                    instants.add(at_ms)
        if instants:
            ordered = sorted(instants)
            usable = level.usable(ordered, self.duration_ms)
            for at_ms, gpus in zip(ordered, usable, strict=True):
                yield at_ms, self.number, self.key, min(self.at_most, gpus)


@dataclass(slots=True)
class Timeline:
    """What one run would find, instant by instant."""

    outlook: Outlook
    state: State
    counters: list[Counter] = field(default_factory=list)
    _followed: list[Followed] = field(default_factory=list)
    _ends: list[End] = field(default_factory=list)
    _gone: set[str] = field(default_factory=set)
    _passed: int = 0
    _left: dict[str, int] = field(default_factory=dict)
    _returns: list[tuple[int, Slots]] = field(default_factory=list)

    @classmethod
    def of(
        cls, view: StateView, outlook: Outlook, asks: Sequence[tuple[PackRequest, CoverRequest]]
    ) -> Timeline:
        """Return the timeline of a run that ``asks`` for one of these, flavor by flavor."""
        timeline = cls(outlook, view.overlay())
        for request, cover in asks:
            timeline._add(request, cover)
        timeline._ends.sort()
        timeline._returns = sorted(
            ((outlook.pledge_span(pledge)[1], pledge.slots) for pledge in view.pledges.values()),
            reverse=True,
        )
        return timeline

    def _add(self, request: PackRequest, cover: CoverRequest) -> None:
        number, view, outlook = len(self.counters), self.outlook.view, self.outlook
        counter = Counter.of(request)
        self.counters.append(counter)
        payers = [
            (payer, tier, opens_ms, gpus)
            for payer, tier in payer_phases(view, cover)[-1]
            if (opens_ms := _opens_ms(view.envelopes[payer], outlook.now_ms)) is not None
            and (gpus := affordable(view, payer, tier, cover, opens_ms)) > 0
        ]
        if sum(gpus for *_, gpus in payers) < counter.need:
            return  # Nobody has the GPU-hours, whenever that would be.
        lines = {view.envelopes[payer].spec.selector for payer, *_ in payers}
        duration_ms, now_ms = cover.duration_ms, outlook.now_ms
        for key in view.domains(request.pool, request.flavor).keys:
            labels = view.island(key).labels
            if contradicts(request.selector, labels) or all(contradicts(s, labels) for s in lines):
                continue
            self._ends += outlook.island_ends(key)
            self._followed.append(Followed(number, key, outlook.island(key), duration_ms, now_ms))
        for payer, _, opens_ms, gpus in payers:
            self._ends += outlook.payer_ends(payer)
            level = outlook.payer(payer)
            self._followed.append(Followed(number, payer, level, duration_ms, opens_ms, gpus))

    def instants(self) -> Iterator[int]:
        """Yield, in order, each instant at which the run might start."""
        for changes in self._stretches():
            place = 0
            while place < len(changes):
                at_ms = changes[place][0]
                while place < len(changes) and changes[place][0] == at_ms:
                    _, number, key, gpus = changes[place]
                    if isinstance(key, IslandKey):
                        self.counters[number].set_domain(key, gpus)
                    else:
                        self.counters[number].set_payer(key, gpus)
                    place += 1
                if any(counter.may_fit for counter in self.counters):
                    yield at_ms

    def _stretches(self) -> Iterator[list[Change]]:
        """Yield the changes in order, a stretch of time at once: most starts are found early."""
        from_ms, count = self.outlook.now_ms, FIRST_ENDS
        while from_ms < FOREVER_MS:
            until_ms = FOREVER_MS
            if count < len(self._ends):
                until_ms = max(from_ms + 1, self._ends[count][0])
            changes = [c for each in self._followed for c in each.changes(from_ms, until_ms)]
            changes.sort(key=itemgetter(0))
            yield changes
            from_ms, count = until_ms, count * 2

    def _count_out(self, lease: Lease) -> None:
        """Let go of what hard quotas count; a run runs until the last of its leases has ended."""
        state, run = self.state, lease.fact.run
        owner = state.runs[run].spec.owner
        if state.holdings.bounds_of(owner):
            state.drop_slots(run, lease.fact.slots)
            left = self._left[run] = self._left.get(run, len(state.runs[run].leases)) - 1
            if not left:
                state.count_run(owner, -1)

    def at(self, at_ms: int) -> State:
        """Return the state at ``at_ms``, which is not before the last one asked for."""
        ended: list[Lease] = []
        while self._passed < len(self._ends) and self._ends[self._passed][0] <= at_ms:
            name = self._ends[self._passed][2]
            self._passed += 1
            # One that is in several places, or with a payer too, is there several times.
            if name not in self._gone:
                self._gone.add(name)
                ended.append(self.state.leases[name])
                self._count_out(ended[-1])
        release(self.state, ended)
        while self._returns and self._returns[-1][0] <= at_ms:
            self.state.vacate(self._returns.pop()[1])
        return self.state


def _opens_ms(account: EnvelopeAccount, now_ms: int) -> int | None:
    """Return from when an envelope may pay for a start that is planned now; None if never."""
    spec = account.spec
    opens_ms = now_ms
    if spec.start_ms > now_ms and not spec.allow_admission:
        if not spec.allow_reservations:
            return None
        opens_ms = spec.start_ms
    return opens_ms if opens_ms < spec.end_ms else None


def affordable(
    view: StateView, payer: EnvelopeId, tier: Tier, cover: CoverRequest, at_ms: int
) -> int:
    """Return how many GPUs the GPU-hours of a payer allow from ``at_ms`` on.

    Nobody is promised a start so late that, the window closing, it would hold less than that.
    """
    account = view.envelopes[payer]
    spec = account.spec
    left = spec.gpu_ms_granted - account.committed_gpu_ms
    for cap in (view.caps[key] for key in account.caps):
        if cap.spec.gpu_ms_max is not None:
            left = min(left, cap.spec.gpu_ms_max - cap.committed_gpu_ms)
    if tier is Tier.BORROWED and spec.lending.gpu_ms_max is not None:
        left = min(left, spec.lending.gpu_ms_max - account.lent_committed_gpu_ms)
    return max(0, left) // min(cover.duration_ms, spec.end_ms - at_ms)


def release(state: State, leases: Sequence[Lease]) -> None:
    """Free the slots of ``leases`` and the width they take; what is held for them stays promised.

    Nothing that is promised now is counted on: it may be used up by then. Slots that a spare will
    come back to stay taken.
    """
    kept: dict[str, int] = {}
    for pledge in state.pledges.values():
        for node, mask in pledge.slots:
            kept[node] = kept.get(node, 0) | mask
    freed: dict[IslandKey, list[tuple[str, int]]] = {}
    widths: dict[tuple[EnvelopeId, Tier], int] = {}
    for lease in leases:
        fact = lease.fact
        widths[fact.payer, fact.tier] = widths.get((fact.payer, fact.tier), 0) + lease.gpus
        for node, mask in fact.slots:
            left = mask & ~kept[node] if node in kept else mask
            if left:
                freed.setdefault(state.nodes[node].island, []).append((node, left))
    for slots in freed.values():
        state.vacate(tuple(slots))
    for (payer, tier), gpus in widths.items():
        account = state.envelopes.own(payer)
        account.gpus_active -= gpus
        if tier is Tier.BORROWED:
            account.lent_gpus_active -= gpus
        for key in account.caps:
            state.caps.own(key).gpus_active -= gpus
