"""A problem: jobs, their rates on each flavor, and the number of GPUs of each flavor.

Arrays have one row for each job, in the order of ``jobs``, and one column for each flavor, in the
order of ``flavors``. Policies use the names of jobs and flavors only in refusals, to break ties,
and for random draws. There may be any number of flavors with any names. Only this package uses
floats; pools use integers, in GPUs and milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NO_ENTITY: Final = -1

_Array = TypeVar("_Array", Floats, Ints)


class EntityRule(StrEnum):
    """How an entity divides its share among its jobs."""

    FAIRNESS = "fairness"
    FIFO = "fifo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A group of jobs that has a common share: in a pool, an owner."""

    name: str
    weight: float = 1.0
    rule: EntityRule = EntityRule.FAIRNESS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """Pairs of jobs that can share GPUs, and the rates that both jobs of each pair then have.

    ``first`` and ``second`` are rows of jobs, ``first < second``, of equal scale. ``rates`` has the
    shape (pairs, flavors, 2). A pair cannot run on a flavor if one of its jobs makes no progress
    there.
    """

    first: Ints
    second: Ints
    rates: Floats

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """The input of a policy.

    ``rates`` are in steps per second of the whole job on GPUs of one flavor. ``scales`` is the
    number of GPUs that a job takes.

    Only some policies read the following fields. ``steps_left`` has the remaining steps of each
    job. ``ages_s`` is the time since the job first ran. ``isolated_s`` is the time that the job's
    work so far would have taken alone on an equal share. ``deadlines_s`` is the time from now to
    the deadline; it is infinite without a deadline. ``costs`` has the price of a GPU of each flavor
    for an hour.

    ``work_max`` limits the work of policies that can stop early. Work is counted as in
    ``solvers/work_count.py``; None means no limit.
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
        """Return, in order, the names of the jobs for which ``are_meant`` is true."""
        return tuple(self.jobs[int(row)] for row in np.flatnonzero(are_meant))

    @property
    def shape(self) -> tuple[int, int]:
        """The number of jobs and the number of flavors."""
        return len(self.jobs), len(self.flavors)


def read_only(problem: Problem) -> Problem:
    """Return ``problem`` with arrays of which a policy cannot change the values by mistake.

    The arrays are views of the arrays of ``problem``, so nothing is copied. An assignment to an
    element raises ``ValueError``.
    """
    pairs = problem.pairs
    return replace(
        problem,
        gpus=_view(problem.gpus),
        rates=_view(problem.rates),
        scales=_view(problem.scales),
        weights=_view(problem.weights),
        steps_left=_view(problem.steps_left),
        ages_s=_view(problem.ages_s),
        isolated_s=_view(problem.isolated_s),
        deadlines_s=_view(problem.deadlines_s),
        costs=None if problem.costs is None else _view(problem.costs),
        entity_of=None if problem.entity_of is None else _view(problem.entity_of),
        pairs=None
        if pairs is None
        else Pairs(first=_view(pairs.first), second=_view(pairs.second), rates=_view(pairs.rates)),
    )


def _view(array: _Array) -> _Array:
    found = array.view()
    found.flags.writeable = False
    return found
