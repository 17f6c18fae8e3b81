"""A policy: a name, its goal, and the function that answers a problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quorate.policy.allocation import Allocation, Unsolved
from quorate.policy.problem import Problem

Solve = Callable[[Problem], Allocation | Unsolved]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy: its published name, its goal, and the function that solves it."""

    name: str
    goal: str
    solve: Solve
    metric: str
    """The objective of the policy, in a few words."""
    is_least: bool = False
    """Whether a smaller objective is better."""
    reads_pairs: bool = False
    reads_entities: bool = False
    reads_steps: bool = False
    """Whether the policy needs the number of steps that each job has left."""
    reads_costs: bool = False
    reads_progress: bool = True
    """Whether the policy's answer depends on values that change while jobs run: remaining steps,
    ages, work done so far, deadlines.

    If it does not, a pool calls the policy only when other values have changed.
    """
    is_for_the_last: bool = False
    """Whether the objective is the end of the last job. If so, a job whose shares add up to its
    whole time decides this end, so a pool lets such a job run before jobs that can make up for lost
    time."""
    is_smooth: bool = False
    """Whether small changes of rates change the share of each job only a little. If so, a pool
    keeps using the rates of the last round, and calls the policy again only when a rate has changed
    by more than a few percent."""
    pairs_max: int | None = None
    """The most pairs with which a pool calls the policy; None for the usual limit."""
    jobs_max: int | None = None
    jobs_per_gpu_max: int | None = None
    """Two limits for calls by a pool: the most jobs, and the most jobs for each GPU that the jobs
    can use. With so many jobs and three flavors, the policy takes about a second.

    None means no limits, because the policy is always fast. Other callers than pools have no
    limits.
    """
