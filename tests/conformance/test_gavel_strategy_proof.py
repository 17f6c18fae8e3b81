"""The strategy-proof allocation, compared with the recorded one: discounts and shares.

The case is beside the repository, in ``../shared``, and is not part of it; without it this module
is skipped. The record has no inputs: they are the rates of ``policy_toy_3jobs_weights_scale``, with
one GPU for each job and of each flavor, which give its figures to eight digits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quorate.policy.allocation import Allocation, breaches
from quorate.policy.policies.strategy_proof import strategy_proof
from tests.conformance.gavel_cases import CASES, problem_of, read

pytestmark = pytest.mark.skipif(
    not CASES.is_dir(), reason="the recorded policies are not beside this repository (../shared)"
)


def test_shares_and_discounts_are_as_recorded() -> None:
    recorded = read("strategy_proof")
    given = problem_of(read("policy_toy_3jobs_weights_scale"))
    problem = replace(
        given,
        gpus=np.ones(3, dtype=np.int64),
        scales=np.ones(3, dtype=np.int64),
        weights=np.ones(3),
        pairs=None,
    )
    found = strategy_proof(problem)
    assert isinstance(found, Allocation), found
    assert breaches(problem, found) == []
    shares = [
        [recorded["allocation"][job][flavor] for flavor in problem.flavors] for job in problem.jobs
    ]
    np.testing.assert_allclose(found.shares, shares, atol=1e-6)
    assert found.discounts is not None
    np.testing.assert_allclose(found.discounts, recorded["discount_factors"], atol=1e-6)
