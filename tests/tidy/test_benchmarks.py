"""Every benchmark still runs: its quick form measures something, or says what it lacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from benchmarks.__main__ import BENCHMARKS

ROOT: Final = Path(__file__).parents[2]
ONE_S: Final = 1_800


@pytest.mark.soak
@pytest.mark.timeout(ONE_S + 60)
@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_measures_or_says_what_it_lacks(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--only", name, "--json", tmp_path / "r"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=ONE_S,
    )
    assert done.returncode == 0 or f"{name}: not measured: " in done.stderr, done.stderr
