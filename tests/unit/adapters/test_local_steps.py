"""The last step that a run on this machine has reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate import runtime
from quorate.adapters.executors.logs_local import last_step, reports_in
from quorate.model.amounts import TIME_MS_MAX


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


def test_reports_have_figures_of_any_kind_that_can_be_shown(tmp_path: Path) -> None:
    """A job may write anything there; values that are no numbers, and bad names, are left out."""
    folder = tmp_path / runtime.STEPS
    folder.mkdir()
    many = ", ".join(f'"f{number}": {number}' for number in range(30))
    lines = [
        '{"step": 1, "at_ms": 5, "generation": 2, "figures": {"loss": 1.5, "lr": 1e-4}}',
        '{"step": 2, "at_ms": "x", "figures": {"loss": NaN, "a b": 1, "ok": "no", "b": true}}',
        '{"step": 3, "at_ms": 9007199254740991, "figures": {"big": 1' + 400 * "0" + "}}",
        '{"step": 4, "figures": [1]}',
        '{"step": 5, "figures": {' + many + "}}",
        "[" * 5_000,
    ]
    (folder / "rank-0.jsonl").write_text("\n".join(lines) + "\n")
    found = reports_in(tmp_path)
    assert [each.step for each in found] == [1, 2, 3, 4, 5]
    assert found[0].figures == {"loss": 1.5, "lr": 1e-4}
    assert (found[0].at_ms, found[0].generation) == (5, 2)
    assert found[1].figures == {"loss": None, "b": 1.0}
    assert found[2].figures == {"big": None}
    assert found[2].at_ms == TIME_MS_MAX
    assert found[3].figures == {}
    assert len(found[4].figures) == 12
