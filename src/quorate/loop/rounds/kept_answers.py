"""The last answer of each pool's policy, so that an unchanged problem is not solved again.

A policy's answer depends only on the problem, so a cached answer equals the answer that the solver
would compute again. The cache is in the memory of one process. A round has the same result with and
without a cached answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from quorate.loop.rounds.failure_log import FailureLog
from quorate.loop.rounds.round_problem import PoolPolicy
from quorate.policy.allocation import Allocation, Unsolved, UnsolvedCode
from quorate.policy.askable import answer
from quorate.policy.plugin_policies import known_policies
from quorate.policy.problem import Pairs, Problem

Answer = Allocation | Unsolved


@dataclass(slots=True)
class KeptAnswers:
    """For each pool: the policy that was called last, its problem, and its answer.

    ``policies`` are the policies that pools can name. None means all installed policies.
    """

    policies: Mapping[str, PoolPolicy] | None = None
    solve: Callable[[PoolPolicy, Problem], Answer] = answer
    failures: FailureLog = field(default_factory=FailureLog)
    _last: dict[str, tuple[PoolPolicy, Problem, Answer]] = field(default_factory=dict)

    def policy(self, name: str | None) -> PoolPolicy | None:
        """Return the policy called ``name``; None if no policy has this name."""
        policies = known_policies().by_name if self.policies is None else self.policies
        return policies.get(name or "")

    def of(self, pool: str, policy: PoolPolicy, problem: Problem) -> Answer:
        """Return the answer of ``policy``; the cached answer if the problem has not changed."""
        if policy.reads_progress:
            return self.solve(policy, problem)
        last = self._last.get(pool)
        if last is not None and last[0] is policy and asks_the_same(last[1], problem):
            return last[2]
        found = self.solve(policy, problem)
        if isinstance(found, Unsolved) and found.code is UnsolvedCode.SOLVER_FAILED:
            self._last.pop(pool, None)  # A failed call is repeated.
        else:
            self._last[pool] = (policy, problem, found)
        return found


def asks_the_same(one: Problem, other: Problem) -> bool:
    """Return whether two problems are equal, apart from the progress of their jobs."""
    return (
        one.flavors == other.flavors
        and one.jobs == other.jobs
        and one.entities == other.entities
        and one.work_max == other.work_max
        and _are_equal(one.gpus, other.gpus)
        and _are_equal(one.rates, other.rates)
        and _are_equal(one.scales, other.scales)
        and _are_equal(one.weights, other.weights)
        and _are_equal(one.costs, other.costs)
        and _are_equal(one.entity_of, other.entity_of)
        and _are_equal_pairs(one.pairs, other.pairs)
    )


def _are_equal(
    one: np.typing.NDArray[np.generic] | None, other: np.typing.NDArray[np.generic] | None
) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def _are_equal_pairs(one: Pairs | None, other: Pairs | None) -> bool:
    if one is None or other is None:
        return one is other
    return (
        _are_equal(one.first, other.first)
        and _are_equal(one.second, other.second)
        and _are_equal(one.rates, other.rates)
    )
