"""Policies of other packages: found by entry point, and their faults named with the package."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace as changed
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quorate.policy.allocation import Allocation, Unsolved
from quorate.policy.askable import answer
from quorate.policy.files.problem_file import read_problem
from quorate.policy.plugin_policies import GROUP, KnownPolicies, discovered
from quorate.policy.policy_type import Policy
from quorate.policy.problem import Problem
from quorate.policy.table import POLICIES
from tests.tidy.tree import fenced_blocks

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "policy-plugins.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "examples"
PLUGIN = EXAMPLES / "policy-plugin"
MODULE = "quorate_test_plugin"
HEAD = """
from quorate.policy.allocation import Method, alone
from quorate.policy.policy_type import Policy
from dataclasses import replace
import numpy as np
def made(name, solve):
    return Policy(name=name, goal="a test", solve=solve, metric="nothing")
def idle(problem):
    return alone(np.zeros(problem.shape), objective=0.0, bound=0.0, method=Method.RULE)
def paired(problem, one, other):
    shares = np.zeros((len(problem.jobs) + 1, len(problem.flavors)))
    found = alone(shares, objective=0.0, bound=0.0, method=Method.RULE)
    return replace(found, first=np.array([0, 1, 2, 3, one]), second=np.array([-1] * 4 + [other]))
"""


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    sys.modules.pop(MODULE, None)
    sys.modules.pop("quorate_shortest_first", None)


def installed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, source: str, value: str = "POLICY"
) -> KnownPolicies:
    """Return the known policies with a package that has ``source`` and the entry ``value``."""
    (folder / f"{MODULE}.py").write_text(HEAD + source, encoding="utf-8")
    return known_in(folder, monkeypatch, f"{MODULE}:{value}", "acme-policies")


def known_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch, value: str, package: str
) -> KnownPolicies:
    """Return the known policies with a package whose metadata are in ``folder``."""
    info = folder / f"{package.replace('-', '_')}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {package}\nVersion: 1.2\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nmine = {value}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    points = [
        point
        for found in distributions(path=[str(folder)])
        for point in found.entry_points.select(group=GROUP)
    ]
    return discovered(points)


@pytest.fixture
def problem() -> Problem:
    found = read_problem((EXAMPLES / "problem.json").read_bytes())
    assert isinstance(found, Problem), found
    return found


def test_the_policy_of_a_package_comes_after_the_shipped_ones_and_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Problem
) -> None:
    known = installed(tmp_path, monkeypatch, "POLICY = made('idle', idle)")
    assert list(known.by_name) == [*POLICIES, "idle"]
    assert known.faults == ()
    assert known.hint() == ""
    assert isinstance(answer(known.by_name["idle"], problem), Allocation)


def test_a_package_may_name_several_policies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "POLICY = (made('one', idle), made('two', idle))"
    known = installed(tmp_path, monkeypatch, source)
    assert {"one", "two"} <= known.by_name.keys()


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("raise OSError('no licence')", "cannot be imported (OSError: no licence); repair"),
        ("OTHER = 1", "cannot be imported (AttributeError"),
        ("POLICY = idle", "is function; name a quorate Policy"),
        ("POLICY = ()", "is tuple; name a quorate Policy"),
        ("POLICY = made('a b', idle)", "the name 'a b' is not 1 to 64 letters"),
        (
            "POLICY = made('fifo', idle)",
            "the policy 'fifo' already exists; give this policy another name",
        ),
    ],
)
def test_a_fault_of_a_package_names_it_and_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, fault: str
) -> None:
    known = installed(tmp_path, monkeypatch, source)
    assert list(known.by_name) == list(POLICIES)
    (told,) = known.faults
    assert told.startswith("package acme-policies 1.2, entry point 'mine' of quorate.policies: ")
    assert fault in told
    assert told in known.hint()


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("return [0.0]", "answered list instead of an Allocation or Unsolved"),
        ("return 1 / 0", "raised ZeroDivisionError"),
        (
            "return alone(np.zeros((1, 2)), objective=0.0, bound=0.0, method=Method.RULE)",
            "answered shares of shape (1, 2) in 1 rows for 4 jobs on 2 flavors",
        ),
        (
            "return alone(np.full(p.shape, np.nan), objective=0.0, bound=0.0, method=Method.RULE)",
            "answered shares that are not finite",
        ),
        (
            "return paired(p, 3, 9)",
            "answered a pair of the jobs 3 and 9, which `pairs` lacks",
        ),
        ("p.gpus[0] += 8; return idle(p)", "raised ValueError: "),
    ],
)
def test_an_answer_that_is_none_is_a_refusal_that_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Problem, body: str, what: str
) -> None:
    source = f"def solve(p):\n    {body}\nPOLICY = made('odd', solve)"
    known = installed(tmp_path, monkeypatch, source)
    found = answer(known.by_name["odd"], problem)
    assert isinstance(found, Unsolved)
    assert found.message.startswith(f"odd of package acme-policies 1.2 {what}")
    assert "report this to the authors" in found.remedy


def test_an_answer_that_breaks_a_constraint_is_a_refusal_that_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Problem
) -> None:
    source = (
        "def solve(p):\n    return replace(idle(p), shares=np.ones(p.shape))\n"
        "POLICY = made('greedy', solve)"
    )
    known = installed(tmp_path, monkeypatch, source)
    found = answer(known.by_name["greedy"], problem)
    assert isinstance(found, Unsolved)
    assert found.message == (
        "the answer of greedy of package acme-policies 1.2 breaks a constraint: "
        "job 0: its shares add up to 2, more than 1"
    )
    assert (found.subject, found.remedy) == (
        "job 0",
        "choose another policy, and report this to the authors of the package",
    )


def test_the_policy_with_pairs_of_the_page_lets_jobs_share_gpus(problem: Problem) -> None:
    example = next(code for code in fenced_blocks(PAGE, "python") if "in_pairs" in code)
    names: dict[str, Any] = {}
    exec(compile(example, "docs/policy-plugins.md", "exec"), names)  # noqa: S102 - our own page
    policy = names["IN_PAIRS"]
    assert isinstance(policy, Policy)
    found = answer(policy, problem)
    assert isinstance(found, Allocation)
    pairs = list(zip(found.first[4:].tolist(), found.second[4:].tolist(), strict=True))
    assert pairs == [(0, 1), (2, 3)]
    alone = answer(policy, changed(problem, pairs=None))
    assert isinstance(alone, Allocation)
    assert not alone.shares.any()


def test_the_example_package_runs_the_shortest_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Problem
) -> None:
    monkeypatch.syspath_prepend(str(PLUGIN))
    value = "quorate_shortest_first:SHORTEST_FIRST"
    assert value in (PLUGIN / "pyproject.toml").read_text(encoding="utf-8")
    known = known_in(tmp_path, monkeypatch, value, "quorate-shortest-first")
    found = answer(known.by_name["shortest_first"], problem)
    assert isinstance(found, Allocation)
    seconds = problem.steps_left / problem.rates.max(axis=1)
    runs = found.shares.sum(axis=1) > 0
    assert runs[np.argmin(seconds)]
    assert (problem.scales @ found.shares <= problem.gpus).all()
