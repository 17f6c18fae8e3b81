"""Jobs drawn from a seed: the order of the draws, and the meaning of each."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest

from quorate.sim.job_stream import TEMPLATES, DrawnJob, Template, Wishes, drawn_jobs


def rate(_model: str, gpus: int) -> float:
    return 2.0 * gpus


def first(wishes: Wishes, count: int = 300) -> list[DrawnJob]:
    return list(islice(drawn_jobs(wishes, rate), count))


def test_the_same_seed_has_the_same_jobs() -> None:
    assert first(Wishes(seed=1, gap_s=60.0)) == first(Wishes(seed=1, gap_s=60.0))
    assert first(Wishes(seed=1, gap_s=60.0)) != first(Wishes(seed=2, gap_s=60.0))


def test_the_first_job_is_drawn_size_then_duration_then_type() -> None:
    chance = Random(7 + 2)
    chance.uniform(0, 1)
    low, high = (3, 4) if chance.random() >= 0.8 else (1.5, 3)
    duration_s = 60 * 10 ** chance.uniform(low, high)
    job = first(Wishes(seed=7, gap_s=60.0))[0]
    assert job.duration_s == duration_s
    assert job.steps == duration_s * 2.0
    assert job.model == chance.choice(TEMPLATES).model
    assert job.arrives_s == 0.0


def test_only_what_can_be_distributed_takes_several_gpus() -> None:
    jobs = first(Wishes(seed=0, gap_s=60.0, has_sizes=True))
    distributed = {each.model for each in TEMPLATES if len(each.sizes) > 1}
    assert {job.gpus for job in jobs} == {1, 2, 4, 8}
    assert all(job.model in distributed for job in jobs if job.gpus > 1)
    assert any(job.model not in distributed for job in jobs)
    alone = first(Wishes(seed=0, gap_s=60.0))
    assert {job.gpus for job in alone} == {1}


def test_weights_and_deadlines_are_drawn_in_their_parts() -> None:
    jobs = first(Wishes(seed=3, gap_s=60.0, has_weights=True), 2000)
    heavy = sum(job.weight == 5.0 for job in jobs) / 2000
    assert heavy == pytest.approx(0.2, abs=0.03)
    for slo in (1.2, 2.0, 10.0):
        assert sum(job.slo == slo for job in jobs) / 2000 == pytest.approx(0.33, abs=0.03)
    assert {job.weight for job in first(Wishes(seed=3, gap_s=60.0))} == {1.0}


def test_arrivals_are_apart_by_the_gap_on_the_mean_or_all_at_once() -> None:
    jobs = first(Wishes(seed=0, gap_s=60.0), 5000)
    assert jobs[-1].arrives_s / 5000 == pytest.approx(60.0, rel=0.05)
    assert [job.arrives_s for job in jobs] == sorted(job.arrives_s for job in jobs)
    assert {job.arrives_s for job in first(Wishes(seed=0, gap_s=0.0))} == {0.0}


def test_other_types_can_be_drawn() -> None:
    mine = (Template(model="mine", sizes=(1, 2)), Template(model="wide", sizes=(4,)))
    jobs = first(Wishes(seed=0, gap_s=1.0, has_sizes=True, templates=mine))
    assert {(job.model, job.gpus) for job in jobs} == {("mine", 1), ("mine", 2), ("wide", 4)}
    small = (Template(model="small"),)
    jobs = first(Wishes(seed=0, gap_s=1.0, has_sizes=True, templates=small), 50)
    assert {(job.model, job.gpus) for job in jobs} == {("small", 1)}
