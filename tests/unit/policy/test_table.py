"""Every policy of the table: its name, and its statement of the inputs that it reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from quorate.policy.allocation import Allocation
from quorate.policy.files.problem_file import read_problem
from quorate.policy.policy_type import Policy
from quorate.policy.problem import Entity, Problem
from quorate.policy.table import POLICIES

EXAMPLE: Final = Path(__file__).parents[3] / "examples" / "problem.json"
every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=lambda each: each.name)


@pytest.fixture
def problem() -> Problem:
    """Return the example."""
    found = read_problem(EXAMPLE.read_bytes())
    assert isinstance(found, Problem), found
    return found


def changed(problem: Problem, what: str) -> Problem:
    """Return ``problem`` with other steps, costs, pairs or entities."""
    match what:
        case "steps":
            return replace(problem, steps_left=problem.steps_left[::-1] * 3 + 7)
        case "costs":
            assert problem.costs is not None
            return replace(problem, costs=problem.costs[::-1] * 2)
        case "pairs":
            return replace(problem, pairs=None)
        case _:
            two = (Entity(name="one", weight=1.0), Entity(name="other", weight=5.0))
            return replace(problem, entities=two, entity_of=np.array([0, 0, 0, 1]))


UNREAD: Final = [
    pytest.param(policy, what, id=f"{policy.name}-{what}")
    for policy in POLICIES.values()
    for what in ("steps", "costs", "pairs", "entities")
    if not getattr(policy, f"reads_{what}")
]


@pytest.mark.parametrize(("policy", "what"), UNREAD)
def test_what_a_policy_does_not_say_it_reads_changes_nothing(
    policy: Policy, what: str, problem: Problem
) -> None:
    before, after = policy.solve(problem), policy.solve(changed(problem, what))
    assert isinstance(before, Allocation), before
    assert isinstance(after, Allocation), after
    assert np.array_equal(before.shares, after.shares)
    assert before.objective == after.objective


@every_policy
def test_a_policy_says_what_it_is_after(policy: Policy) -> None:
    assert POLICIES[policy.name] is policy
    assert policy.goal
    assert policy.metric
