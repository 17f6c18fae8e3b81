"""The demand of jobs, or of classes of equal jobs, and the shares of pairs of class members.

A pair of classes represents the pairs of their members. A class with two or more members also forms
a pair with itself, which represents the pairs among its members.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quorate.policy.classes import Classes
from quorate.policy.problem import Floats, Ints, Pairs, Problem
from quorate.policy.solvers.levels import Demand, Together


def demand_of(problem: Problem) -> Demand:
    """Return the demand of ``problem``: one row for each job, and its pairs if it has any."""
    pairs = problem.pairs
    return Demand(
        rates=problem.rates,
        loads=problem.scales.astype(np.float64),
        gpus=problem.gpus,
        together=None
        if pairs is None or not len(pairs)
        else Together(
            first=pairs.first,
            second=pairs.second,
            rates=_moving(pairs.rates),
            times=np.ones((len(pairs), 2)),
            loads=problem.scales[pairs.first].astype(np.float64),
        ),
    )


def demand_of_classes(problem: Problem, classes: Classes) -> Demand | None:
    """Return the demand of the classes; None if the members of some class differ in their pairs."""
    pairs = problem.pairs
    together = None
    if pairs is not None and len(pairs):
        together = _pairs_of_classes(pairs, classes, problem.scales[classes.first])
        if together is None:
            return None
    return Demand(
        rates=problem.rates[classes.first],
        loads=(problem.scales[classes.first] * classes.counts).astype(np.float64),
        gpus=problem.gpus,
        together=together,
    )


def _moving(rates: Floats) -> Floats:
    """Return ``rates``, but 0 for both jobs of a pair where one of the two makes no progress."""
    moving: Floats = rates * (rates > 0).all(axis=2, keepdims=True)
    return moving


def _pairs_of_classes(pairs: Pairs, classes: Classes, scales: Ints) -> Together | None:
    """Return the pairs of classes; None if pairs of members are missing or differ in their rates.

    A pair of classes represents all pairs of their members. A share of 1 of a pair of two different
    classes takes the whole time of every member of the smaller class.
    """
    a, b = classes.of[pairs.first], classes.of[pairs.second]
    is_turned = a > b
    low, high = np.where(is_turned, b, a), np.where(is_turned, a, b)
    key = low * len(classes) + high
    of_key = np.full(len(classes) ** 2, -1)
    of_key[key[::-1]] = np.arange(len(key))[::-1]
    rows = np.sort(of_key[of_key >= 0])
    like = of_key[key]
    turn = is_turned[:, None]
    slow, fast = pairs.rates[:, :, 0], pairs.rates[:, :, 1]
    x, y = np.where(turn, fast, slow), np.where(turn, slow, fast)
    low, high = low[rows], high[rows]
    itself = low == high
    n, m = classes.counts[low], classes.counts[high]
    every = np.where(itself, n * (n - 1) // 2, n * m)
    if (
        not np.array_equal(x, x[like])
        or not np.array_equal(y, y[like])
        or not np.array_equal(x[rows[itself]], y[rows[itself]])
        or not np.array_equal(np.bincount(like, minlength=len(key))[rows], every)
    ):
        return None
    fewer = np.minimum(n, m).astype(np.float64)
    part = np.stack((fewer / n, fewer / m), axis=1)
    part[itself] = (2.0, 0.0)
    rates = _moving(np.stack((x[rows], y[rows]), axis=2)) * part[:, None, :]
    return Together(first=low, second=high, rates=rates, times=part, loads=fewer * scales[low])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairShares:
    """The pairs of jobs that have a share: ``first < second``, and one row of shares per pair."""

    first: Ints
    second: Ints
    shares: Floats


def pairs_of_jobs(together: Together, shares: Floats) -> PairShares:
    """Return the pairs of jobs with shares above 0."""
    rows = np.flatnonzero(shares.any(axis=1))
    return PairShares(first=together.first[rows], second=together.second[rows], shares=shares[rows])


def pairs_of_members(together: Together, classes: Classes, shares: Floats) -> PairShares:
    """Return pairs of jobs among which the time of each pair of classes is divided evenly.

    For two different classes, a line is divided twice into equal parts: once among the members of
    the one class, and once among those of the other. Members whose parts overlap are paired. For a
    class with itself, each member is paired with the next member, in a ring. Both methods make
    about as many pairs as there are members.
    """
    order = np.argsort(classes.of, kind="stable")
    starts = np.cumsum(classes.counts) - classes.counts
    found: list[tuple[Ints, Ints, Floats]] = []
    for row in np.flatnonzero(shares.any(axis=1)):
        low, high = int(together.first[row]), int(together.second[row])
        n, m = int(classes.counts[low]), int(classes.counts[high])
        if low == high:
            left, right, part = _ring(n)
        else:
            left, right, part = _line(n, m)
        a, b = order[starts[low] + left], order[starts[high] + right]
        found.append((np.minimum(a, b), np.maximum(a, b), part[:, None] * shares[row]))
    flavors = shares.shape[1]
    none = np.zeros(0, dtype=np.int64)
    return PairShares(
        first=np.concatenate([none, *(a for a, _, _ in found)]),
        second=np.concatenate([none, *(b for _, b, _ in found)]),
        shares=np.concatenate([np.zeros((0, flavors)), *(part for _, _, part in found)]),
    )


def _line(n: int, m: int) -> tuple[Ints, Ints, Floats]:
    """Return the pairs of ``n`` members with ``m`` others, and each pair's part of the share."""
    ends = np.union1d(np.arange(1, n + 1) * m, np.arange(1, m + 1) * n)
    begins = np.concatenate(([0], ends[:-1]))
    part: Floats = (ends - begins) / max(n, m)
    return begins // m, begins // n, part


def _ring(n: int) -> tuple[Ints, Ints, Floats]:
    """Return the pairs of each of ``n`` members with the next, and each pair's part of a share."""
    if n == 2:  # noqa: PLR2004 - two are a pair, not a ring
        return np.array([0]), np.array([1]), np.array([2.0])
    left = np.arange(n)
    return left, (left + 1) % n, np.ones(n)
