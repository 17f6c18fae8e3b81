"""The message of tests without a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.dashboard import measure
from benchmarks.figure import Effort


def test_a_benchmark_without_a_browser_says_why_it_measures_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setattr("tests.web.browsing.NOTE", tmp_path / "chromium")
    for name in ("PATH", "PLAYWRIGHT_BROWSERS_PATH"):
        monkeypatch.setenv(name, str(tmp_path))
    assert measure(Effort(quick=True)) == []
    assert "dashboard: not measured: no Chromium" in capsys.readouterr().err
