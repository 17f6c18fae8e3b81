"""The quick form of the published experiments runs, and creates every plot."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Final

import pytest

from tests.cli.shell import EXAMPLES

FOLDER: Final = EXAMPLES / "gavel-osdi20"


@pytest.mark.soak
def test_the_quick_form_plays_every_experiment_and_draws_it(tmp_path: Path) -> None:
    program = runpy.run_path(str(FOLDER / "experiments.py"))
    program["main"](["--table", str(FOLDER / "rates.json"), "--out", str(tmp_path)])
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert {each["kind"] for each in results} == {"single", "multi", "makespan", "runtime"}
    done = [each["jobs_done"] for each in results if each["kind"] in ("single", "multi")]
    assert done == [3] * 10
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 4
    assert "published: 28.96" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
