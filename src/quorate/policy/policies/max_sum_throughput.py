"""The largest sum of rates, or of rates per cost; as many deadlines as possible are kept.

Rates are added in steps per second, although the steps of different jobs differ. So jobs with more
steps per second are preferred (Gavel, section 4.2). In a policy with deadlines, every job that has
a deadline must be fast enough to meet it. If this is impossible, as many deadlines as possible are
kept. If there are several ways to keep that many deadlines, the policy takes the one with the
largest sum of rates. The answer names the jobs whose deadlines are dropped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from quorate.policy.allocation import Allocation, Unsolved, UnsolvedCode, solver_failed
from quorate.policy.allocation_space import Space, added, program, space_of
from quorate.policy.askable import without_anything
from quorate.policy.policy_type import Policy
from quorate.policy.problem import Floats, Ints, Problem
from quorate.policy.solvers.lp import Program, Solution, Status, solve
from quorate.policy.solvers.walls import wall

NEARLY: Final = 1e-9
"""By how much a job may miss a deadline because of rounding, relative to the time until the
deadline."""


def max_sum(
    problem: Problem, *, paired: bool, by_cost: bool, deadlines: bool
) -> Allocation | Unsolved:
    """Return the allocation with the largest sum of rates, or of rates per cost if ``by_cost``.

    ``dropped`` has the jobs whose deadlines cannot be kept together with the others.
    """
    refused = without_anything(problem) or (_costless(problem) if by_cost else None)
    if refused is not None:
        return refused
    space = space_of(problem, paired=paired)
    gains = added(space.columns, space.rates, len(space.rows))
    if by_cost:
        assert problem.costs is not None, "refused above"
        gains = gains / problem.costs[space.flavors]
    needed = _needed(problem) if deadlines else np.zeros(len(problem.jobs))
    due = np.flatnonzero((needed > 0) & (needed <= space.fastest()))
    kept = _kept(space, gains, needed, due)
    if isinstance(kept, Unsolved):
        return kept
    asked = np.zeros(len(needed))
    asked[kept] = needed[kept]
    answer = _most(space, gains, asked)
    if not isinstance(answer, Solution):
        return _failed(f"the program for the deadlines that can be kept has the status {answer}")
    missed = np.setdiff1d(np.flatnonzero(needed > 0), kept)
    return _allocation_of(space, gains, asked, answer, tuple(int(job) for job in missed))


def _needed(problem: Problem) -> Floats:
    """Return the rate that each job needs to meet its deadline; 0 without a deadline.

    If the deadline has passed, the rate is infinite.
    """
    needed = np.zeros(len(problem.jobs))
    has = np.isfinite(problem.deadlines_s) & (problem.steps_left > 0)
    late = has & (problem.deadlines_s <= 0)
    needed[late] = np.inf
    in_time = has & ~late
    needed[in_time] = problem.steps_left[in_time] / problem.deadlines_s[in_time]
    return needed


def _most(space: Space, gains: Floats, asked: Floats) -> Solution | Status:
    """Return the shares with the largest gain if every job has a rate of at least ``asked``."""
    plain = program(space, gains)
    low = np.concatenate([asked * (1 - NEARLY), plain.row_low[len(asked) :]])
    return solve(replace(plain, row_low=low))


def _kept(space: Space, gains: Floats, needed: Floats, due: Ints) -> Ints | Unsolved:
    """Return the jobs of ``due`` that meet their deadlines: all, or as many as possible."""
    asked = np.zeros(len(needed))
    asked[due] = needed[due]
    if isinstance(_most(space, gains, asked), Solution):
        return due
    counted = _choice(space, np.zeros(len(gains)), needed, due)
    most = solve(counted)
    if not isinstance(most, Solution):
        return _failed(f"the search for the deadlines that can be kept has the status {most}")
    count = round(most.objective)
    best = solve(_at_least(_choice(space, gains, needed, due), len(gains), count))
    # If this second search stops at its limit, use the answer of the first search, which keeps as
    # many deadlines, but does not compare gains.
    chosen = best if isinstance(best, Solution) else most
    return due[chosen.x[len(gains) :] > 1 / 2]


def _choice(space: Space, gains: Floats, needed: Floats, due: Ints) -> Program:
    """Return the program with one more column for each job of ``due``.

    This column is 1 if the job meets its deadline, else 0. The unit of each job's rate is the rate
    that the job needs, so that the numbers in the rows of all jobs are of similar size.
    """
    jobs, _ = space.problem.shape
    unit = np.ones(jobs)
    unit[due] = needed[due]
    counts = not np.any(gains)
    marks = []
    for job in due:
        mark = np.zeros(jobs)
        mark[job] = -1.0
        marks.append(mark)
    scaled = replace(space, rates=space.rates / unit[space.jobs])
    of_marks = np.full(len(due), 1.0 if counts else 0.0)
    found = program(scaled, np.append(gains, of_marks), tuple(marks))
    high = found.high.copy()
    high[len(gains) :] = 1.0
    return replace(found, high=high, whole=np.arange(len(gains), len(high)))


def _at_least(choice: Program, begin: int, count: int) -> Program:
    """Return ``choice`` with the condition that at least ``count`` jobs meet their deadlines."""
    columns = np.arange(begin, len(choice.gains))
    return replace(
        choice,
        starts=np.append(choice.starts, choice.starts[-1] + len(columns)),
        columns=np.append(choice.columns, columns),
        values=np.append(choice.values, np.ones(len(columns))),
        row_low=np.append(choice.row_low, float(count)),
        row_high=np.append(choice.row_high, float(len(columns))),
    )


def _allocation_of(
    space: Space, gains: Floats, asked: Floats, answer: Solution, dropped: tuple[int, ...]
) -> Allocation:
    """Return ``answer`` as an allocation, with its gain as the objective, and its bound."""
    jobs = len(asked)
    duals = answer.row_prices
    sums = np.maximum(-duals[:jobs], 0.0)
    times = np.maximum(duals[jobs : 2 * jobs], 0.0)
    proof = wall(space, sums, times, np.maximum(duals[2 * jobs :], 0.0), gains)
    shares = space.fitted(answer.x)
    objective = float(gains @ shares)
    bound = proof.limit - float(proof.sums @ asked) * (1 - NEARLY)
    found = space.allocation(shares, objective=objective, bound=max(bound, objective))
    return replace(found, prices=proof.prices, dropped=dropped)


def _costless(problem: Problem) -> Unsolved | None:
    """Return a refusal if costs are missing; else None."""
    if problem.costs is None:
        return Unsolved(
            code=UnsolvedCode.NOT_APPLICABLE,
            subject="costs",
            message="no flavor has a cost",
            remedy="give what one GPU of each flavor costs for an hour",
        )
    free = problem.costs <= 0
    if not np.any(free):
        return None
    name = problem.flavors[int(np.argmax(free))]
    return Unsolved(
        code=UnsolvedCode.NOT_APPLICABLE,
        subject=name,
        message=f"flavor {name} has no cost above 0",
        remedy=f"give the cost of an hour of one {name} GPU",
    )


def _failed(message: str) -> Unsolved:
    return solver_failed(message, "give fewer jobs a deadline, or later ones")


def _plain(problem: Problem) -> Allocation | Unsolved:
    return max_sum(problem, paired=False, by_cost=False, deadlines=False)


def _by_cost(problem: Problem) -> Allocation | Unsolved:
    return max_sum(problem, paired=False, by_cost=True, deadlines=False)


def _in_time(problem: Problem) -> Allocation | Unsolved:
    return max_sum(problem, paired=False, by_cost=True, deadlines=True)


def _in_time_packed(problem: Problem) -> Allocation | Unsolved:
    return max_sum(problem, paired=True, by_cost=True, deadlines=True)


_FOR_MONEY: Final = "sum of rates, each divided by the cost of a GPU"
MAX_SUM: Final = (
    Policy(
        name="max_sum_throughput_perf",
        goal="the largest sum of steps per second",
        solve=_plain,
        metric="sum of rates",
        jobs_max=3_000,
        reads_progress=False,
    ),
    Policy(
        name="max_sum_throughput_normalized_by_cost_perf",
        goal="the most steps per unit of cost",
        solve=_by_cost,
        metric=_FOR_MONEY,
        reads_costs=True,
        jobs_max=3_000,
        reads_progress=False,
    ),
    Policy(
        name="max_sum_throughput_normalized_by_cost_perf_SLOs",
        goal="the most steps per unit of cost, with deadlines kept",
        solve=_in_time,
        metric=_FOR_MONEY,
        reads_steps=True,
        reads_costs=True,
        # If not all deadlines can be kept, an integer search chooses the deadlines to keep.
        jobs_max=400,
    ),
    Policy(
        name="max_sum_throughput_normalized_by_cost_packed_SLOs",
        goal="the most steps per unit of cost, with deadlines kept and two jobs on the same GPUs",
        solve=_in_time_packed,
        metric=_FOR_MONEY,
        reads_steps=True,
        reads_costs=True,
        reads_pairs=True,
        jobs_max=100,
    ),
)
