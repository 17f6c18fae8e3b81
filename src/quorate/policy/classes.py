"""Classes of jobs that are equal in all fields that a policy reads.

Equal jobs are interchangeable, and the problems are convex. So there is an optimum that treats
equal jobs equally. Therefore a class is solved as one row with the load of all its members, and
each member gets the share of this row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from quorate.policy.problem import Bools, Ints, Problem

BLOCK: Final = 12_288
"""The number of jobs that are processed together, so that their data fits the cache."""
FEW: Final = 256
"""The number of jobs that are read first, to see whether there are few enough classes. For this
many jobs or fewer, a dictionary is faster than arrays."""
TABLES: Final = 8
"""The most hash tables that are tried for a job. The next table is tried if the job's place in a
table belongs to another class."""
_BITS: Final = 14
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
_PLACE: Final = np.uint64(64 - _BITS)

Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Classes:
    """The class of each job, and the first member and the number of members of each class.

    Classes are in the order of their first members.
    """

    of: Ints
    first: Ints
    counts: Ints

    def __len__(self) -> int:
        return len(self.first)


class _Tables:
    """The classes found so far. A job's class is found by a hash of the job's columns."""

    def __init__(self, columns: Sequence[Words], at_most: int) -> None:
        self.columns = columns
        self.at_most = at_most
        self.places: list[Ints] = []
        self.first: Ints = np.zeros(0, dtype=np.int64)
        self.members: list[Words] = [column[:0] for column in columns]

    def find(self, start: int, of: Ints) -> bool:
        """Write the class of each job of one block, from ``start`` on, into ``of``.

        Return False if there are more than ``at_most`` classes, or too many for the hash tables.
        """
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
            same = self._is_same(part, rows, found)
            if same.all():
                return True
            rows = np.arange(len(of))[rows][~same]
            mixed = mixed * _ODD
        return False

    def _is_same(self, part: Sequence[Words], rows: Ints | slice, found: Ints) -> Bools:
        """Return, for each job, whether it equals the first member of the class found for it."""
        same = np.ones(len(found), dtype=bool)
        member = np.empty(len(found), dtype=np.uint64)
        is_equal = np.empty_like(same)
        for column, members in zip(part, self.members, strict=True):
            members.take(found, out=member, mode="clip")
            np.equal(column[rows], member, out=is_equal)
            same &= is_equal
        return same

    def _enter(self, table: Ints, place: Ints, rows: Ints) -> None:
        """Make a class for each free place of ``table``.

        The first job at a place becomes the first member of the class.
        """
        free = table[place] < 0
        place, rows = place[free], rows[free]
        table[place[::-1]] = rows[::-1]
        is_first = table[place] == rows
        fresh = rows[is_first]
        table[place[is_first]] = np.arange(len(self.first), len(self.first) + len(fresh))
        self.first = np.concatenate((self.first, fresh))
        self.members = [column[self.first] for column in self.columns]


def classes_of(problem: Problem, reads: Sequence[str], at_most: int) -> Classes | None:
    """Return the classes of jobs that are equal in the fields ``reads``; None if too many.

    Takes O(jobs). If all jobs differ, it takes less, because the first jobs already make too many
    classes.
    """
    columns: list[Words] = []
    for name in reads:
        field: NDArray[Any] = np.ascontiguousarray(getattr(problem, name)).view(np.uint64)
        columns += [field] if field.ndim == 1 else list(field.T)
    jobs = len(problem.jobs)
    if jobs <= FEW:
        return _classes_of_few(columns, at_most)
    # A column in which all jobs have the same value distinguishes no jobs. If all columns are like
    # this, keep one.
    columns = [column for column in columns if _tells_apart(column)] or columns[:1]
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


def _classes_of_few(columns: Sequence[Words], at_most: int) -> Classes | None:
    """Return the classes of at most ``FEW`` jobs."""
    rows = np.stack(columns, axis=1)
    data, width = rows.tobytes(), rows.itemsize * rows.shape[1]
    known: dict[bytes, int] = {}
    of = [known.setdefault(data[at : at + width], len(known)) for at in range(0, len(data), width)]
    if len(known) > at_most:
        return None
    numbers = np.array(of, dtype=np.int64)
    first = np.unique(numbers, return_index=True)[1].astype(np.int64, copy=False)
    return Classes(of=numbers, first=first, counts=np.bincount(numbers))


def _tells_apart(column: Words) -> bool:
    """Return whether the column has different values. The first values are compared first."""
    first = column[0]
    return bool(np.any(column[:FEW] != first) or np.any(column[FEW:] != first))


def _hash(columns: Sequence[Words]) -> Words:
    """Return a hash of each job: equal for equal jobs, and rarely equal for different jobs.

    The hash is a polynomial of the columns whose high bits depend on all other bits.
    """
    mixed = columns[0] * _ODD
    for column in columns[1:]:
        mixed += column
        mixed *= _ODD
    return mixed


def members_of(problem: Problem, rows: Ints) -> Problem:
    """Return the problem of some of the jobs, without pairs and entities."""
    return replace(
        problem,
        jobs=tuple(problem.jobs[row] for row in rows.tolist()),
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
