"""The level that a max-min policy raises for all jobs at once, and the rate each job needs for it.

Max-min fairness, makespan and finish-time fairness are one problem: the highest level at which the
GPUs are enough for the rates that all jobs need. They differ in how a need follows from a level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from quorate.policy.problem import Floats, Ints

CERTIFIED: Final = 1e-7
"""How far a level may be below its bound, relative to the bound, to count as the highest."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Together:
    """Pairs of jobs that share GPUs, or of classes whose members do, or of a class with itself.

    ``first`` and ``second`` are rows. A unit of a pair's time on a flavor adds ``rates`` to the two
    (shape: pairs, flavors, 2), takes ``times`` of their time (pairs, 2) and ``loads`` GPUs.
    """

    first: Ints
    second: Ints
    rates: Floats
    times: Floats
    loads: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Demand:
    """The demand for GPUs of each flavor: one row for each job, or for each class of equal jobs.

    ``rates`` are those of one job when it has all its time on a flavor; ``loads`` how many GPUs
    that takes: the scale of a job, times the members of a class.
    """

    rates: Floats
    loads: Floats
    gpus: Ints
    together: Together | None = None


class Needs(Protocol):
    """How the rate that each job needs follows from the level: never falling, and convex."""

    @property
    def at_rest(self) -> float:
        """A level at which no job needs anything; minus infinity if there is none."""
        ...

    def at(self, level: float) -> tuple[Floats, Floats]:
        """Return each job's need at ``level``, and by how much it grows with the level."""
        ...

    def reached(self, rates: Floats) -> float:
        """Return the highest level at which no job needs more than its rate."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Linear:
    """Needs that grow with the level: ``floor + level * growth``.

    No growth means a need that is met.
    """

    floor: Floats
    growth: Floats

    @property
    def at_rest(self) -> float:
        """A level at which no job needs anything; minus infinity if there is none."""
        return -np.inf if np.any(self.floor > 0) else 0.0

    def at(self, level: float) -> tuple[Floats, Floats]:
        """Return each job's need at ``level``, and by how much it grows with the level."""
        need = level * self.growth
        need += self.floor
        return need, self.growth

    def reached(self, rates: Floats) -> float:
        """Return the highest level at which no job needs more than its rate."""
        rows = self.growth > 0
        if rows.all():
            return float(np.min((rates - self.floor) / self.growth))
        if not rows.any():
            return 0.0
        return float(np.min((rates[rows] - self.floor[rows]) / self.growth[rows]))


def alike(jobs: int) -> Linear:
    """Return the needs of plain max-min: the level itself, for every job."""
    return Linear(floor=np.zeros(jobs), growth=np.ones(jobs))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Levelled:
    """Shares that reach ``level``, and a ``bound`` that no shares can pass.

    Shares have a row for each row of the demand, and then one for each of its pairs. ``prices`` are
    by how much the level rises for one more GPU of each flavor; ``passes`` how many passes over the
    jobs, or solver calls, it took.
    """

    shares: Floats
    level: float
    bound: float
    prices: Floats
    passes: int
