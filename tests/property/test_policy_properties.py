"""The table of policies and properties: properties that hold are tried, others are refuted.

``docs/reference/policy-properties.md`` is the table; another test compares it with this file.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quorate.policy.table import POLICIES
from tests.oracles.effort import examples
from tests.oracles.fairness import NEARLY, Property, alike, entitled_alike, gain_by_lie, loss
from tests.oracles.fairness_table import HOLDS, counterexamples
from tests.oracles.few_jobs import few_jobs

MISSED = 0.02
"""By what part a counterexample must miss its property: more than any rounding."""


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "asked"), HOLDS)
@examples(0.5)
@given(drawn=st.data())
def test_what_is_said_to_hold_holds(policy: str, asked: Property, drawn: st.DataObject) -> None:
    problem = drawn.draw(alike(paired=POLICIES[policy].reads_pairs))
    if asked is not Property.HONESTY:
        assert loss(policy, problem, asked) <= NEARLY
        return
    job = drawn.draw(st.integers(0, len(problem.jobs) - 1))
    rates = st.lists(st.integers(0, 6), min_size=len(problem.gpus), max_size=len(problem.gpus))
    said = drawn.draw(rates)
    assume(any(rate and gpus for rate, gpus in zip(said, problem.gpus, strict=True)))
    assert gain_by_lie(policy, problem, job, [float(rate) for rate in said]) <= NEARLY


@pytest.mark.parametrize(
    ("policy", "asked", "shown"),
    [(policy, asked, shown) for (policy, asked), shown in counterexamples().items()],
)
def test_what_is_said_to_fail_fails(policy: str, asked: Property, shown: dict[str, Any]) -> None:
    problem = entitled_alike(shown)
    if asked is Property.HONESTY:
        assert gain_by_lie(policy, problem, shown["job"], shown["said"]) > MISSED
    else:
        assert loss(policy, problem, asked) > MISSED


def test_nothing_is_said_to_hold_and_to_fail() -> None:
    assert set(HOLDS) & set(counterexamples()) == set()


def test_a_wide_job_may_be_better_off_with_an_equal_part() -> None:
    """The properties are for jobs of one scale: a wide job beside a narrow one loses."""
    problem = few_jobs([[4, 1], [4, 2]], [1, 5], scales=[4, 1])
    assert loss("max_min_fairness_water_filling_perf", problem, Property.SHARING) > MISSED
