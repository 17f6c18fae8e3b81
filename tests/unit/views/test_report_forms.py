from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from hypothesis import given

from quorate.sim.outcome import Outcome
from quorate.sim.report.compare import compare
from quorate.sim.report.metrics import metrics_of
from quorate.views.reports.comparison_forms import comparison_lines, comparison_tree
from quorate.views.reports.report_forms import (
    RUN_COLUMNS,
    metrics_lines,
    metrics_tree,
    runs_csv,
    seconds,
)
from tests.oracles.effort import examples
from tests.oracles.outcomes import outcomes


@examples(0.5)
@given(outcomes())
def test_figures_can_be_shown_and_read_by_programs(outcome: Outcome) -> None:
    found = metrics_of(outcome)
    assert metrics_lines(found)
    tree = json.loads(json.dumps(metrics_tree(found)))
    assert tree["utilisation"] == found.utilisation
    assert tree["makespan_s"] == found.makespan_s
    assert tree["cost"] == found.cost
    assert tree["jct_mean_s"] == (None if found.jct_s is None else found.jct_s.mean)
    assert tree["waits_by_cause_s"] == {str(k): v for k, v in found.waits_by_cause_s.items()}


@examples(0.5)
@given(outcomes())
def test_every_run_is_a_line_whose_waits_add_up(outcome: Outcome) -> None:
    rows = list(csv.DictReader(io.StringIO(runs_csv([outcome]))))
    assert [row["run"] for row in rows] == [run.name for run in outcome.runs]
    for row, run in zip(rows, outcome.runs, strict=True):
        assert tuple(row) == RUN_COLUMNS
        parts = [int(row[name]) for name in RUN_COLUMNS if name.startswith("wait_")]
        assert parts[0] == sum(parts[1:]) == sum(run.waits_ms.values())
        assert row["ended_ms"] == ("" if run.ended_ms is None else str(run.ended_ms))
        assert float(row["cost"]) == run.cost


@pytest.mark.heavy
@examples(0.2)
@given(outcomes())
def test_a_comparison_can_be_shown_and_read_by_programs(outcome: Outcome) -> None:
    every = [replace(outcome, name=name, seed=seed) for name in "ab" for seed in range(5)]
    found = compare(every)
    lines = comparison_lines(found)
    assert lines[0].split()[:4] == ["MEAN", "OF", "5", "SEEDS"]
    tree = json.loads(json.dumps(comparison_tree(found)))
    assert tree["policies"] == ["a", "b"]
    assert {each["better"] for each in tree["differences"]} <= {None}
    assert len(tree["metrics"]) == 10


def test_times_are_in_the_unit_in_which_they_read_best() -> None:
    assert [seconds(each) for each in (0.25, 30, 119, 1_800, 9_000, 400_000)] == [
        "0.25 s",
        "30.0 s",
        "119.0 s",
        "30.0 min",
        "2.5 h",
        "4.6 d",
    ]
