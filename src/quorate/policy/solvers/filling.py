"""How the water level rises: the value of each job at a given level.

An entity is a group of jobs with a common share. Entities, and jobs without an entity, rise at the
pace of their weights. An entity passes its rise on to those of its jobs that can still rise: to all
of these by their weights (rule fairness), or to the first one (rule fifo). See Gavel, section 4.3
(hierarchical policies).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quorate.policy.problem import NO_ENTITY, EntityRule, Floats, Ints, Problem

Bools = NDArray[np.bool_]
_NONE: Final[Ints] = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """The jobs of one entity that can still rise, in order, and the weight of the entity."""

    rule: EntityRule
    weight: float
    jobs: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Groups:
    """The units that rise: entities, and single jobs without an entity."""

    alone: Ints
    entities: tuple[Group, ...]
    counts: Ints
    """The number of equal jobs that each job stands for, including itself."""

    def without(self, stuck: Bools) -> Groups:
        """Return the groups without the jobs that are ``stuck``."""
        return Groups(
            alone=self.alone[~stuck[self.alone]],
            entities=tuple(
                Group(rule=group.rule, weight=group.weight, jobs=left)
                for group in self.entities
                if len(left := group.jobs[~stuck[group.jobs]])
            ),
            counts=self.counts,
        )


def groups_of(problem: Problem, counts: Ints | None = None) -> Groups:
    """Return the units that rise in ``problem``; each job stands for ``counts`` equal jobs."""
    jobs, _ = problem.shape
    of_jobs = problem.entity_of
    counts = np.ones(jobs, dtype=np.int64) if counts is None else counts
    if of_jobs is None or not problem.entities:
        return Groups(alone=np.arange(jobs, dtype=np.int64), entities=(), counts=counts)
    return Groups(
        alone=np.flatnonzero(of_jobs == NO_ENTITY),
        entities=tuple(
            Group(rule=entity.rule, weight=entity.weight, jobs=np.flatnonzero(of_jobs == number))
            for number, entity in enumerate(problem.entities)
            if np.any(of_jobs == number)
        ),
        counts=counts,
    )


def paces(problem: Problem, groups: Groups) -> Floats:
    """Return the pace of each job while no job is stuck: its weight divided by its scale.

    The weight of an entity is divided among its jobs by the jobs' weights (fairness), or the first
    job has all of it (fifo).
    """
    found = np.zeros(len(problem.jobs))
    found[groups.alone] = problem.weights[groups.alone]
    for group in groups.entities:
        if group.rule is EntityRule.FIFO:
            found[group.jobs[0]] = group.weight
        else:
            weights = problem.weights[group.jobs]
            found[group.jobs] = group.weight * weights / (weights @ groups.counts[group.jobs])
    return found / problem.scales


class Path:
    """The value of each job as a function of the water level, above the present level.

    ``filled`` has the present values. ``tops`` has the value that each job could reach alone: at
    this value the job is stuck, and its entity continues without the job. Between two ``stops``
    every job rises at a constant pace.
    """

    def __init__(self, problem: Problem, groups: Groups, filled: Floats, tops: Floats) -> None:
        self._filled, self._tops = filled, np.maximum(tops, filled)
        self._weights, self._scales = problem.weights, problem.scales
        self._room = (self._tops - filled) * problem.scales
        self._alone, self._counts = groups.alone, groups.counts
        fair = [group for group in groups.entities if group.rule is EntityRule.FAIRNESS]
        stages = [self._stages(group) for group in fair]
        self._shared = [(levels.tolist(), had.tolist()) for levels, had in stages]
        self._sharing = np.concatenate([_NONE, *(group.jobs for group in fair)])
        self._group_of = np.repeat(np.arange(len(fair)), [len(group.jobs) for group in fair])
        self._queues = [
            (group, np.cumsum(self._room[group.jobs] / group.weight))
            for group in groups.entities
            if group.rule is EntityRule.FIFO
        ]
        alone = self._room[self._alone] / self._weights[self._alone]
        ends = [levels for levels, _ in stages] + [levels for _, levels in self._queues]
        self.stops: Floats = np.unique(np.concatenate([[0.0], alone, *ends]))

    def _stages(self, group: Group) -> tuple[Floats, Floats]:
        """Return levels and, for each, the rise per weight of the jobs that can still rise."""
        weights = self._weights[group.jobs]
        had = self._room[group.jobs] / weights
        order = np.argsort(had, kind="stable")
        had = had[order]
        rising = np.cumsum((weights * self._counts[group.jobs])[order][::-1])[::-1]
        levels = np.cumsum(np.diff(had, prepend=0.0) * rising) / group.weight
        return np.append(0.0, levels), np.append(0.0, had)

    def at(self, level: float) -> Floats:
        """Return the value of each job at ``level``."""
        added = np.zeros(len(self._filled))
        added[self._alone] = level * self._weights[self._alone]
        if self._shared:
            had = np.array([_between(level, *stages) for stages in self._shared])
            added[self._sharing] = had[self._group_of] * self._weights[self._sharing]
        for group, ends in self._queues:
            begins = np.append(0.0, ends[:-1])
            added[group.jobs] = np.maximum(level - begins, 0.0) * group.weight
        found: Floats = np.minimum(self._filled + added / self._scales, self._tops)
        return found

    def highest(self, sums: Floats, limits: Floats, known: float = np.inf) -> float:
        """Return the highest level at which ``sums @ at(level)`` does not exceed ``limits``.

        The present level is assumed to be within the limits. No summand is below 0. Only the growth
        of summands is compared with the limits, so that the rounding of constant summands does not
        keep a job from rising. ``known`` is the result for other limits, and an upper bound of this
        result. A result near ``known`` is found quickly.
        """
        room = np.maximum(limits - sums @ self._filled, 0.0)
        within, above = 0, int(np.searchsorted(self.stops, known, side="right"))
        step = len(self.stops) if above == len(self.stops) else 1
        while above - within > 1:
            middle = max((within + above) // 2, above - step)
            if np.all(self._growth(sums, middle) <= room):
                within = middle
            else:
                above = middle
                step *= 4
        low = float(self.stops[within])
        if above == len(self.stops):
            return low
        high = float(self.stops[above])
        at_low, at_high = self._growth(sums, within), self._growth(sums, above)
        over = at_high > room
        if not over.any():
            return known
        parts = (room[over] - at_low[over]) / (at_high[over] - at_low[over])
        return min(known, low + (high - low) * float(np.clip(parts.min(), 0.0, 1.0)))

    def _growth(self, sums: Floats, stop: int) -> Floats:
        found: Floats = sums @ (self.at(float(self.stops[stop])) - self._filled)
        return found


def _between(level: float, levels: list[float], had: list[float]) -> float:
    """Return the value at ``level`` by linear interpolation, like numpy's ``interp``.

    The lists are short, and each call needs one point; the overhead of a numpy call would exceed
    this computation.
    """
    above = bisect_right(levels, level)
    if above == len(levels):
        return had[-1]
    low, high = levels[above - 1], levels[above]
    return had[above - 1] + (level - low) * ((had[above] - had[above - 1]) / (high - low))
