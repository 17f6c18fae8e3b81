"""First in, first out: jobs run in the order of the problem, each on one flavor until it ends.

A job gets GPUs of a flavor that has room (enough free GPUs). The search ends at the first job for
which no flavor has room, so no job overtakes this job. As published, a job that makes no progress
on any of the flavors with room is skipped: it could not use the GPUs that later jobs then get.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from zlib import crc32

import numpy as np

from quorate.policy.allocation import ALONE, NO_BOUND, Allocation, Method, Unsolved
from quorate.policy.askable import without_anything
from quorate.policy.pair_index import PairIndex
from quorate.policy.policy_type import Policy
from quorate.policy.problem import Problem
from quorate.policy.solvers.chance import Chance

GAIN_MIN: Final = 1.5
"""Two jobs share GPUs only if the sum of their relative rates is above this (Gavel's packing
threshold). A job's relative rate is its rate in the pair, divided by its rate alone."""

Choose = Callable[[int, list[int]], int]
"""A function that gets a job and the flavors with room for it, ordered by name, and returns one of
these flavors."""


def fifo(problem: Problem, *, seed: int = 0) -> Allocation | Unsolved:
    """Return an allocation of each job to a random flavor with room, without comparing rates.

    The seed and the job's name determine a random order of the flavors, and the job gets the first
    flavor with room. So a job does not move when another job arrives or ends. The published code
    draws a flavor, but then gives the job another flavor, even one without room (Gavel's
    repository, ``fifo.py``). This function gives the job the drawn flavor.
    """

    def drawn(job: int, flavors: list[int]) -> int:
        chance = Chance(crc32(problem.jobs[job].encode(), seed))
        left = sorted(range(len(problem.flavors)), key=problem.flavors.__getitem__)
        while (flavor := left.pop(chance.below(len(left)))) not in flavors:
            pass
        return flavor

    return without_anything(problem) or _alone(problem, _placed(problem, drawn)[0])


def fifo_perf(problem: Problem) -> Allocation | Unsolved:
    """Return an allocation of each job to its fastest flavor with room, the first by name."""
    refusal = without_anything(problem)
    return refusal or _alone(problem, _placed(problem, _fastest(problem))[0])


def fifo_packed(problem: Problem) -> Allocation | Unsolved:
    """Return the allocation of ``fifo_perf``, with waiting jobs that share GPUs of other jobs.

    The next waiting job shares the GPUs of the job with which it gains most, among jobs of the same
    scale that do not share yet. The search ends at the first waiting job that gains with no job. As
    published, jobs behind the first job that does not fit get no GPUs for themselves alone.
    """
    if (refusal := without_anything(problem)) is not None:
        return refusal
    placed, next_job = _placed(problem, _fastest(problem))
    index = PairIndex(problem)
    shared: dict[tuple[int, int], int] = {}
    for job in range(next_job, len(problem.jobs)):
        partner = _partner(problem, index, placed, job)
        if partner is None:
            break
        shared[partner, job] = placed.pop(partner)
    return _shared(problem, placed, shared)


def _fastest(problem: Problem) -> Choose:
    def chosen(job: int, flavors: list[int]) -> int:
        return max(flavors, key=lambda flavor: float(problem.rates[job, flavor]))

    return chosen


def _placed(problem: Problem, choose: Choose) -> tuple[dict[int, int], int]:
    """Return the flavor of each job that gets GPUs, and the first job that may share GPUs."""
    free = problem.gpus.copy()
    by_name = sorted(range(len(problem.flavors)), key=problem.flavors.__getitem__)
    placed: dict[int, int] = {}
    for job in range(len(problem.jobs)):
        if not free.any():
            return placed, job
        roomy = [flavor for flavor in by_name if free[flavor] >= problem.scales[job]]
        if not roomy:
            return placed, job + 1
        fits = [flavor for flavor in roomy if problem.rates[job, flavor] > 0]
        if fits:
            placed[job] = choose(job, fits)
            free[placed[job]] -= problem.scales[job]
    return placed, len(problem.jobs)


def _partner(problem: Problem, index: PairIndex, placed: dict[int, int], job: int) -> int | None:
    """Return the job with which ``job`` gains most by sharing; None if no gain is enough."""
    best, found = GAIN_MIN, None
    for other, flavor in placed.items():
        gain = _gain(problem, index, (other, job), flavor)
        if gain > best:
            best, found = gain, other
    return found


def _gain(problem: Problem, index: PairIndex, jobs: tuple[int, int], flavor: int) -> float:
    """Return the sum of two jobs' rates in a pair, each divided by its rate alone; 0 if no pair."""
    row = index.row(*jobs)
    alone = problem.rates[list(jobs), flavor]
    if row is None or problem.pairs is None or not alone.all():
        return 0.0
    both = problem.pairs.rates[row, flavor]
    return float((both / alone).sum()) if both.all() else 0.0


def _alone(problem: Problem, placed: dict[int, int]) -> Allocation:
    return _shared(problem, placed, {})


def _shared(
    problem: Problem, placed: dict[int, int], shared: dict[tuple[int, int], int]
) -> Allocation:
    jobs, flavors = problem.shape
    shares = np.zeros((jobs + len(shared), flavors))
    shares[list(placed), list(placed.values())] = 1.0
    pairs = sorted(shared)
    shares[range(jobs, len(shares)), [shared[pair] for pair in pairs]] = 1.0
    return Allocation(
        first=np.array([*range(jobs), *(first for first, _ in pairs)], dtype=np.int64),
        second=np.array([ALONE] * jobs + [second for _, second in pairs], dtype=np.int64),
        shares=shares,
        objective=float(len(placed) + 2 * len(shared)),
        bound=NO_BOUND,
        method=Method.RULE,
    )


_RUNNING: Final = "jobs that run"

FIFO: Final = (
    Policy(
        name="fifo",
        goal="jobs in their order, on any flavor with enough free GPUs",
        solve=fifo,
        metric=_RUNNING,
        reads_progress=False,
    ),
    Policy(
        name="fifo_perf",
        goal="jobs in their order, each on the fastest flavor with enough free GPUs",
        solve=fifo_perf,
        metric=_RUNNING,
        reads_progress=False,
    ),
    Policy(
        name="fifo_packed",
        goal="like fifo_perf, but a waiting job shares the GPUs of another job if that is faster",
        solve=fifo_packed,
        metric=_RUNNING,
        reads_pairs=True,
        reads_progress=False,
    ),
)
