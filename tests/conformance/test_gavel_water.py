"""Water filling, compared with recorded answers of the published policy.

Cases are beside the repository, in ``../shared``, and are not part of it; without them this module
is skipped. Rates are compared, which are unique here, instead of shares, which are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pytest

from quorate.policy.allocation import Allocation, breaches, job_rates
from quorate.policy.table import POLICIES
from tests.conformance.gavel_cases import CASES, problem_of, read

POLICY_CASES: Final = (
    "policy_toy_2jobs_3types",
    "policy_toy_3jobs_weights_scale",
    "policy_gen8_single_2_2_2",
    "policy_gen32_multi_8_8_8",
)
LISTED: Final = {("policy_gen32_multi_8_8_8", "max_min_fairness_water_filling")}
"""Cases whose recorded answer gives a job time on GPUs that cannot run it."""

pytestmark = pytest.mark.skipif(
    not CASES.is_dir(), reason="the recorded policies are not beside this repository (../shared)"
)


def _solved(name: str, case: Mapping[str, Any]) -> tuple[Allocation, Any]:
    problem = problem_of(case)
    found = POLICIES[name].solve(problem)
    assert isinstance(found, Allocation), found
    assert breaches(problem, found) == []
    return found, job_rates(problem, found)


@pytest.mark.parametrize("name", ["hierarchical_fairness", "hierarchical_mixed"])
def test_entities_are_filled_as_recorded(name: str) -> None:
    case = read(name)
    _, rates = _solved("max_min_fairness_water_filling_perf", case)
    recorded = np.array(case["metrics"]["effective_throughput"])
    np.testing.assert_allclose(rates, recorded, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", ["", "_perf", "_packed"])
@pytest.mark.parametrize("name", POLICY_CASES)
def test_jobs_are_filled_as_recorded(name: str, kind: str) -> None:
    policy = f"max_min_fairness_water_filling{kind}"
    case = read(name)
    found, rates = _solved(policy, case)
    metrics = case["results"][policy]["metrics"]
    assert found.objective >= metrics["maxmin_objective"] * (1 - 1e-6)
    assert found.gap <= 1e-7
    if (name, policy) not in LISTED:
        np.testing.assert_allclose(rates, metrics["effective_throughput"], rtol=1e-6)
