"""Max-min fairness by water filling: first raise the worst-off job, then the next, and so on.

The level of a job is (rate x scale) / (weight x rate on an equal share of every flavor). See Gavel,
sections 4.1 and 4.3. The levels of all jobs rise together. A job that can only be raised by
lowering others is stuck; the other jobs continue to rise. The proof that a job is stuck is a
*wall*: an inequality that every allocation satisfies, and that the present allocation satisfies
with equality. The dual prices of a linear program with a slightly higher level give the wall, so no
integer program is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from quorate.policy.allocation import (
    ALONE,
    Allocation,
    Method,
    Unsolved,
    UnsolvedCode,
    solver_failed,
)
from quorate.policy.allocation_space import Space, added, space_of, unsolvable
from quorate.policy.classes import Classes, classes_of, members_of
from quorate.policy.policies.leftover import topped_up, without_remainder
from quorate.policy.policy_type import Policy
from quorate.policy.problem import NO_ENTITY, Bools, EntityRule, Floats, Ints, Problem
from quorate.policy.solvers.filling import Groups, Path, groups_of, paces
from quorate.policy.solvers.gauge import Gauge
from quorate.policy.solvers.lp import EXACT, Solution
from quorate.policy.solvers.walls import Wall, Walls, wall
from quorate.policy.solvers.work_count import WorkCount

ASKED_MAX: Final = 200
"""Water filling fails if a level was lowered this many times; 3 or 4 times are usual."""
MISSED: Final = 1e-9
"""How far below its level a job may be in the usual case, in the job's unit (``_units``)."""
MISSED_MAX: Final = 1e-7
"""The limit that replaces ``MISSED`` if a solver's rounding leaves a job further below its level.
"""
RAISED: Final = 1e-7
"""In the usual case, a job counts as stuck if it can be raised by at most this, in the job's unit
(``_units``)."""
RAISED_MAX: Final = 1e-5
"""The limit that replaces ``RAISED`` if rates differ a millionfold, because walls are then less
exact."""
UNSURE_MAX: Final = 1e-2
"""If the job nearest to a wall can be raised by more than this, water filling fails. An answer
names the jobs that count as stuck although they can be raised by more than ``RAISED_MAX``.
"""
TOGETHER: Final = 10.0
"""If no job is clearly stuck, the job nearest to a wall counts as stuck. So does every job whose
distance from a wall is at most this many times as large."""
STALLED_MAX: Final = 5
"""The search fails when this many answers have missed a level and no wall lowered it."""
NOTHING: Final = 1e-12
"""A rise of less than this part of a job's largest possible rate counts as rounding."""
MANY: Final = 300
"""With at least this many jobs, it is faster to begin near the first level than at level 0."""
EVENED_MAX: Final = 500
"""The most times that an even spread of time is corrected. If it then still uses too many GPUs, the
solver's shares are used."""
_TINY: Final = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class Filled:
    """The level of every job, the shares of the columns, and the walls that were met.

    ``unfinished`` has jobs that could perhaps be raised further. To prove that they are stuck would
    take too much work, or rounding hides the proof.
    """

    filled: Floats
    shares: Floats
    walls: tuple[Wall, ...]
    unfinished: tuple[int, ...] = ()


def water_filling(
    problem: Problem, *, paired: bool, agnostic: bool = False
) -> Allocation | Unsolved:
    """Return an allocation in which raising a job would mean lowering a worse-off job.

    The objective is the level at which the first job is stuck; only jobs that rise from the start
    count. Without entities, this is the objective of max-min fairness. If several allocations have
    the same rates, the order of jobs and flavors alone decides which one is returned. If
    ``problem.work_max`` is not enough for all levels, the remaining GPUs are shared by weight, and
    the answer names the unfinished jobs. GPUs that rounding leaves over are shared by weight, too.
    """
    refused = unsolvable(problem) or _weightless(problem)
    if refused is not None:
        return refused
    found = _by_classes(problem, paired=paired, agnostic=agnostic)
    if isinstance(found, Unsolved):
        return found
    if found.unfinished:
        found = topped_up(problem, found)
    return without_remainder(problem, found)


def _by_classes(problem: Problem, *, paired: bool, agnostic: bool) -> Allocation | Unsolved:
    """Return the allocation of ``problem``; compute it by classes of jobs if this is faster."""
    alike = None if paired else _alike(problem)
    if alike is None:
        return _filled(problem, None, paired=paired, agnostic=agnostic)
    fewer = replace(
        members_of(problem, alike.first),
        entities=problem.entities,
        entity_of=None if problem.entity_of is None else problem.entity_of[alike.first],
    )
    found = _filled(fewer, alike.counts, paired=False, agnostic=agnostic)
    if isinstance(found, Unsolved):
        return found
    all_jobs = np.arange(len(problem.jobs), dtype=np.int64)
    return replace(
        found,
        first=all_jobs,
        second=np.full(len(all_jobs), ALONE, dtype=np.int64),
        shares=found.shares[alike.of],
        method=Method.CLASSES,
        unfinished=_rows(np.isin(alike.of, found.unfinished)),
    )


def _alike(problem: Problem) -> Classes | None:
    """Return the classes of jobs that rise equally, or None.

    The result is None if there are more than half as many classes as jobs.

    Equal jobs of an entity rise equally if the entity's rule is fairness, but not if it is fifo.
    """
    jobs = len(problem.jobs)
    kin = np.full(jobs, float(NO_ENTITY))
    if problem.entity_of is not None and problem.entities:
        queues = np.array([entity.rule is EntityRule.FIFO for entity in problem.entities])
        queued = (problem.entity_of != NO_ENTITY) & queues[problem.entity_of]
        places = len(queues) + np.arange(jobs)
        kin = np.where(queued, places, problem.entity_of).astype(np.float64)
    # Classes are formed by comparing fields of the problem, so the number of each job's group is
    # put into the field of ages, which water filling does not read.
    marked = replace(problem, ages_s=kin)
    return classes_of(marked, ("rates", "scales", "weights", "ages_s"), jobs // 2)


def _filled(
    problem: Problem, counts: Ints | None, *, paired: bool, agnostic: bool
) -> Allocation | Unsolved:
    """Return the allocation of a problem in which each job represents ``counts`` equal jobs."""
    space = replace(space_of(problem, paired=paired, agnostic=agnostic), counts=counts)
    normal = _equal_rates(problem, agnostic=agnostic)
    space = replace(space, rates=space.rates / normal[space.jobs])
    groups = groups_of(problem, counts)
    found = fill(space, groups)
    if isinstance(found, Unsolved):
        return found
    if agnostic:
        found = replace(found, shares=_evened(space, found))
    return _allocation_of(space, found, paces(problem, groups))


def fill(space: Space, groups: Groups, many: int = MANY) -> Filled | Unsolved:
    """Return the levels of all jobs, after each job has risen as far as it can.

    If there are at least ``many`` jobs and no pairs, the search begins near the first level, which
    the price method finds. If rounding makes the solver fail from there, everything is computed
    again from level 0.
    """
    jobs, _ = space.problem.shape
    work = WorkCount(space.problem.work_max)
    if jobs >= many and len(space.first) == jobs:
        found = _fill(space, groups, work, is_near=True)
        if not isinstance(found, Unsolved):
            return found or _too_much(jobs)
    return _fill(space, groups, work, is_near=False) or _too_much(jobs)


def _too_much(jobs: int) -> Unsolved:
    return Unsolved(
        code=UnsolvedCode.TOO_MUCH_WORK,
        subject="solver",
        message=f"computing the first level of {jobs} kinds of jobs takes too much work",
        remedy="have fewer jobs, bring rates and weights nearer to each other, or choose another "
        "policy",
    )


def _fill(
    space: Space, groups: Groups, work: WorkCount, *, is_near: bool
) -> Filled | Unsolved | None:
    """Return the levels of all jobs.

    If even the first level takes too much work, return the first level that prices reach. Return
    None if the search did not begin near the first level, or if prices reach no level.
    """
    problem = space.problem
    jobs, _ = problem.shape
    tops = space.fastest()
    equal = (problem.gpus > 0).astype(np.float64)
    counts = np.ones(jobs) if space.counts is None else space.counts
    first = wall(space, counts * problem.scales / tops, np.zeros(jobs), equal)
    walls = Walls(first, work)
    path, stuck = Path(problem, groups, np.zeros(jobs), tops), np.zeros(jobs, dtype=np.bool_)
    gauge = Gauge(space, _units(path, paces(problem, groups), tops, first), work)
    for met in gauge.begin_near(path, first, MISSED) if is_near else ():
        walls.add(met)
    filled, shares = np.zeros(jobs), np.zeros(len(space.rows))
    unsure = np.zeros(jobs, dtype=np.bool_)
    for stage in range(2 * jobs):
        risen = _rise(gauge, path, walls)
        if risen is None and not stage:
            return _by_prices(space, gauge, path, walls)
        if risen is None:
            return Filled(filled, shares, tuple(walls.each), _rows(unsure | ~stuck))
        if isinstance(risen, Unsolved):
            return risen
        level, shares = risen
        filled = path.at(level)
        left = walls.left(filled, tops)
        left = np.where(left <= NOTHING * tops, 0.0, left) / gauge.units
        rises = ~stuck
        nearest = float(left[rises].min())
        stuck = stuck | (left <= RAISED)
        if nearest > RAISED and not gauge.grown(filled):
            # Because of rounding, no wall proves that a job is stuck, so the job nearest to a wall
            # counts as stuck.
            if nearest > UNSURE_MAX:
                return _failed("no job is found to be stuck although none can rise")
            near = max(RAISED_MAX, TOGETHER * nearest)
            unsure = unsure | (rises & (left > RAISED_MAX) & (left <= near))
            stuck = stuck | (left <= near)
        if stuck.all():
            return Filled(filled, shares, tuple(walls.each), _rows(unsure))
        path = Path(problem, groups.without(stuck), filled, tops)
    return _failed("some jobs neither rise nor are stuck")


def _by_prices(space: Space, gauge: Gauge, path: Path, walls: Walls) -> Filled | None:
    """Return the first level that prices reach, or None; every job counts as unfinished."""
    found = gauge.priced(path)
    if found is None:
        return None
    walls.add(found.wall)
    rates = space.rates_of(found.shares)
    return Filled(rates, found.shares, tuple(walls.each), tuple(range(len(rates))))


def _rows(are_meant: Bools) -> tuple[int, ...]:
    return tuple(np.flatnonzero(are_meant).tolist())


def _units(path: Path, pace: Floats, tops: Floats, first: Wall) -> Floats:
    """Return each job's unit of measure: its approximate rate at the first level."""
    level = path.highest(first.sums[None], np.array([first.limit]))
    return np.where(pace > 0, np.minimum(tops, pace * level), tops)


def _rise(gauge: Gauge, path: Path, walls: Walls) -> tuple[float, Floats] | Unsolved | None:
    """Return the highest reachable level of ``path``, and shares that reach it.

    Return None if this takes too much work.

    If an answer of the program misses the level, its wall is added, and the level is lowered to the
    wall. This is Newton's method from above. It ends when an answer reaches the level.
    """
    before, stalled = np.inf, 0
    # If a wall no longer lowers the level, accept an answer that misses it by the rounding of all
    # jobs.
    rounding = max(MISSED_MAX, 2 * EXACT * len(gauge.units))
    level = walls.highest(path)
    for _ in range(ASKED_MAX):
        filled = path.at(level)
        answer = gauge.solve(filled)
        if answer is None:
            return None
        if not isinstance(answer, Solution):
            return _failed(f"the linear program of a level has the status {answer}")
        if -answer.objective <= (MISSED if level < before else rounding):
            return level, answer.x[:-1]
        if level >= before:
            if gauge.grown(filled):
                continue
            stalled += 1
            if stalled == STALLED_MAX:
                return _failed(
                    f"a level is missed by {-answer.objective:.1e} but cannot be lowered"
                )
        before = level
        walls.add(gauge.wall(answer))
        level = walls.highest(path, level)
    return _failed(f"a level is not reached after {ASKED_MAX} programs")


def _allocation_of(space: Space, found: Filled, pace: Floats) -> Allocation:
    """Return the allocation of ``found``, with its level and its bound."""
    problem = space.problem
    shares = space.fitted(found.shares)
    rising = pace > 0
    objective = float((space.rates_of(shares)[rising] / pace[rising]).min())
    bound = float((space.fastest()[rising] / pace[rising]).min())
    prices = np.zeros(len(problem.gpus))
    for met in found.walls:
        gain = float(met.sums @ pace)
        if gain > 0 and met.limit / gain < bound:
            bound, prices = met.limit / gain, met.prices / gain
    told = space.allocation(shares, objective=objective, bound=max(bound, objective))
    return replace(told, prices=prices, unfinished=found.unfinished)


def _evened(space: Space, found: Filled) -> Floats:
    """Return each job's time, spread over the GPUs that can run it as evenly as possible.

    A policy that reads no rates does not know on which flavors jobs run faster, so an even spread
    is the fairest for it. If the demand for a flavor is too high, the time of all jobs on this
    flavor is reduced in proportion, and the jobs get the missing time on other flavors.
    """
    gpus = space.problem.gpus.astype(np.float64)
    shares = gpus[space.flavors]
    for _ in range(EVENED_MAX):
        time = added(space.jobs, shares, len(found.filled))
        shares = shares * (found.filled / np.maximum(time, _TINY))[space.jobs]
        over = space.used(shares) / np.maximum(gpus, 1.0)
        if np.all(over <= 1 + MISSED):
            return shares
        shares = shares / np.maximum(over, 1.0)[space.flavors]
    return found.shares


def _equal_rates(problem: Problem, *, agnostic: bool) -> Floats:
    """Return the rate of each job with the shares of ``proportional``."""
    if agnostic:
        return np.ones(len(problem.jobs))
    found: Floats = problem.rates @ problem.gpus / problem.gpus.sum()
    return found


def _weightless(problem: Problem) -> Unsolved | None:
    for entity in problem.entities:
        if entity.weight <= 0:
            return Unsolved(
                code=UnsolvedCode.NOT_APPLICABLE,
                subject=entity.name,
                message=f"entity {entity.name} has the weight {entity.weight:g}",
                remedy=f"give entity {entity.name} a weight above 0, or leave its jobs out",
            )
    return None


def _failed(message: str) -> Unsolved:
    return solver_failed(
        message, "report this as a bug, with the problem: water filling always has an answer"
    )


def _agnostic(problem: Problem) -> Allocation | Unsolved:
    return water_filling(problem, paired=False, agnostic=True)


def _perf(problem: Problem) -> Allocation | Unsolved:
    return water_filling(problem, paired=False)


def _packed(problem: Problem) -> Allocation | Unsolved:
    return water_filling(problem, paired=True)


_METRIC: Final = "least level: scale x rate / (weight x rate on an equal share of every flavor)"
WATER_FILLING: Final = (
    Policy(
        name="max_min_fairness_water_filling",
        goal="raise the worst-off job, then the next, comparing GPU time only",
        solve=_agnostic,
        metric="least level: scale x GPU time / weight",
        reads_entities=True,
        reads_progress=False,
        is_smooth=True,
    ),
    Policy(
        name="max_min_fairness_water_filling_perf",
        goal="raise the worst-off job, then the next, comparing progress on each flavor",
        solve=_perf,
        metric=_METRIC,
        reads_entities=True,
        reads_progress=False,
        is_smooth=True,
    ),
    Policy(
        name="max_min_fairness_water_filling_packed",
        goal="like max_min_fairness_water_filling_perf, but two jobs may share GPUs",
        solve=_packed,
        metric=_METRIC,
        reads_pairs=True,
        reads_entities=True,
        # Every level needs a linear program with all pairs, so a thousand jobs take twenty seconds.
        jobs_max=200,
        pairs_max=5_000,
        reads_progress=False,
        is_smooth=True,
    ),
)
