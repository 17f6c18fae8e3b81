"""The form of allocations in JSON.

An allocation is ``{"0": {"v100": 0.5, ...}, "0,1": {...}}``. The key ``"0"`` has the shares of job
0 alone, and ``"0,1"`` has the shares of the jobs 0 and 1 on GPUs that they use together.
"""

from __future__ import annotations

from quorate.policy.allocation import ALONE, Allocation
from quorate.policy.pair_index import PAIR_MARK
from quorate.policy.problem import Problem


def row_keys(problem: Problem, allocation: Allocation) -> list[str]:
    """Return the name of each row of ``allocation``: one job, or the two jobs of a pair."""
    return [
        problem.jobs[first]
        if second == ALONE
        else f"{problem.jobs[first]}{PAIR_MARK}{problem.jobs[second]}"
        for first, second in zip(allocation.first, allocation.second, strict=True)
    ]


def allocation_tree(problem: Problem, allocation: Allocation) -> dict[str, dict[str, float]]:
    """Return ``allocation`` in its JSON form: the shares by flavor of each job and pair."""
    return {
        key: dict(zip(problem.flavors, shares, strict=True))
        for key, shares in zip(
            row_keys(problem, allocation), allocation.shares.tolist(), strict=True
        )
    }
