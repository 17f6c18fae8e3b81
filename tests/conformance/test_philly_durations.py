"""Calibration on recorded durations: the jobs of the Philly cluster.

The trace is beside the repository, in ``../shared``, and is not part of it; without it this module
is skipped. The trace has no declared durations, so every run has the default of its pool, an hour,
which says nothing about the run: only the durations of runs in the same virtual cluster are known.
"""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from quorate.core.planning.start_quantiles import ExpectedRelease, Need, start_quantiles
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.state.durations import NO_HISTORY, DurationHistory, bucket_of

TRACE: Final = Path(__file__).parents[3] / "shared" / "data" / "traces" / "philly.csv"
EVERY: Final = 2
"""One in this number of jobs is examined while it runs; all jobs enter the histories."""
ELAPSED_MS: Final = (0, 10 * MINUTE_MS, HOUR_MS, 4 * HOUR_MS, 12 * HOUR_MS)
"""The running times at which jobs are examined, in turn, if they still run."""

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        not TRACE.is_file(), reason="the Philly trace is not beside this repository (../shared)"
    ),
]


def jobs() -> list[tuple[int, int, str]]:
    """Return (start, duration, virtual cluster) of each job, the earliest first."""
    with TRACE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return sorted(
        (
            round(datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC).timestamp()) * 1_000,
            round(float(row["duration"]) * 1_000),
            row["cluster"],
        )
        for row in rows
    )


def looks(all_jobs: list[tuple[int, int, str]]) -> list[tuple[int, int, int]]:
    """Return (instant, 0 at its end or 1 while it runs, job) of all examinations."""
    found = [(start_ms + ran_ms, 0, job) for job, (start_ms, ran_ms, _) in enumerate(all_jobs)]
    for job in range(0, len(all_jobs), EVERY):
        start_ms, ran_ms, _ = all_jobs[job]
        elapsed_ms = ELAPSED_MS[job // EVERY % len(ELAPSED_MS)]
        if ran_ms > elapsed_ms:
            found.append((start_ms + elapsed_ms, 1, job))
    return sorted(found)


def test_what_is_left_of_a_job_is_within_its_quantiles_as_often_as_they_say() -> None:
    all_jobs = jobs()
    histories: dict[str, DurationHistory] = {}
    seen: dict[int, list[tuple[bool, bool]]] = {}
    for now_ms, is_running, job in looks(all_jobs):
        start_ms, ran_ms, owner = all_jobs[job]
        if not is_running:
            bucket = bucket_of(ran_ms, HOUR_MS)
            histories[owner] = histories.get(owner, NO_HISTORY).after(bucket)
            continue
        release = ExpectedRelease(owner, start_ms, start_ms + HOUR_MS, 1)
        found = start_quantiles(histories, [Need(1, (release,))], now_ms=now_ms)
        end_ms = start_ms + ran_ms
        within = (end_ms <= found.p50_ms, end_ms <= found.p90_ms)
        seen.setdefault(now_ms - start_ms, []).append(within)
    every = [within for group in seen.values() for within in group]
    assert len(every) > 10_000
    by_p50 = sum(p50 for p50, _ in every) / len(every)
    by_p90 = sum(p90 for _, p90 in every) / len(every)
    assert 0.40 <= by_p50 <= 0.60, (by_p50, by_p90)
    assert 0.85 <= by_p90 <= 0.95, (by_p50, by_p90)
    # Users change their habits within months, so the bounds are wide for every running time.
    for elapsed_ms, group in seen.items():
        assert len(group) > 200, elapsed_ms
        assert 0.35 <= sum(p50 for p50, _ in group) / len(group) <= 0.65, elapsed_ms
        assert 0.78 <= sum(p90 for _, p90 in group) / len(group) <= 0.95, elapsed_ms
