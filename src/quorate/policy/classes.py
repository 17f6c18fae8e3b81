"""Classes of jobs that are equal in all that a policy reads, and what is solved for them instead.

Equal jobs are interchangeable and the problems are convex, so that some optimum treats them alike:
a class is solved as one row with the load of all its members, and each member gets its share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from quorate.policy.problem import Ints, Problem

BLOCK: Final = 8_192
"""How many jobs are looked at together: what they need fits a processor's cache."""
TABLES: Final = 8
"""How many tables are tried for a job whose place is taken by another class."""
_BITS: Final = 16
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)
_PLACE: Final = np.uint64(64 - _BITS)

Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Classes:
    """The class of each job, and of each class its first member and how many it has.

    Classes are in the order of their first members.
    """

    of: Ints
    first: Ints
    counts: Ints

    def __len__(self) -> int:
        return len(self.first)


class _Tables:
    """The classes seen so far, found by a hash of a job's columns; equality decides."""

    def __init__(self, columns: Sequence[Words], at_most: int) -> None:
        self.columns = columns
        self.at_most = at_most
        self.places: list[Ints] = []
        self.first: Ints = np.zeros(0, dtype=np.int64)
        self.members: list[Words] = [column[:0] for column in columns]

    def find(self, start: int, of: Ints) -> bool:
        """Write the classes of the jobs from ``start`` to ``of``; False when there are too many."""
        part = [np.ascontiguousarray(column[start : start + len(of)]) for column in self.columns]
        mixed = _hash(part)
        rows: Ints | slice = slice(None)
        for number in range(TABLES):
            if number == len(self.places):
                self.places.append(np.full(1 << _BITS, -1))
            table = self.places[number]
            place = (mixed[rows] >> _PLACE).view(np.int64)
            found = table.take(place, mode="clip")
            if found.min() < 0:
                self._enter(table, place, np.arange(len(of))[rows] + start)
                if len(self.first) > self.at_most:
                    return False
                found = table.take(place, mode="clip")
            of[rows] = found
            same = np.ones(len(found), dtype=bool)
            for column, members in zip(part, self.members, strict=True):
                same &= column[rows] == members.take(found, mode="clip")
            if same.all():
                return True
            rows = np.arange(len(of))[rows][~same]
            mixed = mixed * _ODD
        return False

    def _enter(self, table: Ints, place: Ints, rows: Ints) -> None:
        """Make classes of the jobs whose place is free: the first of each place is its member."""
        free = np.flatnonzero(table[place] < 0)
        table[place[free][::-1]] = rows[free][::-1]
        new = np.unique(place[free])
        fresh = np.sort(table[new])
        table[new] = len(self.first) + np.searchsorted(fresh, table[new])
        self.first = np.concatenate((self.first, fresh))
        self.members = [column[self.first] for column in self.columns]


def classes_of(problem: Problem, reads: Sequence[str], at_most: int) -> Classes | None:
    """Return the classes of jobs that are equal in the fields ``reads``; None for too many.

    O(jobs), and little for jobs that are all different: the first of them show it.
    """
    columns: list[Words] = []
    for name in reads:
        field: NDArray[Any] = np.ascontiguousarray(getattr(problem, name)).view(np.uint64)
        columns += [field] if field.ndim == 1 else list(field.T)
    jobs = len(problem.jobs)
    # What is the same for all tells nobody apart; one column is kept for those all alike.
    columns = [column for column in columns if np.any(column != column[0])] or columns[:1]
    tables = _Tables(columns, at_most)
    of = np.empty(jobs, dtype=np.int64)
    few = at_most + 1
    for start in (0, *range(few, jobs, BLOCK)):
        if not tables.find(start, of[start : start + BLOCK if start else few]):
            return None
    order = np.argsort(tables.first)
    if np.any(order[1:] < order[:-1]):
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        of = number.take(of, mode="clip")
    return Classes(of=of, first=tables.first[order], counts=np.bincount(of, minlength=len(order)))


def _hash(columns: Sequence[Words]) -> Words:
    """Return a number for each job that is the same for equal ones, and rarely else."""
    mixed = np.full(len(columns[0]), _ODD)
    high = np.empty_like(mixed)
    for column in columns:
        mixed ^= column
        np.right_shift(mixed, _HALF, out=high)
        mixed ^= high
        mixed *= _ODD
    return mixed


def members_of(problem: Problem, rows: Ints) -> Problem:
    """Return the problem of some of the jobs, without pairs and entities."""
    return replace(
        problem,
        jobs=tuple(problem.jobs[int(row)] for row in rows),
        rates=problem.rates[rows],
        scales=problem.scales[rows],
        weights=problem.weights[rows],
        steps_left=problem.steps_left[rows],
        ages_s=problem.ages_s[rows],
        isolated_s=problem.isolated_s[rows],
        deadlines_s=problem.deadlines_s[rows],
        pairs=None,
        entities=(),
        entity_of=None,
    )
