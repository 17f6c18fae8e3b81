"""The level that a max-min policy raises for all jobs, and the rates that a level needs.

Max-min fairness, makespan and finish-time fairness are one problem: the highest level at which the
GPUs are enough for the rates that all jobs need. These three policies differ in how the needs
follow from the level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from quorate.policy.problem import Floats, Ints

CERTIFIED: Final = 1e-7
"""A level is accepted as the highest if it is below its upper bound by at most this part of the
bound."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Together:
    """Pairs of jobs, or of classes, that share GPUs; a class can form a pair with itself.

    ``first`` and ``second`` are rows. If the share of a pair on a flavor is 1, the pair adds
    ``rates`` (pairs, flavors, 2) to the rates of its two rows, uses ``times`` (pairs, 2) of their
    time, and uses ``loads`` GPUs.
    """

    first: Ints
    second: Ints
    rates: Floats
    times: Floats
    loads: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Demand:
    """The demand for GPUs of each flavor: one row for each job, or for each class of equal jobs.

    ``rates`` has the rate of one job with its whole time on a flavor. ``loads`` is the number of
    GPUs that a row takes: the scale of a job, times the number of members of a class.
    """

    rates: Floats
    loads: Floats
    gpus: Ints
    together: Together | None = None


class Needs(Protocol):
    """The rate that each job needs: a convex function of the level, which never decreases."""

    @property
    def at_rest(self) -> float:
        """A level at which no job needs any rate; minus infinity if there is no such level."""
        ...

    def at(self, level: float) -> tuple[Floats, Floats]:
        """Return the rate that each job needs at ``level``, and the growth of this need."""
        ...

    def reached(self, rates: Floats) -> float:
        """Return the highest level at which no job needs more than its rate."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Linear:
    """Needs that grow with the level: ``floor + level * growth``.

    If the need of a job does not grow with the level, the job's rate must be enough in any case.
    """

    floor: Floats
    growth: Floats

    @property
    def at_rest(self) -> float:
        """A level at which no job needs any rate; minus infinity if there is no such level."""
        return -np.inf if np.any(self.floor > 0) else 0.0

    def at(self, level: float) -> tuple[Floats, Floats]:
        """Return the rate that each job needs at ``level``, and the growth of this need."""
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Levelled:
    """Shares that reach ``level``, and ``bound``, a level that no shares can exceed.

    Shares have a row for each row of the demand, followed by a row for each pair. ``prices`` has,
    for each flavor, the rise of the level if there were one GPU more. ``passes`` counts the passes
    over the jobs, or the calls of a solver.
    """

    shares: Floats
    level: float
    bound: float
    prices: Floats
    passes: int
