"""The quick form of the experiment runs, measures all promised figures, and plots them."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli.shell import EXAMPLES

PROGRAM: Final = EXAMPLES / "lottery-or-priority" / "experiment.py"
TRACE: Final = EXAMPLES.parents[1] / "shared" / "data" / "traces" / "philly.csv"


def _arms(folder: Path, *more: str) -> dict[str, dict[str, Any]]:
    runpy.run_path(str(PROGRAM))["main"](["--out", str(folder), *more])
    found = json.loads((folder / "results.json").read_text("utf-8"))
    return {arm["name"]: arm for arm in found["arms"]}


@pytest.mark.soak
def test_the_quick_form_measures_all_three_ways_and_draws_them(tmp_path: Path) -> None:
    arms = _arms(tmp_path)
    lottery, priority, neither = arms["lottery"], arms["priority"], arms["no conflicts"]
    assert lottery["preemptions"] > 0
    assert (neither["preemptions"], neither["lost_gpu_hours"]) == (0, 0.0)
    assert priority["jct_urgent_h"] < lottery["jct_urgent_h"], "what priorities are for"
    assert priority["gain_of_liar"] > 0.2, "and what they invite"
    assert lottery["gain_of_liar"] < priority["gain_of_liar"] / 2
    assert priority["lost_gpu_hours"] > 0
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "variance of shares" in page
    assert "says that all of its jobs are urgent" in page
    assert page.count("<svg") >= 4
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.soak
@pytest.mark.skipif(not TRACE.is_file(), reason=f"there is no {TRACE.name} beside the repository")
def test_a_part_of_a_published_trace_is_played(tmp_path: Path) -> None:
    arms = _arms(tmp_path, "--trace", str(TRACE), "--part", "16000:16030", "--gpus", "12")
    assert set(arms) == {"lottery", "no conflicts", "priority"}
    assert all(arm["jct_mean_h"] > 0 for arm in arms.values())
