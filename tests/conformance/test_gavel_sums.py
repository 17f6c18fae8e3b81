"""The sums of throughput, compared with recorded answers of the published policies.

Cases are beside the repository, in ``../shared``, and are not part of it; without them this module
is skipped. Objectives are compared, because the optimum is rarely unique.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pytest

from quorate.policy.allocation import Allocation, breaches, job_rates
from quorate.policy.table import POLICIES
from tests.conformance.gavel_cases import CASES, problem_of, read

NAMES: Final = (
    "max_sum_throughput_perf",
    "max_sum_throughput_normalized_by_cost_perf",
    "max_sum_throughput_normalized_by_cost_perf_SLOs",
    "max_sum_throughput_normalized_by_cost_packed_SLOs",
)
POLICY_CASES: Final = (
    "policy_toy_2jobs_3types",
    "policy_toy_3jobs_weights_scale",
    "policy_gen8_single_2_2_2",
    "policy_gen32_multi_8_8_8",
)

pytestmark = pytest.mark.skipif(
    not CASES.is_dir(), reason="the recorded policies are not beside this repository (../shared)"
)


@pytest.mark.parametrize("policy", NAMES)
@pytest.mark.parametrize("name", POLICY_CASES)
def test_the_sum_is_as_large_as_recorded(name: str, policy: str) -> None:
    case = read(name)
    problem = problem_of(case)
    found = POLICIES[policy].solve(problem)
    assert isinstance(found, Allocation), found
    assert breaches(problem, found) == []
    assert found.gap <= 1e-7
    shares = case["results"][policy]["allocation"]
    recorded = sum(_gain(case, policy, row, shares[row]) for row in shares)
    assert found.objective >= recorded * (1 - 1e-6)
    if policy.endswith("SLOs"):
        assert found.dropped == ()
        due = np.isfinite(problem.deadlines_s)
        rates = job_rates(problem, found)
        needed = problem.steps_left / problem.deadlines_s
        assert np.all(rates[due] >= needed[due] * (1 - 1e-6))


def _gain(case: Mapping[str, Any], policy: str, row: str, shares: Mapping[str, float]) -> float:
    """Return the objective of a recorded row of shares, of one job or of a pair."""
    jobs = {str(job["id"]): job["throughputs"] for job in case["jobs"]}
    pairs = case["pair_throughputs"]
    gain = 0.0
    for flavor, share in shares.items():
        rate = sum(pairs[row][flavor]) if "," in row else jobs[row][flavor]
        gain += rate * share / (case["instance_costs"][flavor] if "by_cost" in policy else 1.0)
    return gain
