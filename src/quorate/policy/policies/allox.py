"""AlloX: assigns jobs to GPUs so that jobs end as early as possible on average.

The duration of a job that is k-th from the end on a GPU delays the ends of k jobs: of the job
itself and of the k - 1 jobs after it. So its place costs k times its duration. The best plan
assigns jobs to places with the least total cost (AlloX, section 4; Gavel's repository,
``allox.py``). Only the first job of each GPU starts; the rest of the plan is computed again at the
next change.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np

from quorate.policy.allocation import Allocation, Method, Unsolved, UnsolvedCode, alone
from quorate.policy.askable import without_anything, without_steps
from quorate.policy.policy_type import Policy
from quorate.policy.problem import Floats, Ints, Problem
from quorate.policy.solvers.assignment import assign
from quorate.policy.solvers.transport import assign_rooms

PUBLISHED_MAX: Final = 128
"""Up to this many jobs, the plan has separate places for each GPU, so that of equally good plans
the published one is chosen."""
WAITS: Final = -1


def allox(problem: Problem) -> Allocation | Unsolved:
    """Return one GPU for each job that runs next; of two equal jobs, the older one runs first."""
    refusal = without_anything(problem) or without_steps(problem) or _unfit(problem)
    if refusal is not None:
        return refusal
    is_small = len(problem.jobs) <= PUBLISHED_MAX
    flavor_of, total_s = _as_published(problem) if is_small else _by_levels(problem)
    shares = np.zeros(problem.shape)
    first = np.flatnonzero(flavor_of != WAITS)
    shares[first, flavor_of[first]] = 1.0
    return alone(shares, objective=total_s, bound=total_s, method=Method.ASSIGNMENT)


def _as_published(problem: Problem) -> tuple[Ints, float]:
    """Return the flavor of each job that is first on a GPU, and the sum of completion times.

    Every GPU has its own places in the plan, so that of equally good plans the published one is
    chosen.
    """
    order = np.argsort(-problem.ages_s, kind="stable")
    places = _places(problem)
    costs = places.number * _seconds(problem)[order][:, places.flavor]
    costs += problem.ages_s[order][:, None]
    columns = assign(costs)
    assert columns is not None, "every job runs on a flavor that has a place for each job"
    # The job whose place is furthest from the end of a GPU's plan runs first on this GPU.
    by_gpu = np.lexsort((places.number[columns], places.gpu[columns]))
    gpus = places.gpu[columns][by_gpu]
    heads = by_gpu[np.append(gpus[1:] != gpus[:-1], True)]
    found = np.full(len(order), WAITS, dtype=np.int64)
    found[order[heads]] = places.flavor[columns[heads]]
    return found, float(costs[np.arange(len(order)), columns].sum())


def _by_levels(problem: Problem) -> tuple[Ints, float]:
    """Return the flavor of each job that is first on a GPU, and the sum of completion times.

    This is faster than ``_as_published``, because GPUs of a flavor are treated as equal. The
    longest jobs are placed first. They run last, so few of the placed jobs have to move later. Of
    jobs at the same distance from the end, the older jobs come first.
    """
    jobs, _ = problem.shape
    seconds = _seconds(problem)
    by_age = np.argsort(-problem.ages_s, kind="stable")
    order = by_age[np.argsort(-seconds[by_age].min(axis=1), kind="stable")]
    levels, columns = _planned(problem, seconds[order])
    found = np.full(jobs, WAITS, dtype=np.int64)
    # Sort by flavor; within a flavor, the jobs furthest from the end come first, and of these the
    # oldest.
    age_rank = np.argsort(by_age)[order]
    by_place = np.lexsort((age_rank, -levels.number[columns], levels.flavor[columns]))
    begun: dict[int, int] = {}
    for column, rows in groupby(by_place.tolist(), key=columns.__getitem__):
        here, flavor = list(rows), int(levels.flavor[column])
        # Each job further from the end is already first on one of these GPUs. So at this distance,
        # only the oldest jobs are first on a GPU: as many as GPUs remain.
        heads = here[: len(here) - begun.get(flavor, 0)]
        found[order[heads]] = flavor
        begun[flavor] = len(here)
    ends_s = levels.number[columns] * seconds[order, levels.flavor[columns]]
    total_s = float(ends_s.sum() + problem.ages_s.sum())
    return found, total_s


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Places:
    """Places in the plan: the flavor, the GPU, and the distance from the end of the GPU's plan."""

    flavor: Ints
    gpu: Ints
    number: Ints


def _planned(problem: Problem, seconds: Floats) -> tuple[_Places, Ints]:
    """Return the places of the cheapest plan, and the place of each row of ``seconds``.

    First, only as many distances from the end are tried as are probably needed. If the last
    distance of some flavor is full, twice as many are tried. Otherwise no job would gain from a
    larger distance.
    """
    jobs, _ = problem.shape
    depth = 4 * -(-jobs // int(problem.gpus.sum()))
    while True:
        levels = _levels(problem, depth)
        rooms = np.minimum(problem.gpus[levels.flavor], jobs)
        costs = levels.number * seconds[:, levels.flavor]
        columns = assign_rooms(costs, rooms, levels.number)
        if columns is not None:
            used = np.bincount(columns, minlength=len(rooms))
            if depth >= jobs or not np.any((levels.number == depth) & (used == rooms)):
                return levels, columns
        assert depth < jobs, "every job runs on a flavor that has a place for each job"
        depth *= 2


def _levels(problem: Problem, depth_max: int) -> _Places:
    """Return one place for each flavor and distance from the end, smallest distances first."""
    jobs, flavors = problem.shape
    by_name = sorted(range(flavors), key=problem.flavors.__getitem__)
    depth = np.where(problem.gpus > 0, -(-jobs // np.maximum(1, problem.gpus)), 0)[by_name]
    depth = np.minimum(depth, depth_max)
    numbers = np.arange(1, int(depth.max()) + 1)
    number, place = np.nonzero(numbers[:, None] <= depth[None, :])
    flavor = np.array(by_name, dtype=np.int64)[place]
    return _Places(flavor=flavor, gpu=place, number=number + 1)


def _places(problem: Problem) -> _Places:
    """Return the places that a best plan may use, by distance from the end, flavor and GPU.

    Let a flavor have N GPUs, and let there be M jobs. No job is further from the end than M / N,
    rounded up, because a nearer place would be free. If the flavor has more than 2 M GPUs, only 2 M
    of them get places: the jobs take at most M places, and one search visits at most M places.
    """
    jobs, flavors = problem.shape
    by_name = sorted(range(flavors), key=problem.flavors.__getitem__)
    flavor = np.repeat(by_name, np.minimum(problem.gpus[by_name], 2 * jobs))
    depth = -(-jobs // np.maximum(1, problem.gpus))
    numbers = np.arange(1, int(depth[flavor].max()) + 1)
    used = numbers[:, None] <= depth[flavor][None, :]
    number, gpu = np.nonzero(used)
    return _Places(flavor=flavor[gpu], gpu=gpu, number=number + 1)


def _seconds(problem: Problem) -> Floats:
    """Return the time of each job on each flavor; infinite if the job makes no progress."""
    found = np.full(problem.shape, np.inf)
    steps = np.broadcast_to(problem.steps_left[:, None], problem.shape)
    np.divide(steps, problem.rates, out=found, where=problem.rates > 0)
    return found


def _unfit(problem: Problem) -> Unsolved | None:
    wide = problem.scales != 1
    for job in np.flatnonzero(wide)[:1]:
        return Unsolved(
            code=UnsolvedCode.NOT_APPLICABLE,
            subject=problem.jobs[job],
            message=f"job {problem.jobs[job]}: takes {problem.scales[job]} GPUs at a time",
            remedy="AlloX only plans jobs of one GPU; leave the job out, or choose another policy",
            jobs=problem.names(wide),
        )
    runs = ((problem.rates > 0) & (problem.gpus > 0)).any(axis=1)
    for job in np.flatnonzero(~runs)[:1]:
        return Unsolved(
            code=UnsolvedCode.NEVER_RUNS,
            subject=problem.jobs[job],
            message=f"job {problem.jobs[job]}: makes no progress on any flavor that has GPUs",
            remedy="leave it out, or correct its rates",
            jobs=problem.names(np.logical_not(runs)),
        )
    return None


ALLOX: Final = (
    Policy(
        name="allox",
        goal="the plan by which jobs end as early as possible on average",
        solve=allox,
        metric="sum of the jobs' ends in seconds since they began",
        is_least=True,
        reads_steps=True,
        jobs_max=1_000,
        jobs_per_gpu_max=40,
    ),
)
