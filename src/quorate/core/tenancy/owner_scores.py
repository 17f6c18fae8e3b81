"""The scores of owners: how far each owner is below its target share (docs/design/tenancy.md).

A score is computed from an owner's present and past use, its targets and its budgets of hours. GPUs
that a plan gives to an owner are part of its present use. ``share_score`` has the formula.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from quorate.core.tenancy.share_score import ONE, STEPS, Terms, effective, penalty, score_of
from quorate.model.amounts import DAY_MS, HOUR_MS, MINUTE_MS, PPM
from quorate.model.specs import Owner, System
from quorate.model.state.crossings import Counted, counted, metered
from quorate.model.state.line_ranks import Lasting, PlannedRank, Rank
from quorate.model.state.state_view import StateView

Line = tuple[str, tuple[str, ...]]
"""(owner, flavors): a line of the queue; all its runs have the same score."""
Use = tuple[int, int, int]
"""(amount used so far, amount used per millisecond now, whole budget) of a budget of hours."""
_LOG2_E_PPB = 1_442_695_041
_SHORT_MS: Final = 10 * MINUTE_MS
"""If a rank cannot be proven to last as long as estimated, this shorter time is tried."""


class _OwnUse(NamedTuple):
    """The terms of the score of an owner in a flavor, without planned GPUs.

    ``gpus`` is the number of GPUs in use; the other fields are as in ``Terms``.
    """

    gpus: int
    decayed: int
    target: int
    effective: int
    used: int | None
    penalty: int


class Scores:
    """The scores of owners in a view, each computed once.

    GPUs that a plan gives to an owner (method ``plan``) are part of the owner's share.
    """

    __slots__ = (
        "_gpus",
        "_known",
        "_now_ms",
        "_planned",
        "_ranks",
        "_uses",
        "_versions",
        "_view",
    )

    def __init__(self, view: StateView, now_ms: int) -> None:
        self._view = view
        self._now_ms = now_ms
        self._known: dict[tuple[str, str], Terms] = {}
        self._uses: dict[tuple[str, str], _OwnUse] = {}
        """The terms of scores, without planned GPUs."""
        self._gpus: dict[str, tuple[int, int]] = {}
        self._planned: dict[tuple[str, str], int] = {}
        self._ranks: dict[Line, tuple[Rank, int]] = {}
        """The rank of each line, with the ``version`` of its owner when the rank was computed."""
        self._versions: dict[str, int] = {}

    def plan(self, owner: str, flavor: str, gpus: int) -> None:
        """Add ``gpus`` to the share of ``owner``, because the plan gives them to this owner."""
        whose = (owner, flavor)
        self._planned[whose] = self._planned.get(whose, 0) + gpus
        self._versions[owner] = self._versions.get(owner, 0) + 1
        self._known.pop(whose, None)

    def versions(self) -> dict[str, int]:
        """Return, for each owner with planned GPUs, how many times GPUs were planned for it."""
        return self._versions.copy()

    def version(self, owner: str) -> int:
        """Return how many times GPUs were planned for ``owner``."""
        return self._versions.get(owner, 0)

    def of(self, owner: str, flavor: str) -> Terms:
        """Return the terms of the score of ``owner`` in ``flavor``."""
        terms = self._known.get((owner, flavor))
        if terms is None:
            terms = self._known[owner, flavor] = self._terms(owner, flavor)
        return terms

    def _terms(self, owner: str, flavor: str) -> Terms:
        use, (total, free) = self._use_of(owner, flavor), self._flavor_gpus(flavor)
        instant = _part(use.gpus + self._planned.get((owner, flavor), 0), total)
        share = _share(instant, use.decayed, self._view.system)
        return Terms(
            used=use.used,
            penalty=use.penalty,
            instant=instant,
            decayed=use.decayed,
            share=share,
            target=use.target,
            utilisation=_part(total - free, total),
            effective=use.effective,
            score=score_of(use.penalty, share, use.effective),
        )

    def _use_of(self, owner: str, flavor: str) -> _OwnUse:
        """Return the terms of the score of ``owner`` in ``flavor``, without planned GPUs."""
        known = self._uses.get((owner, flavor))
        if known is None:
            known = self._uses[owner, flavor] = self._find(owner, flavor)
        return known

    def _flavor_gpus(self, flavor: str) -> tuple[int, int]:
        """Return the number of all GPUs and of free GPUs of ``flavor``, over all domains."""
        known = self._gpus.get(flavor)
        if known is None:
            known = self._gpus[flavor] = self._view.flavor_gpus(flavor)
        return known

    def _find(self, owner: str, flavor: str) -> _OwnUse:
        view, now_ms, system = self._view, self._now_ms, self._view.system
        spec = view.owners.get(owner) or Owner(name=owner)
        total, free = self._flavor_gpus(flavor)
        meter = view.meters.get((owner, flavor))
        gpus = decayed = 0
        if meter is not None:
            gpus = meter.amount
            if total:
                decayed = _averaged(meter.recent(now_ms, system.half_life_ms), system) // total
        target, burst = _of_ppm(target_ppm(view, spec)), spec.quota.burst_allowance_ppm
        eff = target
        if burst is not None:
            eff = effective(target, _of_ppm(burst), _part(total - free, total))
        used = budget_used(view, spec, now_ms) if view.soft.budgeted else None
        return _OwnUse(gpus, decayed, target, eff, used, ONE if used is None else penalty(used))

    def rank(self, line: Line) -> Rank:
        """Return the rank of the runs of ``line``."""
        version = self._versions.get(line[0], 0)
        known = self._ranks.get(line)
        if known is None or known[1] != version:
            found = self._rank_planned(line) if version else self._rank(line)
            known = self._ranks[line] = (found, version)
        return known[0]

    def _rank_planned(self, line: Line) -> Rank:
        """Return the rank of a line whose owner has planned GPUs; store it for later decisions."""
        owner, flavors = line
        if len(flavors) > 1:
            return self._rank(line)
        kept, now_ms = self._view.line_ranks.planned_of(owner), self._now_ms
        if kept is None:
            return self._rank(line)
        (flavor,) = flavors
        key = (flavor, self._planned.get((owner, flavor), 0))
        known = kept.get(key)
        if known is not None and known.from_ms <= now_ms < known.until_ms:
            return known.rank
        rank, until_ms = self._lasting(line, self._rank(line))
        kept[key] = PlannedRank(rank, now_ms, until_ms)
        return rank

    def _rank(self, line: Line) -> Rank:
        owner, flavors = line
        if len(flavors) > 1:
            _, terms = self.worst(line)
            return terms.is_over, -terms.step
        # Most ranks are computed in this branch. So it repeats the code of ``of`` without creating
        # a ``Terms`` object, which is quicker.
        (flavor,) = flavors
        use = self._use_of(owner, flavor)
        gpus = use.gpus + self._planned.get((owner, flavor), 0)
        share = _share(_part(gpus, self._flavor_gpus(flavor)[0]), use.decayed, self._view.system)
        score = score_of(use.penalty, share, use.effective)
        return use.used is not None and use.used >= ONE, -(score * STEPS // ONE)

    def lasting(self, line: Line) -> Lasting:
        """Return the rank of the runs of ``line``, and an instant up to which the rank is constant.

        The rank is constant up to this instant if no event concerns the owner. The instant is now
        if the rank may change at any time. For example, the rank of an owner that may burst depends
        on how many GPUs are free.
        """
        return self._lasting(line, self.rank(line))

    def _lasting(self, line: Line, rank: Rank) -> Lasting:
        now_ms = self._now_ms
        quota = (self._view.owners.get(line[0]) or Owner(name=line[0])).quota
        if quota.burst_allowance_ppm is not None:
            return rank, now_ms  # The rank depends on the free GPUs, which any event may change.
        stays_ms = self._near_step_ms(line, (now_ms // HOUR_MS + 1) * HOUR_MS)
        for until_ms in dict.fromkeys((stays_ms, min(stays_ms, now_ms + _SHORT_MS))):
            if self._stays(line, rank, until_ms):
                return rank, until_ms
        return rank, now_ms

    def _near_step_ms(self, line: Line, until_ms: int) -> int:
        """Return an estimated instant shortly before a score of ``line`` enters another step.

        A step is an interval of scores that count as equal. The result is ``until_ms`` if no score
        enters another step before ``until_ms``. The estimate assumes that scores change linearly up
        to ``until_ms``.
        """
        owner, flavors = line
        left_ms = span_ms = until_ms - self._now_ms
        for flavor in flavors:
            meter, total = self._view.meters.get((owner, flavor)), self._flavor_gpus(flavor)[0]
            if meter is None or not total:
                continue
            terms = self.of(owner, flavor)
            recent = meter.recent(until_ms, self._view.system.half_life_ms)
            score = self._score_of(terms, recent, total)
            low, high = terms.step * ONE // STEPS, (terms.step + 1) * ONE // STEPS
            room = terms.score - low if score < terms.score else high - terms.score
            moved = abs(score - terms.score)
            if moved > room:
                left_ms = min(left_ms, span_ms * room // moved)
        return until_ms if left_ms == span_ms else self._now_ms + left_ms * 7 // 8

    def _stays(self, line: Line, rank: Rank, until_ms: int) -> bool:
        """Return whether bounds on scores prove that ``line`` keeps ``rank`` up to ``until_ms``."""
        view, (owner, flavors) = self._view, line
        if self.of(owner, flavors[0]).used is not None:
            spec = view.owners.get(owner) or Owner(name=owner)
            for used, each_ms, budget in usage_of(view, spec, self._now_ms):
                most = used + max(0, each_ms) * (until_ms - self._now_ms)
                if budget and penalty(most * ONE // budget) != ONE:
                    return False
        there = [flavor for flavor in flavors if self._flavor_gpus(flavor)[0]] or flavors[:1]
        bounds = [self._steps_between(owner, flavor, until_ms) for flavor in there]
        least = min((found[0] for found in bounds), default=0)
        return least == min((found[1] for found in bounds), default=0) == -rank[1]

    def _steps_between(self, owner: str, flavor: str, until_ms: int) -> tuple[int, int]:
        """Return the lowest and the highest step that the owner's score can have by ``until_ms``.

        If no bounds are known, return limits that hold for every score.
        """
        terms, meter = self.of(owner, flavor), self._view.meters.get((owner, flavor))
        if meter is None:
            return terms.step, terms.step
        system, total = self._view.system, self._flavor_gpus(flavor)[0]
        bounds = meter.recent_between(self._now_ms, until_ms, system.half_life_ms)
        if bounds is None or not total:
            return -1, STEPS
        least, most = bounds
        return self._step_of(terms, most, total), self._step_of(terms, least, total)

    def _step_of(self, terms: Terms, recent: int, total: int) -> int:
        """Return the step of the score with ``terms``, but with ``recent`` as the recent use."""
        return self._score_of(terms, recent, total) * STEPS // ONE

    def _score_of(self, terms: Terms, recent: int, total: int) -> int:
        """Return the score with ``terms``, but with ``recent`` as the owner's recent use."""
        system = self._view.system
        share = _share(terms.instant, _averaged(recent, system) // total, system)
        return score_of(terms.penalty, share, terms.effective)

    def worst(self, line: Line) -> tuple[str, Terms]:
        """Return the flavor of ``line`` in which its owner's score is lowest, and the terms there.

        The rank of a line follows from this flavor, so a run that names more flavors never gets a
        better rank. Flavors without GPUs are ignored.
        """
        owner, flavors = line
        if len(flavors) == 1:
            return flavors[0], self.of(owner, flavors[0])
        there = [flavor for flavor in flavors if self._flavor_gpus(flavor)[0]]
        found = [(flavor, self.of(owner, flavor)) for flavor in there or flavors[:1]]
        return min(found, key=lambda entry: entry[1].score)


def _averaged(recent: int, system: System) -> int:
    """Return the average recent use as a number of GPUs, in parts of ``ONE``.

    The period of the average follows from the half-life of past use.
    """
    return recent * ONE // (system.half_life_ms * _LOG2_E_PPB // 1_000_000_000)


def _share(instant: int, decayed: int, system: System) -> int:
    """Return an owner's share of a flavor: the weighted mean of present and past use."""
    weight = system.instant_weight_ppm
    return (instant * weight + decayed * (PPM - weight)) // PPM


def _part(some: int, whole: int) -> int:
    return some * ONE // whole if whole else 0


def _of_ppm(ppm: int) -> int:
    return ppm * ONE // PPM


def target_ppm(view: StateView, owner: Owner) -> int:
    """Return the target share of ``owner``.

    The share that the stated targets leave is divided equally among the owners without one.
    """
    stated = owner.quota.fair_share_target_ppm
    return view.soft.rest_target_ppm if stated is None else stated


def budget_used(view: StateView, owner: Owner, now_ms: int) -> int | None:
    """Return the used part of the owner's GPU-hours or node-hours, whichever is larger.

    The result is in parts of ``ONE``; it is None if the owner has no budget of hours. Use is
    counted over the installation's rolling window of days. A budget of 0 is treated as used up.
    """
    uses = usage_of(view, owner, now_ms)
    return max((used * ONE // budget if budget else ONE for used, _, budget in uses), default=None)


def usage_of(view: StateView, owner: Owner, now_ms: int) -> Iterator[Use]:
    """Yield the use of each budget of hours of ``owner``, as it counts in the queue's order.

    A valid report of an accounting system replaces the ledger's own figures.
    """
    return _uses(view, counted(view, owner), now_ms)


def metered_usage_of(view: StateView, owner: Owner, now_ms: int) -> Iterator[Use]:
    """Yield the use of each budget of hours of ``owner``, computed from the ledger alone."""
    return _uses(view, [(meters, 0, budget) for meters, budget in metered(view, owner)], now_ms)


def _uses(view: StateView, budgets: Iterable[Counted], now_ms: int) -> Iterator[Use]:
    from_ms = now_ms - view.system.budget_period_days * DAY_MS
    for meters, beside, budget in budgets:
        used = beside + sum(meter.used(from_ms, now_ms) for meter in meters)
        yield used, sum(meter.amount for meter in meters), budget
