"""A problem: jobs, their rates on each flavor, and how many GPUs of each there are.

Arrays hold one row for each job, in the order of ``jobs``, and one column for each flavor, in the
order of ``flavors``; a policy never sees a name. Any number of flavors with any names. Only this
package uses floats: pools count allocations in GPUs and milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NO_ENTITY: Final = -1


class EntityRule(StrEnum):
    """How an entity divides its share among its jobs."""

    FAIRNESS = "fairness"
    FIFO = "fifo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A group of jobs that share its part: in a pool, an owner."""

    name: str
    weight: float = 1.0
    rule: EntityRule = EntityRule.FAIRNESS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """Jobs that can share GPUs, two at a time, and the rate of each of the two then.

    ``first`` and ``second`` are rows of jobs, ``first < second``, of equal scale. ``rates`` has the
    shape (pairs, flavors, 2); a flavor on which either of the two makes no progress cannot have the
    pair.
    """

    first: Ints
    second: Ints
    rates: Floats

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """The input of a policy.

    ``rates`` are steps per second of the whole job on GPUs of one flavor; ``scales`` how many GPUs
    a job takes at a time. ``steps_left``, ``ages_s`` (since the job first ran), ``isolated_s`` (how
    long its work so far would have taken alone on an equal share) and ``deadlines_s`` (from now;
    infinite without one) are read by the policies that say so. ``costs`` are money per GPU and hour
    of each flavor. ``work_max`` bounds the work of the policies that can stop early, counted as in
    ``solvers/work_count.py``; without it they are not limited.
    """

    flavors: tuple[str, ...]
    gpus: Ints
    jobs: tuple[str, ...]
    rates: Floats
    scales: Ints
    weights: Floats
    steps_left: Floats
    ages_s: Floats
    isolated_s: Floats
    deadlines_s: Floats
    costs: Floats | None = None
    pairs: Pairs | None = None
    entities: tuple[Entity, ...] = ()
    entity_of: Ints | None = None
    work_max: int | None = None

    def names(self, are_meant: Bools) -> tuple[str, ...]:
        """Return the names of the jobs for which ``are_meant`` is true, in their order."""
        return tuple(self.jobs[int(row)] for row in np.flatnonzero(are_meant))

    @property
    def shape(self) -> tuple[int, int]:
        """How many jobs and how many flavors there are."""
        return len(self.jobs), len(self.flavors)
