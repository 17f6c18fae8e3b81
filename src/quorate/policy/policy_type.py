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
    """Its objective, in a few words."""
    is_least: bool = False
    """Whether a smaller objective is better."""
    reads_pairs: bool = False
    reads_entities: bool = False
    reads_steps: bool = False
    """Whether it has to know how many steps each job has left."""
    reads_costs: bool = False
    reads_progress: bool = True
    """Whether its answer depends on values that change while jobs run: steps left, ages, work done
    so far, deadlines.

    A pool calls a policy that reads none of these only when something else has changed.
    """
    is_smooth: bool = False
    """Whether the share of each job changes little when rates change little. A pool then keeps the
    rates of the last round until one has changed by more than a few percent, and does not call the
    policy before."""
    pairs_max: int | None = None
    """The most pairs that a pool calls it with, if fewer than usual."""
    jobs_max: int | None = None
    jobs_per_gpu_max: int | None = None
    """The most jobs that a pool calls it with, and the most per GPU that they can run on: about a
    second of work with three flavors.

    None if it never takes long. A caller outside of a pool is not limited.
    """
