"""The mutation tester from end to end, on a project of two modules and a few tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
COUNTING = """\
LIMIT = 3


def count(xs: list[int]) -> int:
    found = 0
    for x in xs:
        if x > LIMIT:
            found += 1
    return found


def untested(x: int) -> int:
    return x + 1


def wait(steps: int) -> str:
    while steps > 0:
        steps -= 1
    return "done"
"""
TESTS = """\
import os
from hypothesis import given, strategies as st
from quorate.core.counting import count, wait
from quorate.core.naming import name


@given(st.lists(st.integers(0, 9)))
def test_count(xs):
    assert count(xs) == len([x for x in xs if x >= 4])


def test_wait():
    assert wait(2) == "done"


def test_name_is_called():
    name(1)


def test_the_tree_is_a_copy():
    assert not os.path.exists("../only-in-the-original")
"""
CONFTEST = """\
from hypothesis import settings

settings.register_profile("quick", derandomize=True, deadline=None, max_examples=15)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    files = {
        "src/quorate/__init__.py": "",
        "src/quorate/core/__init__.py": "",
        "src/quorate/core/counting.py": COUNTING,
        "src/quorate/core/naming.py": "def name(x: int) -> str:\n    return 'a' * (x + 1)\n",
        "src/quorate/ledger/__init__.py": "",
        "tests/conftest.py": CONFTEST,
        "tests/test_it.py": TESTS,
        "pyproject.toml": "[tool.pytest.ini_options]\nmarkers = ['slow: long']\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    (tmp_path / "only-in-the-original").touch()
    return root


def mutate(project: Path, *more: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tools.mutation", "--root", str(project)),
            *("--jobs", "2", "--patience-s", "2", *more),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    report = project / ".build" / "mutation.json"
    return done, json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}


@pytest.mark.soak
def test_each_mutant_gets_its_verdict_and_the_tree_stays_as_it_was(project: Path) -> None:
    before = {p: p.read_text(encoding="utf-8") for p in project.rglob("*.py")}
    done, report = mutate(project, "--mutants", "100", "--at-least", "60")
    verdicts = {(o["function"], o["text"]): o["verdict"] for o in report["outcomes"]}
    assert verdicts["count", "if x > LIMIT: -> if x >= LIMIT:"] == "killed"
    assert verdicts["<module>", "LIMIT = 3 -> LIMIT = 4"] == "killed"
    assert verdicts["untested", "return x + 1 -> return x - 1"] == "uncovered"
    assert verdicts["wait", "steps -= 1 -> pass"] == "timeout"
    assert verdicts["name", "'a' * (x + 1) -> 'a' * (x - 1)"] == "survived"
    assert done.returncode == int(report["score_percent"] < 60)
    killers = {o["noticed_by"] for o in report["outcomes"] if o["function"] == "count"}
    assert killers == {"tests/test_it.py::test_count"}
    assert {p: p.read_text(encoding="utf-8") for p in project.rglob("*.py")} == before


@pytest.mark.soak
def test_too_few_kills_fail_and_an_accepted_mutant_is_left_out(project: Path) -> None:
    done, report = mutate(project, "--only", "core/naming.py")
    assert done.returncode == 1
    survivors = [o for o in report["outcomes"] if o["verdict"] == "survived"]
    assert survivors
    accepted = project / "tools" / "mutation" / "accepted.toml"
    accepted.parent.mkdir(parents=True)
    accepted.write_text(
        "".join(
            "[[accepted]]\n"
            + "".join(f"{key} = {json.dumps(o[key])}\n" for key in _KEY)
            + "reason = 'nobody asks'\n"
            for o in survivors
        ),
        encoding="utf-8",
    )
    done, report = mutate(project, "--only", "core/naming.py")
    assert (done.returncode, report["accepted"]) == (0, len(survivors))
    assert "survived" not in report["verdicts"]
    done, report = mutate(project, "--accepted-only")
    assert (done.returncode, report["verdicts"]) == (0, {"survived": len(survivors)})


@pytest.mark.soak
@pytest.mark.slow
def test_tests_that_fail_without_a_mutant_are_an_error(project: Path) -> None:
    (project / "tests" / "test_bad.py").write_text("def test_bad():\n    assert 0\n", "utf-8")
    done, report = mutate(project)
    assert (done.returncode, report) == (2, {})
    assert "tests fail without any mutant" in done.stderr


@pytest.mark.slow
def test_a_module_that_is_not_there_is_told(project: Path) -> None:
    done, _ = mutate(project, "--only", "core/absent.py")
    assert done.returncode == 2
    assert "core/absent.py: no such module" in done.stderr


_KEY = ("module", "function", "operator", "text")
