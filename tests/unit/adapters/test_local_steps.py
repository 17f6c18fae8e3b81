"""The last step that a run on this machine has reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate import runtime
from quorate.adapters.executors.logs_local import last_step


@pytest.mark.heavy
def test_what_the_runtime_reports_is_what_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(runtime.FOLDER, str(tmp_path))
    monkeypatch.setenv("RANK", "0")
    assert last_step(tmp_path) is None
    for step in range(1, 1_000):
        runtime.report(step, loss=0.5)
    assert last_step(tmp_path) == 999


def test_half_a_line_and_what_is_no_step_are_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / runtime.STEPS
    folder.mkdir()
    record = folder / "rank-0.jsonl"
    record.write_text('{"step": 7}\n{"step": true}\n{"step": -3}\n[]\n{"step": 8, "at')
    assert last_step(tmp_path) == 7
    record.rename(folder / "rank-0.old.jsonl")
    record.write_text("")
    assert last_step(tmp_path) == 7
