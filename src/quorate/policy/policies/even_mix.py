"""Chooses the best mix of flavors for a policy that does not distinguish flavors.

To such a policy all GPUs are equally good, so its linear program decides how much time a job has,
but not on which flavor. The solver returns an extreme one of the many optima: some jobs have only
the slow flavor, while GPUs of the fast flavor are idle. This module gives every job the same mix of
flavors, and uses fast flavors in full before slow ones. It also assigns the GPU time that the
policy leaves unused. Finish-time policies leave most of the time unused: they raise all jobs only
to the level of the worst-off job, and one job that must end late keeps this level low.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from quorate.policy.allocation import ALONE, FEASIBLE, Allocation
from quorate.policy.problem import Floats, Problem

_HALVINGS: Final = 60
"""How often the interval of a price is halved. So many halvings make the price exact to the last
digits."""
_TINY: Final = 1e-300


def evenly_mixed(
    problem: Problem, found: Allocation, raised: Callable[[Problem, Floats], Floats] | None = None
) -> Allocation:
    """Return an allocation in which no job has less time than in ``found``.

    ``found`` has no pairs. Its policy values a job's time equally on all flavors on which the job
    makes progress. ``raised`` is the function that assigns the unused time: it returns the new time
    of each job. The default is ``least_first``. The fastest flavor is used first. A job that cannot
    run on every flavor gets a mix of the flavors on which it can run; such jobs are served first.
    If the other jobs do not fit after that, ``found`` is returned.
    """
    assert (found.second == ALONE).all(), "a policy without flavors has no pairs"
    scales, moves = problem.scales.astype(np.float64), (problem.rates > 0) & (problem.gpus > 0)
    time = np.minimum(found.shares.sum(axis=1), 1.0)
    time = (least_first if raised is None else raised)(problem, time)
    room = _given_out(problem, float(scales @ time))
    shares = np.zeros(problem.shape)
    # Jobs that can run on fewer flavors are served before others.
    kinds, of = np.unique(moves, axis=0, return_inverse=True)
    for kind in sorted(range(len(kinds)), key=lambda each: (int(kinds[each].sum()), each)):
        rows, there = of.reshape(-1) == kind, np.where(kinds[kind], room, 0.0)
        wanted = float(scales[rows] @ time[rows])
        if wanted > there.sum() * (1 + FEASIBLE):
            return found
        if wanted > 0:
            mix = there / there.sum()
            shares[rows] = np.outer(time[rows], mix)
            room = np.maximum(room - wanted * mix, 0.0)
    used = scales @ shares
    over = np.divide(used, problem.gpus, out=np.zeros(len(used)), where=problem.gpus > 0).max()
    return replace(found, shares=shares / max(1.0, float(over)))


def least_first(problem: Problem, time: Floats) -> Floats:
    """Return the time of all jobs, after raising the jobs with the least time together."""
    return np.maximum(time, _level(problem, time))


def to_the_middle(problem: Problem, time: Floats) -> Floats:
    """Return a time for each job at the center between its ``time`` and its whole time.

    The center is the analytic center, at which interior point methods end. Within the available
    GPUs, it maximises a product with two factors for each job: the time that the job gets above
    ``time``, and the time that it then still lacks. What a job lacks is its whole time minus the
    time that it has. A job of few GPUs gets a larger part of what it lacks than a job of many GPUs.
    """
    scales, gpus = problem.scales.astype(np.float64), float(problem.gpus.sum())
    lacks = 1.0 - time
    spare = gpus - float(scales @ time)
    if spare <= 0.0:
        return time
    if float(scales @ lacks) <= 2.0 * spare:
        # No price is needed if the GPUs are enough for half of the time that jobs lack. Each job
        # then gets the same part of what it lacks.
        return time + min(1.0, spare / max(float(scales @ lacks), _TINY)) * lacks
    low, high = 0.0, 1.0
    while float(scales @ (_part(high * scales * lacks) * lacks)) > spare:
        low, high = high, 2.0 * high
    for _ in range(_HALVINGS):
        price = (low + high) / 2.0
        if float(scales @ (_part(price * scales * lacks) * lacks)) > spare:
            low = price
        else:
            high = price
    return time + _part(high * scales * lacks) * lacks


def _part(cost: Floats) -> Floats:
    """Return the part u, at most a half, for which 1 / u - 1 / (1 - u) is ``cost``."""
    # The usual form of the root, ((c + 2) - sqrt(c^2 + 4)) / 2c, loses digits at small costs.
    found: Floats = 2.0 / (cost + 2.0 + np.sqrt(cost * cost + 4.0))
    return found


def _level(problem: Problem, time: Floats) -> float:
    """Return the highest time, at most 1, to which all jobs with less time can be raised."""
    order = np.argsort(time, kind="stable")
    scales, steps = problem.scales[order].astype(np.float64), time[order]
    spare = float(problem.gpus.sum()) - float(scales @ steps)
    width = 0.0
    for at, (scale, step) in enumerate(zip(scales.tolist(), steps.tolist(), strict=True)):
        width += scale
        above = steps[at + 1] if at + 1 < len(steps) else 1.0
        if spare <= width * (above - step):
            return float(step + max(spare, 0.0) / width)
        spare -= width * (above - step)
    return 1.0


def _given_out(problem: Problem, wanted: float) -> Floats:
    """Return how many GPUs of each flavor are used if ``wanted`` GPUs are used in all.

    Fast flavors are used before slow ones.

    The speed of a flavor is the average over the jobs of the job's rate on the flavor, relative to
    the job's rate on its fastest flavor.
    """
    speed = (problem.rates / problem.rates.max(axis=1, keepdims=True)).mean(axis=0)
    found = np.zeros(len(problem.gpus))
    for flavor in np.argsort(-speed, kind="stable"):
        found[flavor] = min(float(problem.gpus[flavor]), wanted - found.sum())
    return np.maximum(found, 0.0)
