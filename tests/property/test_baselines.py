"""The baselines of comparisons, compared with playing them millisecond by millisecond."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.sim.baselines.baseline_orders import BASELINES, LeastAttainedService
from quorate.sim.baselines.baseline_simulation import (
    BaselineError,
    BaselineJob,
    simulate_baseline,
)
from quorate.sim.report.metrics import metrics_of
from tests.oracles.effort import examples
from tests.oracles.ticking import play

GPUS = 4
QUEUE_GPU_MS = 6


@st.composite
def job_lists(draw: st.DrawFn) -> list[BaselineJob]:
    found = []
    for number in range(draw(st.integers(1, 7))):
        duration_ms = draw(st.integers(1, 8))
        found.append(
            BaselineJob(
                name=f"j{number}",
                owner=draw(st.sampled_from(["ada", "ben"])),
                gpus=draw(st.integers(1, GPUS)),
                submitted_ms=draw(st.integers(0, 10)),
                duration_ms=duration_ms,
                estimate_ms=duration_ms + draw(st.integers(0, 4)),
                priority=draw(st.integers(0, 2)),
            )
        )
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("name", BASELINES)
@examples(3)
@given(jobs=job_lists())
def test_a_baseline_does_what_playing_it_does(name: str, jobs: list[BaselineJob]) -> None:
    scheduler = LeastAttainedService(QUEUE_GPU_MS) if name == "las" else BASELINES[name]
    outcome = simulate_baseline(name, jobs, GPUS, scheduler)
    expected = play(name, jobs, GPUS, QUEUE_GPU_MS)
    for run in outcome.runs:
        ran = [ms for each in run.intervals for ms in range(each.start_ms, each.end_ms)]
        assert ran == expected[run.name], run.name
        assert run.ended_ms == ran[-1] + 1
        waited = run.ended_ms - run.submitted_ms - len(ran)
        assert sum(run.waits_ms.values()) == waited
        assert run.preemptions == len(run.intervals) - 1
    found = metrics_of(outcome)
    assert found.completed == len(jobs)
    assert 0 < found.utilisation <= 1


@given(job_lists(), st.integers(1, 3))
def test_what_a_restart_costs_is_done_again_and_counted(
    jobs: list[BaselineJob], restart_ms: int
) -> None:
    outcome = simulate_baseline("srtf", jobs, GPUS, BASELINES["srtf"], restart_ms=restart_ms)
    for run, job in zip(outcome.runs, jobs, strict=True):
        had_ms = sum(each.end_ms - each.start_ms for each in run.intervals)
        assert had_ms * job.gpus == job.duration_ms * job.gpus + run.lost_gpu_ms
        assert run.lost_gpu_ms <= run.preemptions * restart_ms * job.gpus


def _job(**changed: int) -> BaselineJob:
    fields = {"gpus": 1, "submitted_ms": 0, "duration_ms": 2, "estimate_ms": 2} | changed
    return BaselineJob(name="j", owner="ada", **fields)


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ([_job(gpus=5)], "'j' needs 5 GPUs of 4"),
        ([_job(duration_ms=0)], "takes 0 ms"),
        ([_job(estimate_ms=1)], "longer than its limit of 1 ms"),
        ([_job(), _job()], "appears twice"),
    ],
)
def test_jobs_that_cannot_be_played_are_named(jobs: list[BaselineJob], message: str) -> None:
    with pytest.raises(BaselineError, match=message):
        simulate_baseline("srtf", jobs, GPUS, BASELINES["srtf"])


def test_no_jobs_come_to_nothing() -> None:
    outcome = simulate_baseline("srtf", [], GPUS, BASELINES["srtf"])
    assert (outcome.runs, outcome.ended_ms) == ((), 0)
