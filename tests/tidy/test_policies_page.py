"""docs/reference/policies.md has every policy and field, and its examples print what it shows."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from quorate.policy.files import jobs_file, problem_file
from quorate.policy.table import POLICIES
from tests.tidy.tour import faults, play, steps_of
from tests.tidy.tree import ROOT, code_words, fenced_blocks, table_rows

PAGE = (ROOT / "docs/reference/policies.md").read_text(encoding="utf-8")


def _listed(heading: str) -> list[str]:
    return [word for row in table_rows(PAGE, heading) for word in code_words(row[0])]


def test_the_page_lists_every_policy() -> None:
    listed = _listed("The policies")
    assert len(listed) == len(set(listed))
    assert sorted(listed) == sorted(POLICIES)


def test_the_page_lists_exactly_the_fields_of_jobs_and_problems() -> None:
    assert sorted(_listed("Jobs")) == sorted(jobs_file.FIELDS)
    assert sorted(_listed("Problem")) == sorted(problem_file.ASKED)
    passed_over = PAGE.partition("Further fields of a recorded case")[2].partition(")")[0]
    assert sorted(code_words(passed_over)) == sorted(problem_file.RECORDED)


@pytest.mark.slow
def test_the_examples_show_what_the_page_says(tmp_path: Path) -> None:
    steps = steps_of(fenced_blocks(PAGE, "console"))
    assert len(steps) == 5
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    commands = Path(sys.executable).parent
    environment = {
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
        "HOME": str(tmp_path),
    }
    shown = play(steps, folder=tmp_path, environment=environment)
    assert not faults(steps, shown), "\n\n".join(faults(steps, shown))
