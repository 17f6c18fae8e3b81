"""Finds the highest level for many jobs by prices, with a proof that no level is higher.

Each flavor has a price per GPU, and all GPUs together are worth 1. The least cost of a level's
needs gives a bound: a level whose needs cost more than 1 cannot be reached (weak duality). In each
pass, jobs choose the cheapest shares at some prices; these choices become a column of a small
program. The answer of the program is a mixture of choices for which there are enough GPUs. The
prices of the program are tried in the next pass. The search ends when the level of the mixture
meets the bound. This is the decomposition of Dantzig and Wolfe (1960), except that the prices stay
near those of the mixture.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from quorate.policy.problem import Bools, Floats
from quorate.policy.solvers.cheapest import Cheapest, Choice
from quorate.policy.solvers.levels import CERTIFIED, Demand, Levelled, Needs
from quorate.policy.solvers.mixture import Mix, Mixture
from quorate.policy.solvers.rough import rough_by_some

PASSES_MAX: Final = 400
"""The most passes. After so many passes, the plain linear program is faster."""
FIRST_STEPS: Final = 2
"""The number of steps of Newton's method at the first prices. These steps find the levels to try.
"""
ABOVE: Final = 1.2
"""If there is a level at which no job needs any rate, levels are measured from it. The first level
to try is then this many times the level that rough choices reach. It may be too high, because
choices can be mixed with the empty choice, in which no job has GPUs."""
NEAR: Final = 0.1
"""The first steps end when the needs of the level cost at most 1 plus this."""
LEANING: Final = 0.9
"""The part of the next prices that comes from the mixture; the other part comes from the program.
"""
KEPT: Final = 0.7
"""The part of the best prices that is kept in the next prices if the last pass gained nothing."""
SLOW: Final = 0.8
"""If a gap is more than this part of the previous gap, the prices of the mixture are not used,
because they gain little."""
HALF: Final = 0.5
"""If the empty choice is more than this part of the mixture, the prices of the mixture are not used
yet."""
SAME: Final = 0.01
"""If the level has risen by at most this part of the gap, the mixture counts as unchanged. The next
prices are then those of the program alone: if these are the best prices, a pass with them ends the
search."""
STUCK: Final = KEPT / 10
"""If the kept part of the prices is smaller than this, the passes have gained nothing at least
three times."""
PENALTY: Final = 100.0
"""The value of the empty choice is at most this far below the level that the first steps reach. The
unit is the rise of the level that costs as much as all GPUs. If jobs have needs at every level, the
value is exactly this far below."""
NEGLIGIBLE: Final = 1e-9
"""If the empty choice is a smaller part of a mixture than this, it is a rounding error."""


def level_by_prices(
    demand: Demand, needs: Needs, *, within: float = CERTIFIED, start: Floats | None = None
) -> Levelled | None:
    """Return the highest level and shares that reach it; None if ``PASSES_MAX`` is not enough.

    Every job (a row of ``demand``) must have a rate above 0 on some flavor that has GPUs. For every
    job there must be a level at which the job can reach its need. The level is below its upper
    bound by at most the part ``within`` of this bound. A pass reads every job and flavor once or
    twice. With three flavors, about 15 passes are needed; with eight, about 50. ``start`` may have
    the prices of a similar problem, which saves a few passes.
    """
    there = demand.gpus > 0
    if there.all():
        return _Search(demand, needs, within, start).run()
    some = Demand(rates=demand.rates[:, there], loads=demand.loads, gpus=demand.gpus[there])
    found = _Search(some, needs, within, None if start is None else start[there]).run()
    return None if found is None else _spread(found, there)


def _spread(found: Levelled, there: Bools) -> Levelled:
    """Return the answer, with shares of 0 added for the flavors that have no GPUs."""
    shares = np.zeros((len(found.shares), len(there)))
    shares[:, there] = found.shares
    prices = np.zeros(len(there))
    prices[there] = found.prices
    return replace(found, shares=shares, prices=prices)


class _Search:
    """The results of the passes so far."""

    def __init__(self, demand: Demand, needs: Needs, within: float, start: Floats | None) -> None:
        self.demand = demand
        self.needs = needs
        self.within = within
        self.jobs = Cheapest(demand)
        self.highest = needs.reached(self.jobs.most)
        self.bound = self.highest
        self.mixture = Mixture(len(demand.gpus))
        self.choices: list[tuple[float, Choice]] = []
        self.looked: list[Floats] = []
        begun = rough_by_some(demand, self._needs_at(self.highest)[0])
        worth = demand.gpus * (begun.prices if start is None else start)
        self.best: Floats = worth / worth.sum()
        self.first = self.highest
        if begun.full > ABOVE and np.isfinite(needs.at_rest):
            self.first = needs.at_rest + (self.highest - needs.at_rest) * ABOVE / begun.full
        self.best_bound = np.inf
        self.worth: Floats = np.zeros(len(demand.gpus))
        self.base, self.unit = 0.0, 1.0

    def run(self) -> Levelled | None:
        """Return the answer, or None when the passes ran out."""
        self._begin()
        kept, gap, level = KEPT, np.inf, -np.inf
        for _ in range(PASSES_MAX):
            mix = self.mixture.solve()
            if mix is None:
                return None
            last, level = level, self.base + mix.value * self.unit
            before, gap = gap, self.bound - level
            if gap <= self.within / 2 * max(abs(self.bound), abs(level)):
                found = self._answer(mix.parts)
                if found is not None:
                    return found
            kept = KEPT if gap < before else kept / 2
            leaning = LEANING if gap < SLOW * before else 0.0
            if level - last <= SAME * gap:
                kept = leaning = 0.0
            prices = self._next(mix, kept, leaning)
            self._add(self._look(prices, self._level(level, kept)))
        return None

    def _next(self, mix: Mix, kept: float, leaning: float) -> Floats:
        """Return the prices to try next.

        Usually they are mostly the mean of the prices at which the choices of the mixture were
        made: if the used GPUs were a linear function of the prices, jobs would choose the mixture
        at this mean. If such prices gain nothing, the next prices are between the best prices so
        far and the prices of the program.
        """
        asked = np.maximum(mix.prices, 0.0)
        total = float(asked.sum())
        if total <= 0:
            return self.best
        asked /= total
        parts = np.maximum(mix.parts[1:], 0.0)
        if not leaning or mix.parts[0] > HALF:
            return kept * self.best + (1.0 - kept) * asked
        mean = parts @ np.array(self.looked) / float(parts.sum())
        return leaning * mean + (1.0 - leaning) * asked

    def _level(self, level: float, kept: float) -> float:
        """Return the level to try next: usually the bound.

        The bound may be too high, but the choices for it can be mixed with the empty choice.

        If trying the bound gains nothing any more, return the level of the mixture.
        """
        return level if kept < STUCK else self.bound

    def _begin(self) -> None:
        """Take steps of Newton's method down from a level that is too high.

        Costs are convex in the level, so no step goes below the level whose needs cost 1.
        """
        level = self.first
        self._look(self.best, level)
        for _ in range(FIRST_STEPS):
            if self.bound >= level or self.choices[-1][1].cost <= 1.0 + NEAR:
                break
            level = self.bound
            self._look(self.best, level)
        growth = self.choices[-1][1].growth
        self.base = level
        self.unit = 1.0 / growth if growth > 0 else 1.0
        rest = (self.needs.at_rest - self.base) / self.unit
        self.mixture.add(max(-PENALTY, rest), np.zeros(len(self.best)))
        for number in range(len(self.choices)):
            self._add(number)

    def _add(self, number: int) -> None:
        """Add a choice to the mixture."""
        level, choice = self.choices[number]
        self.mixture.add((level - self.base) / self.unit, choice.used / self.demand.gpus)

    def _look(self, prices: Floats, level: float) -> int:
        """Compute the choices of jobs at ``prices`` for ``level``; return the choices' number.

        The bound that these choices give is kept if it is lower than the bound so far.
        """
        need, growth = self._needs_at(level)
        per_gpu = prices / self.demand.gpus
        choice = self.jobs.choose(per_gpu, need, growth)
        self.choices.append((level, choice))
        self.looked.append(prices)
        if choice.growth > 0:
            bound = level + (1.0 - choice.cost) / choice.growth
            if bound < self.best_bound:
                self.best_bound, self.best = bound, prices
                self.worth = per_gpu / choice.growth
            self.bound = min(self.bound, bound)
        return len(self.choices) - 1

    def _needs_at(self, level: float) -> tuple[Floats, Floats]:
        """Return jobs' needs, limited to the rates that they can reach, and the needs' growth."""
        need, growth = self.needs.at(level)
        if need.min() < 0:
            growth = np.where(need < 0, 0.0, growth)
            need = np.maximum(need, 0.0)
        return np.minimum(need, self.jobs.most), growth

    def _answer(self, parts: Floats) -> Levelled | None:
        """Return the mixture as shares that break no constraint, or None if these are too bad."""
        parts = np.maximum(parts, 0.0)
        parts /= parts.sum()
        if parts[0] > NEGLIGIBLE and not np.isfinite(self.needs.at_rest):
            return None
        parts = parts[1:]
        by_flavor = np.zeros((len(self.best), len(self.jobs.most)))
        for number in np.flatnonzero(parts):
            level, choice = self.choices[number]
            need, _ = self._needs_at(level)
            self.jobs.add_shares(choice, need, float(parts[number]), by_flavor)
        over = float(np.max(np.einsum("jm,m->j", by_flavor, self.demand.loads) / self.demand.gpus))
        if over > 1.0:
            by_flavor /= over
        level = self.needs.reached(np.einsum("jm,jm->m", self.jobs.columns[:-1], by_flavor))
        bound = max(self.bound, level)
        if bound - level > self.within * max(abs(bound), abs(level)):
            return None
        return Levelled(
            shares=np.ascontiguousarray(by_flavor.T),
            level=level,
            bound=bound,
            prices=self.worth if self.best_bound <= self.highest else np.zeros(len(self.worth)),
            passes=len(self.choices),
        )
