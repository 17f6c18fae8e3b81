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
    """Whether the answer depends on values that change while jobs run: remaining steps, ages, work
    done so far, deadlines.

    If not, a pool calls the policy only when another value has changed.
    """
    is_for_the_last: bool = False
    """Whether the objective is the end of the last job. A job whose shares add up to its whole time
    then decides that end, so a pool lets it run before jobs that can make up for lost time."""
    is_smooth: bool = False
    """Whether small changes of rates change the share of each job only a little. If so, a pool
    keeps the rates of the last round, and calls the policy only after a rate has changed by more
    than a few percent."""
    pairs_max: int | None = None
    """The most pairs with which a pool calls the policy, if fewer than usual."""
    jobs_max: int | None = None
    jobs_per_gpu_max: int | None = None
    """The most jobs with which a pool calls the policy, and the most jobs for each GPU that they
    can use. With these numbers and three flavors, the policy takes about a second.

    None if the policy is always fast. Callers other than pools are not limited.
    """
