"""Generated traces: other arrivals give the same jobs, at the requested rate."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise
from statistics import mean

import pytest

from quorate.sim.traces.generated import DAY_S, Arrivals, Generated, generated_jobs
from quorate.sim.traces.trace_job import TraceJob


def drawn(count: int, asked: Generated) -> list[TraceJob]:
    return list(islice(generated_jobs(asked, lambda _model, gpus: 2.0 * gpus), count))


def test_static_jobs_all_come_at_once() -> None:
    asked = Generated(lam_s=0.0, arrivals=Arrivals.STATIC)
    assert {job.arrives_s for job in drawn(50, asked)} == {0.0}


@pytest.mark.parametrize("arrivals", [Arrivals.STATIC, Arrivals.DIURNAL])
def test_arrivals_do_not_change_the_jobs(arrivals: Arrivals) -> None:
    asked = Generated(lam_s=900.0, seed=3, has_sizes=True, has_weights=True, has_deadlines=True)
    poisson, other = drawn(80, asked), drawn(80, replace(asked, arrivals=arrivals))
    assert [replace(job, arrives_s=0.0) for job in poisson] == [
        replace(job, arrives_s=0.0) for job in other
    ]


@pytest.mark.heavy
@pytest.mark.parametrize("arrivals", [Arrivals.POISSON, Arrivals.DIURNAL])
def test_the_mean_gap_is_the_one_that_was_asked_for(arrivals: Arrivals) -> None:
    jobs = drawn(8_000, Generated(lam_s=600.0, seed=5, arrivals=arrivals))
    gaps = [b.arrives_s - a.arrives_s for a, b in pairwise(jobs)]
    assert all(gap >= 0.0 for gap in gaps)
    assert mean(gaps) == pytest.approx(600.0, rel=0.05)


@pytest.mark.heavy
def test_diurnal_arrivals_are_most_at_noon_and_fewest_at_midnight() -> None:
    jobs = drawn(8_000, Generated(lam_s=600.0, seed=5, arrivals=Arrivals.DIURNAL))
    hours = [job.arrives_s % DAY_S / 3_600.0 for job in jobs]
    noon = sum(9 <= hour < 15 for hour in hours)
    midnight = sum(hour < 3 or hour >= 21 for hour in hours)
    assert noon > 3 * midnight


def test_a_seed_draws_the_same_jobs_and_another_one_others() -> None:
    asked = Generated(lam_s=600.0, seed=1)
    assert drawn(20, asked) == drawn(20, asked)
    assert drawn(20, asked) != drawn(20, replace(asked, seed=2))


def test_steps_are_those_of_the_duration_at_the_rate() -> None:
    for job in drawn(20, Generated(lam_s=0.0, arrivals=Arrivals.STATIC)):
        assert job.duration_s is not None
        assert job.steps == pytest.approx(2.0 * job.gpus * job.duration_s)
