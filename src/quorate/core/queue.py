"""The queue: in which order waiting runs are tried. Design section 9.

Owners that have used up a soft budget come last; then whoever is furthest below its share, in steps
of a score; then whoever could have started longest; then the order of submission. It blocks nobody:
with room for all, all start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush

from quorate.core.follow import eligible_since_ms
from quorate.core.score import ONE, Terms, deficit, effective, penalty
from quorate.model.amounts import DAY_MS, PPM
from quorate.model.crossings import Counted, counted, metered
from quorate.model.records import RunRecord
from quorate.model.specs import Owner
from quorate.model.view import StateView
from quorate.model.waiting import Place

Line = tuple[str, tuple[str, ...]]
"""(owner, flavors): runs of one line have one score."""
Rank = tuple[bool, int]
"""(over budget, step of the score, negative): the least goes first."""
Use = tuple[int, int, int]
"""(used until now, used each millisecond, budget) of a budget of hours."""
_LOG2_E_PPB = 1_442_695_041


class Scores:
    """The scores of owners in a view, each found once.

    GPUs that the plan gives to an owner (``plan``) count as its share.
    """

    __slots__ = ("_gpus", "_known", "_now_ms", "_planned", "_versions", "_view")

    def __init__(self, view: StateView, now_ms: int) -> None:
        self._view = view
        self._now_ms = now_ms
        self._known: dict[tuple[str, str], Terms] = {}
        self._gpus: dict[str, tuple[int, int]] = {}
        self._planned: dict[tuple[str, str], int] = {}
        self._versions: dict[str, int] = {}

    def plan(self, owner: str, flavor: str, gpus: int) -> None:
        """Count ``gpus`` more as the share of ``owner``: it will have them before others start."""
        whose = (owner, flavor)
        self._planned[whose] = self._planned.get(whose, 0) + gpus
        self._versions[owner] = self._versions.get(owner, 0) + 1
        self._known.pop(whose, None)

    def version(self, owner: str) -> int:
        """Return how often something was planned for ``owner``."""
        return self._versions.get(owner, 0)

    def of(self, owner: str, flavor: str) -> Terms:
        """Return what makes up the score of ``owner`` in ``flavor``."""
        known = self._known.get((owner, flavor))
        if known is None:
            known = self._known[owner, flavor] = self._find(owner, flavor)
        return known

    def _flavor_gpus(self, flavor: str) -> tuple[int, int]:
        """Return how many GPUs of ``flavor`` there are and are free: added up over all domains."""
        known = self._gpus.get(flavor)
        if known is None:
            known = self._gpus[flavor] = self._view.flavor_gpus(flavor)
        return known

    def _find(self, owner: str, flavor: str) -> Terms:
        view, now_ms, system = self._view, self._now_ms, self._view.system
        spec = view.owners.get(owner, Owner(name=owner))
        total, free = self._flavor_gpus(flavor)
        meter = view.meters.get((owner, flavor))
        gpus = self._planned.get((owner, flavor), 0)
        decayed = 0
        if meter is not None:
            gpus += meter.amount
            half_life_ms = system.half_life_ms
            recent = meter.recent(now_ms, half_life_ms)
            decayed = recent * ONE // (half_life_ms * _LOG2_E_PPB // 1_000_000_000)
        instant = _part(gpus, total)
        decayed = decayed // total if total else 0
        weight = system.instant_weight_ppm
        share = (instant * weight + decayed * (PPM - weight)) // PPM
        target = _of_ppm(target_ppm(view, spec))
        burst = spec.quota.burst_allowance_ppm
        utilisation = _part(total - free, total)
        eff = effective(target, ONE if burst is None else _of_ppm(burst), utilisation)
        used = budget_used(view, spec, now_ms)
        left = ONE if used is None else penalty(used)
        return Terms(
            used=used,
            penalty=left,
            instant=instant,
            decayed=decayed,
            share=share,
            target=target,
            utilisation=utilisation,
            effective=eff,
            score=left * deficit(share, eff) // ONE,
        )

    def rank(self, line: Line) -> Rank:
        """Return the rank of the runs of ``line``."""
        _, terms = self.worst(line)
        return terms.is_over, -terms.step

    def worst(self, line: Line) -> tuple[str, Terms]:
        """Return the flavor of ``line`` in which its owner stands worst, and the terms there.

        Whoever names more flavors can so only lose by it; one that nobody has counts for nothing.
        """
        owner, flavors = line
        there = [flavor for flavor in flavors if self._flavor_gpus(flavor)[0]]
        found = [(flavor, self.of(owner, flavor)) for flavor in there or flavors[:1]]
        return min(found, key=lambda entry: entry[1].score)


def _part(some: int, whole: int) -> int:
    return some * ONE // whole if whole else 0


def _of_ppm(ppm: int) -> int:
    return ppm * ONE // PPM


def target_ppm(view: StateView, owner: Owner) -> int:
    """Return the target share of ``owner``: where it has none, an equal part of what is left."""
    stated = owner.quota.fair_share_target_ppm
    return view.soft.rest_target_ppm if stated is None else stated


def budget_used(view: StateView, owner: Owner, now_ms: int) -> int | None:
    """Return the worse of the GPU-hours and node-hours used, in parts of ``ONE``; None without any.

    Over the rolling window of the installation. Of a budget of nothing, all is used.
    """
    uses = usage_of(view, owner, now_ms)
    return max((used * ONE // budget if budget else ONE for used, _, budget in uses), default=None)


def usage_of(view: StateView, owner: Owner, now_ms: int) -> Iterator[Use]:
    """Yield how much of each budget of hours of ``owner`` is used, as counts in the queue."""
    return _uses(view, counted(view, owner), now_ms)


def metered_usage_of(view: StateView, owner: Owner, now_ms: int) -> Iterator[Use]:
    """Yield how much of each budget of its quota is used by the ledger, whatever others tell."""
    return _uses(view, [(meters, 0, budget) for meters, budget in metered(view, owner)], now_ms)


def _uses(view: StateView, budgets: Iterable[Counted], now_ms: int) -> Iterator[Use]:
    from_ms = now_ms - view.system.budget_period_days * DAY_MS
    for meters, beside, budget in budgets:
        used = beside + sum(meter.used(from_ms, now_ms) for meter in meters)
        yield used, sum(meter.amount for meter in meters), budget


def line_of(record: RunRecord) -> Line:
    """Return the line that a run stands in: its owner's, in the flavors it asks for."""
    return record.spec.owner, record.spec.flavors


def in_turn(view: StateView, names: Iterable[str], scores: Scores) -> Iterator[str]:
    """Yield ``names`` in the order in which they are to be tried.

    The caller may plan GPUs for the owner of each (``Scores.plan``) before it asks for the next:
    then that owner stands further back.
    """
    lines: dict[Line, list[Place]] = {}
    for name in names:
        record = view.runs[name]
        since_ms = None if record.spec.follow is None else eligible_since_ms(view, record)
        place = (record.submitted_ms if since_ms is None else since_ms, record.seq, name)
        lines.setdefault(line_of(record), []).append(place)
    for places in lines.values():
        places.sort()
    return Queue(((line, "", places) for line, places in lines.items()), scores).turns()


class Queue:
    """Lines of runs, each in its order, that are called up by the ranks of their owners.

    Every line is ranked once, and again when something was planned for its owner. Lines of a pool
    that is closed are passed over.
    """

    __slots__ = ("_heap", "_lines", "_next", "_ranked", "_scores", "closed")

    def __init__(self, lines: Iterable[tuple[Line, str, Sequence[Place]]], scores: Scores) -> None:
        self._scores = scores
        self._lines = [each for each in lines if each[2]]
        self._next = [0] * len(self._lines)
        self._ranked = [scores.version(line[0]) for line, _, _ in self._lines]
        self._heap: list[tuple[Rank, Place, int]] = [
            (scores.rank(line), places[0], number)
            for number, (line, _, places) in enumerate(self._lines)
        ]
        heapify(self._heap)
        self.closed: set[str] = set()

    def turns(self) -> Iterator[str]:
        """Yield the runs, the next one to be tried first."""
        heap, lines, scores = self._heap, self._lines, self._scores
        while heap:
            _, place, number = heappop(heap)
            line, pool, places = lines[number]
            if pool in self.closed:
                continue
            version = scores.version(line[0])
            if version != self._ranked[number]:
                # Something was planned for its owner since this was ranked.
                self._ranked[number] = version
                heappush(heap, (scores.rank(line), place, number))
                continue
            self._next[number] += 1
            yield place[2]
            if self._next[number] < len(places):
                self._ranked[number] = scores.version(line[0])
                heappush(heap, (scores.rank(line), places[self._next[number]], number))


def queue_order(view: StateView, now_ms: int) -> list[str]:
    """Return the waiting runs in the order in which they stand now."""
    return list(in_turn(view, view.pending, Scores(view, now_ms)))
