"""First in, first out: jobs in the order of the problem, each on GPUs of one flavor until it ends.

A job gets GPUs of a flavor that has room; the first job for which no flavor has room is the last
considered, so that no job overtakes it. A job that makes no progress wherever there is room is
skipped, as published: it would gain nothing from the GPUs that others then get.
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
"""The least sum of the rates of two jobs together, each relative to its rate alone (Gavel's packing
threshold)."""

Choose = Callable[[int, list[int]], int]
"""Takes a job and the flavors that have room for it, by name, and returns one of them."""


def fifo(problem: Problem, *, seed: int = 0) -> Allocation | Unsolved:
    """Return each job on a flavor with room, drawn at random: rates are not read.

    A job draws an order of the flavors, always the same for one seed, and gets the first with room:
    it does not move because another job came or ended. The published code draws and then takes
    another flavor, whether it has room or not (Gavel's repository, ``fifo.py``); this implements
    the intention.
    """

    def drawn(job: int, flavors: list[int]) -> int:
        chance = Chance(crc32(problem.jobs[job].encode(), seed))
        left = sorted(range(len(problem.flavors)), key=problem.flavors.__getitem__)
        while (flavor := left.pop(chance.below(len(left)))) not in flavors:
            pass
        return flavor

    return without_anything(problem) or _alone(problem, _placed(problem, drawn)[0])


def fifo_perf(problem: Problem) -> Allocation | Unsolved:
    """Return each job on the flavor with room on which it is fastest; ties go by name."""
    refusal = without_anything(problem)
    return refusal or _alone(problem, _placed(problem, _fastest(problem))[0])


def fifo_packed(problem: Problem) -> Allocation | Unsolved:
    """Return the jobs of ``fifo_perf``; waiting jobs share GPUs with them if that gains.

    The next waiting job shares with the job, of the same scale and not sharing yet, with which it
    gains most; the first waiting job that gains with none ends the search. As published, a job for
    which too few GPUs were left is skipped: jobs behind it get no GPU of their own.
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
    """Return the flavor of each job that has GPUs, and the job from which on others may share."""
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
    """Return the first job with GPUs that ``job`` gains most with; None if there is none."""
    best, found = GAIN_MIN, None
    for other, flavor in placed.items():
        gain = _gain(problem, index, (other, job), flavor)
        if gain > best:
            best, found = gain, other
    return found


def _gain(problem: Problem, index: PairIndex, jobs: tuple[int, int], flavor: int) -> float:
    """Return the rates of two jobs together, each relative to its own alone; 0 if they cannot."""
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
        goal="jobs in their order, on any flavor that has room",
        solve=fifo,
        metric=_RUNNING,
        reads_progress=False,
    ),
    Policy(
        name="fifo_perf",
        goal="jobs in their order, each on the fastest flavor that has room",
        solve=fifo_perf,
        metric=_RUNNING,
        reads_progress=False,
    ),
    Policy(
        name="fifo_packed",
        goal="like fifo_perf, but waiting jobs share GPUs of others where that is faster",
        solve=fifo_packed,
        metric=_RUNNING,
        reads_pairs=True,
        reads_progress=False,
    ),
)
