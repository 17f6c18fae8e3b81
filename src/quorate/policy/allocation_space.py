"""The space of allocations: the shares that jobs may get, and the jobs' rates with these.

A row is a job alone or a pair, and a column is the share of one row on one flavor. A column exists
only if every job of the row makes progress on the flavor. The base constraints are those of Gavel,
section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quorate.policy.allocation import ALONE, Allocation, Method, Unsolved, UnsolvedCode
from quorate.policy.askable import without_anything
from quorate.policy.problem import Floats, Ints, Problem
from quorate.policy.solvers.lp import INFINITE, Program


def added(places: Ints, amounts: Floats, count: int) -> Floats:
    """Return, for each place from 0 to ``count - 1``, the sum of the ``amounts`` at that place."""
    return np.bincount(places, weights=amounts, minlength=count).astype(np.float64, copy=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Space:
    """The columns of a problem, and the rates that these give to jobs.

    ``rows`` and ``flavors`` have the row and the flavor of each column. ``first`` and ``second``
    have the jobs of each row; rows of single jobs come first. ``columns``, ``jobs`` and ``rates``
    have the entries: a column, a job, and the job's rate if the share of the column is 1. The
    column of a pair has two entries.
    """

    problem: Problem
    first: Ints
    second: Ints
    rows: Ints
    flavors: Ints
    jobs: Ints
    columns: Ints
    rates: Floats
    counts: Ints | None = None
    """The number of equal jobs that each row represents; None if each row represents one job."""

    @property
    def loads(self) -> Floats:
        """The number of GPUs that each column takes at a share of 1, for all jobs of its row."""
        scales = self.problem.scales[self.first[self.rows]].astype(np.float64)
        return scales if self.counts is None else scales * self.counts[self.rows]

    def rates_of(self, shares: Floats) -> Floats:
        """Return the rate that each job has if the columns have these shares."""
        jobs, _ = self.problem.shape
        return added(self.jobs, self.rates * shares[self.columns], jobs)

    def used(self, shares: Floats) -> Floats:
        """Return the number of GPUs of each flavor that the columns use with these shares."""
        return added(self.flavors, self.loads * shares, len(self.problem.gpus))

    def fastest(self) -> Floats:
        """Return the highest rate of each job in any column: no shares can give the job more."""
        jobs, _ = self.problem.shape
        found = np.zeros(jobs)
        np.maximum.at(found, self.jobs, self.rates)
        return found

    def fitted(self, shares: Floats) -> Floats:
        """Return ``shares``, reduced where they exceed a limit because of a solver's rounding."""
        found = np.maximum(shares, 0.0)
        jobs, _ = self.problem.shape
        time = added(self.jobs, found[self.columns], jobs)
        over = np.maximum(time, 1.0)
        worst = np.ones(len(found))
        np.maximum.at(worst, self.columns, over[self.jobs])
        found /= worst
        gpus = np.maximum(self.problem.gpus, 1)
        found /= np.maximum(self.used(found) / gpus, 1.0)[self.flavors]
        return found

    def allocation(self, shares: Floats, *, objective: float, bound: float) -> Allocation:
        """Return ``shares`` of the columns as an allocation, without pairs that have no share."""
        jobs, flavors = self.problem.shape
        whole = np.zeros((len(self.first), flavors))
        whole[self.rows, self.flavors] = shares
        kept = np.any(whole > 0.0, axis=1)
        kept[:jobs] = True
        return Allocation(
            first=self.first[kept],
            second=self.second[kept],
            shares=whole[kept],
            objective=objective,
            bound=bound,
            method=Method.LINEAR_PROGRAM,
        )


def space_of(problem: Problem, *, paired: bool, agnostic: bool = False) -> Space:
    """Return the space of ``problem``, with its pairs or without.

    If ``agnostic``, every job is treated as equally fast on all flavors on which it can run.
    """
    jobs, _ = problem.shape
    usable = (problem.gpus > 0)[None, :]
    alone = (problem.rates > 0) & usable
    rows, flavors = np.nonzero(alone)
    rates = np.ones(len(rows)) if agnostic else problem.rates[rows, flavors]
    first = np.arange(jobs, dtype=np.int64)
    second = np.full(jobs, ALONE, dtype=np.int64)
    of_jobs, columns = rows, np.arange(len(rows))
    pairs = problem.pairs
    if paired and pairs is not None and len(pairs):
        both = (pairs.rates > 0).all(axis=2) & usable
        pair, flavor = np.nonzero(both)
        begun = len(rows)
        rows, flavors = np.append(rows, jobs + pair), np.append(flavors, flavor)
        first, second = np.append(first, pairs.first), np.append(second, pairs.second)
        beside = begun + np.arange(len(pair))
        of_jobs = np.concatenate([of_jobs, pairs.first[pair], pairs.second[pair]])
        columns = np.concatenate([columns, beside, beside])
        rates = np.concatenate([rates, *pairs.rates[pair, flavor].T])
    return Space(
        problem=problem,
        first=first,
        second=second,
        rows=rows,
        flavors=flavors,
        jobs=of_jobs,
        columns=columns,
        rates=rates,
    )


def program(space: Space, gains: Floats, more: tuple[Floats, ...] = ()) -> Program:
    """Return the program over the columns of ``space`` that maximises ``gains``.

    The program has these rows, in this order: the rate of each job (at least 0; the caller may
    raise ``row_low``), the time of each job, and the GPUs of each flavor. Each item of ``more``
    adds one column after the columns of ``space``. The item has the amount that the added column
    contributes to the rate of each job. The last values of ``gains`` belong to the added columns.
    """
    jobs, flavors = space.problem.shape
    count = len(space.rows)
    extra = len(more)
    all_jobs = np.arange(jobs)
    entry_rows = np.concatenate(
        [space.jobs, *[all_jobs] * extra, jobs + space.jobs, 2 * jobs + space.flavors]
    )
    entry_columns = np.concatenate(
        [
            space.columns,
            *[np.full(jobs, count + k) for k in range(extra)],
            space.columns,
            np.arange(count),
        ]
    )
    entries = np.concatenate([space.rates, *more, np.ones(len(space.jobs)), space.loads])
    order = np.lexsort((entry_columns, entry_rows))
    order = order[entries[order] != 0.0]
    sizes = np.bincount(entry_rows[order], minlength=2 * jobs + flavors)
    return Program(
        gains=gains,
        low=np.zeros(count + extra),
        high=np.full(count + extra, INFINITE),
        starts=np.concatenate([[0], np.cumsum(sizes)]),
        columns=entry_columns[order],
        values=entries[order],
        row_low=np.concatenate([np.zeros(jobs), np.full(jobs + flavors, -INFINITE)]),
        row_high=np.concatenate(
            [np.full(jobs, INFINITE), np.ones(jobs), space.problem.gpus.astype(np.float64)]
        ),
    )


def unsolvable(problem: Problem) -> Unsolved | None:
    """Return a refusal if there are no jobs or no GPUs, or if a job cannot run or has no weight."""
    refused = without_anything(problem)
    if refused is not None:
        return refused
    stuck = ~np.any((problem.rates > 0) & (problem.gpus > 0)[None, :], axis=1)
    if np.any(stuck):
        name = problem.jobs[int(np.argmax(stuck))]
        return Unsolved(
            code=UnsolvedCode.NEVER_RUNS,
            subject=name,
            message=f"job {name} makes no progress on any flavor that has GPUs",
            remedy=f"give a flavor on which job {name} makes progress, or leave the job out",
            jobs=problem.names(stuck),
        )
    weightless = problem.weights <= 0
    if np.any(weightless):
        name = problem.jobs[int(np.argmax(weightless))]
        return Unsolved(
            code=UnsolvedCode.NOT_APPLICABLE,
            subject=name,
            message=f"job {name} has the weight {problem.weights[int(np.argmax(weightless))]:g}",
            remedy=f"give job {name} a weight above 0, or leave it out",
            jobs=problem.names(weightless),
        )
    return None
