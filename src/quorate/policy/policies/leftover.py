"""Gives the GPUs that an allocation leaves over to jobs that can use more.

If a policy stops early, every job has only its least share, and the remaining GPUs would be idle.
Because of rounding, even a policy that finished leaves some GPU time over. A tiny part of a job's
fastest rate can correspond to a tenth of the job's time on its slowest flavor.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from quorate.policy.allocation import ALONE, FEASIBLE, Allocation
from quorate.policy.policies.by_weight import parts
from quorate.policy.problem import Bools, Floats, Problem

PASSES_MAX: Final = 20
"""The most passes in which the remaining GPUs are shared. After each pass, jobs that have their
whole time drop out."""


def topped_up(problem: Problem, found: Allocation) -> Allocation:
    """Return ``found`` after sharing the remaining GPUs by weight among its unfinished jobs.

    No job has less than before.
    """
    unfinished = np.zeros(len(problem.jobs), dtype=np.bool_)
    unfinished[list(found.unfinished)] = True
    return _shared_out(problem, found, unfinished)


def without_remainder(problem: Problem, found: Allocation) -> Allocation:
    """Return ``found`` after all jobs share, by weight, the GPUs that rounding left over.

    No job has less than before.
    """
    return _shared_out(problem, found, np.ones(len(problem.jobs), dtype=np.bool_))


def _shared_out(problem: Problem, found: Allocation, meant: Bools) -> Allocation:
    shares, alone = found.shares.copy(), slice(0, len(problem.jobs))
    time = _time_left(problem, found)
    for _ in range(PASSES_MAX):
        spare = np.maximum(problem.gpus - problem.scales[found.first] @ shares, 0.0)
        wants = (problem.rates > 0) & (meant & (time > FEASIBLE))[:, None]
        more = parts(problem, wants) * spare / problem.scales[:, None]
        asked = more.sum(axis=1)
        more *= np.minimum(1.0, time / np.maximum(asked, FEASIBLE))[:, None]
        if more.sum() <= FEASIBLE:
            break
        shares[alone] += more
        time = np.maximum(time - more.sum(axis=1), 0.0)
    return replace(found, shares=shares)


def _time_left(problem: Problem, found: Allocation) -> Floats:
    """Return, for each job, the part of its time in which it has no GPUs, not even in a pair."""
    used = np.zeros(len(problem.jobs))
    of_rows = found.shares.sum(axis=1)
    np.add.at(used, found.first, of_rows)
    is_pair = found.second != ALONE
    np.add.at(used, found.second[is_pair], of_rows[is_pair])
    left: Floats = np.maximum(1.0 - used, 0.0)
    return left
