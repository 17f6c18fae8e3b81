"""The baselines of comparisons, compared with playing them millisecond by millisecond."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.sim.baselines.baseline_orders import BASELINES, LeastAttainedService
from quorate.sim.baselines.baseline_simulation import (
    BaselineError,
    BaselineJob,
    StopCost,
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


@pytest.mark.heavy
@pytest.mark.parametrize("name", BASELINES)
@examples(3)
@given(jobs=job_lists(), checkpoint_ms=st.integers(1, 4), stop_ms=st.integers(0, 3))
def test_a_stop_costs_the_work_since_the_last_checkpoint_and_time_on_the_gpus(
    name: str, jobs: list[BaselineJob], checkpoint_ms: int, stop_ms: int
) -> None:
    scheduler = LeastAttainedService(QUEUE_GPU_MS) if name == "las" else BASELINES[name]
    cost = StopCost(lost_ms=lambda done_ms: done_ms % checkpoint_ms, stop_ms=stop_ms)
    outcome = simulate_baseline(name, jobs, GPUS, scheduler, cost=cost)
    expected = play(name, jobs, GPUS, QUEUE_GPU_MS, checkpoint_ms, stop_ms)
    for run, job in zip(outcome.runs, jobs, strict=True):
        had = [ms for each in run.intervals for ms in range(each.start_ms, each.end_ms)]
        assert had == expected[run.name], run.name
        worked_ms = len(had) - run.preemptions * stop_ms
        assert worked_ms * job.gpus == job.duration_ms * job.gpus + run.lost_gpu_ms
        assert run.preemptions == len(run.intervals) - 1


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
