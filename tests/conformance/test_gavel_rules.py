"""Recorded answers of the published policies: equal for rules, as good for other policies.

Cases are beside the repository, in ``../shared``, and are not part of it; without them this module
is skipped, and ``tests/property/test_policy_rules.py`` tests the properties of the rules.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from quorate.policy.allocation import Allocation, Unsolved, UnsolvedCode, breaches
from quorate.policy.files.allocation_file import allocation_tree
from quorate.policy.files.problem_file import read_problem
from quorate.policy.measures import measures
from quorate.policy.policy_type import Policy
from quorate.policy.problem import Problem
from quorate.policy.table import POLICIES
from tests.oracles.policy_files import read_allocation

CASES: Final = Path(__file__).parents[3] / "shared" / "conformance" / "gavel"
EXACT: Final = ("isolated", "fifo_perf", "fifo_packed", "allox", "gandiva")
"""Policies with exactly the recorded shares."""
ENTRY: Final = 1e-12
RELATIVE: Final = 1e-4
MEASURED: Final = {
    "maxmin_objective": "least_relative_rate",
    "ftf_max_rho": "finish_time_ratio",
    "makespan_bound_s": "makespan_s",
    "sum_throughput": "rate_sum",
    "sum_throughput_per_dollar": "rate_per_cost",
}
"""The recorded name of each measure, and Quorate's name."""
SMALL_IS_GOOD: Final = ("ftf_max_rho", "makespan_bound_s")

pytestmark = pytest.mark.skipif(
    not CASES.is_dir(), reason="the recorded cases are not beside this repository (../shared)"
)
PATHS: Final = sorted(CASES.glob("policy_*.json"))
every_case = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def problem_in(path: Path) -> Problem:
    """Return the problem of a case."""
    found = read_problem(path.read_bytes())
    assert isinstance(found, Problem), found
    return found


def results_in(path: Path) -> dict[str, Any]:
    """Return the recorded result of each policy."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))["results"]
    return found


def recorded_in(path: Path, name: str, problem: Problem) -> Allocation:
    """Return the recorded allocation of a policy."""
    return read_allocation(results_in(path)[name]["allocation"], problem)


@every_case
@pytest.mark.parametrize("name", EXACT)
def test_a_rule_gives_every_share_that_was_recorded(path: Path, name: str) -> None:
    problem, recorded = problem_in(path), results_in(path)[name]
    found = POLICIES[name].solve(problem)
    if "error" in recorded:
        assert name == "allox", "no other was recorded as an error"
        assert isinstance(found, Unsolved)
        assert found.code is UnsolvedCode.NOT_APPLICABLE
        assert problem.scales[problem.jobs.index(found.subject)] != 1
        return
    assert isinstance(found, Allocation), found
    ours = allocation_tree(problem, found)
    assert ours.keys() <= recorded["allocation"].keys()
    nothing = dict.fromkeys(problem.flavors, 0.0)
    for key, shares in recorded["allocation"].items():
        assert ours.get(key, nothing) == pytest.approx(shares, abs=ENTRY, rel=0), key


@pytest.mark.heavy
@every_case
def test_every_recorded_allocation_measures_as_recorded(path: Path) -> None:
    problem, results = problem_in(path), results_in(path)
    seen = 0
    for name, result in results.items():
        if "error" in result:
            continue
        measured = measures(problem, recorded_in(path, name, problem))
        for theirs, ours in MEASURED.items():
            # A job that makes no progress was recorded in several ways.
            if theirs not in result["metrics"] or not np.isfinite(getattr(measured, ours)):
                continue
            expected = result["metrics"][theirs]
            assert getattr(measured, ours) == pytest.approx(expected, rel=1e-6, abs=1e-9), (
                name,
                theirs,
            )
            seen += 1
    assert seen > 40


def _objectives() -> list[tuple[Path, str, str]]:
    """Return the cases with a recorded objective of an existing policy."""
    found = []
    for path in PATHS:
        for name, result in results_in(path).items():
            metric = result.get("objective", {}).get("metric")
            if name == "max_sum_throughput_normalized_by_cost_perf":
                metric = "sum_throughput_per_dollar"
            if name in POLICIES and metric is not None:
                found.append((path, name, metric))
    return found


@pytest.mark.parametrize(
    ("path", "name", "metric"),
    _objectives() or [pytest.param(None, "", "", marks=pytest.mark.skip(reason="none recorded"))],
    ids=lambda value: value.stem if isinstance(value, Path) else str(value),
)
def test_a_policy_is_as_good_as_recorded_or_better(path: Path, name: str, metric: str) -> None:
    problem = problem_in(path)
    policy: Policy = POLICIES[name]
    found = policy.solve(problem)
    assert isinstance(found, Allocation), found
    assert breaches(problem, found) == []
    ours = getattr(measures(problem, found), MEASURED[metric])
    theirs = getattr(measures(problem, recorded_in(path, name, problem)), MEASURED[metric])
    if metric in SMALL_IS_GOOD:
        assert ours <= theirs * (1 + RELATIVE)
    else:
        assert ours >= theirs * (1 - RELATIVE)
