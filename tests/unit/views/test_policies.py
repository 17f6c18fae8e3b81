"""Answers of policies for people and programs, in cases beyond the examples."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from quorate.policy.allocation import Allocation, Method, Unsolved, UnsolvedCode, alone
from quorate.policy.files.cluster_file import Cluster
from quorate.policy.files.jobs_file import JobState, problem_of
from quorate.policy.policy_type import Policy
from quorate.policy.problem import Problem
from quorate.views.policies.policy_view import (
    Answers,
    comparison_text,
    comparison_tree,
    number,
    policies_text,
    solution_text,
    solution_tree,
)

REFUSED = Unsolved(
    code=UnsolvedCode.NEVER_RUNS, subject="y", message="job y: stands still", remedy="leave it out"
)
TWO = problem_of(
    Cluster(flavors=("a", "b"), gpus=(1, 1)),
    [JobState(name="x", steps_left=10.0), JobState(name="y", steps_left=10.0)],
    np.array([[2.0, 1.0], [1.0, 1.0]]),
)
FOUND = replace(
    alone(np.array([[1.0, 0.0], [0.0, 1e-9]]), objective=2.0, bound=2.5, method=Method.PRICES),
    prices=np.array([0.5, 0.0]),
    dropped=(1,),
    unfinished=(0,),
)


def _never(_problem: Problem) -> Allocation | Unsolved:
    return REFUSED


POLICY = Policy(
    name="most", goal="as much as can be", solve=_never, metric="rates", reads_pairs=True
)


def test_prices_the_gap_and_late_and_unsure_jobs_are_told() -> None:
    lines = solution_text(POLICY, TWO, FOUND, show_wide=False).splitlines()
    assert lines[:6] == [
        "Policy:        most",
        "Objective:     2, rates (more is better)",
        "Certificate:   no allocation is better than 2.5, gap 0.2 (prices)",
        "One more GPU:  a 0.5, b 0",
        "Late:          y: their deadlines cannot be kept together with the others",
        "Unsure:        1 of 2 jobs might have up to 1 % more",
    ]
    assert lines[9].split() == ["y", "-", "-", "0.0000", "1e-09"]


def test_programs_get_them_by_name() -> None:
    tree = solution_tree(POLICY, TWO, FOUND)
    assert tree["prices"] == {"a": 0.5, "b": 0.0}
    assert tree["dropped"] == ["y"]
    assert tree["unfinished"] == ["x"]
    assert tree["certificate"] == {"bound": 2.5, "gap": pytest.approx(0.2), "method": "prices"}
    assert tree["measures"]["stepsPerCost"] is None


def test_a_refusal_stands_beside_answers() -> None:
    answers: Answers = [(POLICY, FOUND), (replace(POLICY, name="none"), REFUSED)]
    lines = comparison_text(TWO, answers, show_wide=True).splitlines()
    assert lines[0].split()[-1] == "REFUSED"
    assert lines[1].split()[-1] == "0.2"
    assert lines[2].endswith("job y: stands still")
    tree = comparison_tree(TWO, answers)
    assert "allocation" not in tree[0]
    assert tree[1]["refusal"] == {
        "code": "never-runs",
        "subject": "y",
        "message": "job y: stands still",
        "remedy": "leave it out",
    }


def test_what_a_policy_reads_is_in_the_wide_table() -> None:
    wide = policies_text([POLICY, replace(POLICY, reads_pairs=False)], show_wide=True)
    assert [line.split()[-1] for line in wide.splitlines()] == ["READS", "pairs", "-"]
    assert "READS" not in policies_text([POLICY], show_wide=False)


@pytest.mark.parametrize(
    ("value", "text"),
    [(math.nan, "-"), (math.inf, "never"), (1 / 3, "0.333333"), (45000.0, "45000")],
)
def test_a_number_has_six_digits(value: float, text: str) -> None:
    assert number(value) == text
