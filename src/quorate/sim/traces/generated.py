"""Generates traces: the published jobs, with arrivals of several kinds.

The published generator (``sim/job_stream.py``) draws jobs and arrivals from separate random
generators, so the jobs stay the same with other arrivals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

from quorate.model.amounts import DAY_MS, SECOND_MS
from quorate.sim.job_stream import ARRIVAL_SEED, TEMPLATES, DrawnJob, Template, Wishes, drawn_jobs
from quorate.sim.traces.trace_job import TraceJob

DAY_S: Final = DAY_MS / SECOND_MS
DAY_SWING: Final = 0.8
"""The rate of diurnal arrivals is above its mean at noon, and below its mean at midnight, by this
part of the mean."""
JOBS_MAX: Final = 1_000_000


class Arrivals(StrEnum):
    """How jobs arrive."""

    POISSON = "poisson"
    STATIC = "static"
    DIURNAL = "diurnal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """Which jobs to draw. ``lam_s`` is the mean time between arrivals.

    If ``lam_s`` is 0, all jobs arrive at once. ``templates`` has the types to draw; by default the
    published types.
    """

    lam_s: float
    seed: int = 0
    has_sizes: bool = False
    has_weights: bool = False
    has_deadlines: bool = False
    arrivals: Arrivals = Arrivals.POISSON
    templates: tuple[Template, ...] = TEMPLATES


def generated_jobs(asked: Generated, rate: Callable[[str, int], float]) -> Iterator[TraceJob]:
    """Yield jobs without end; ``rate`` is as in ``drawn_jobs``."""
    gap_s = 0.0 if asked.arrivals is not Arrivals.POISSON else asked.lam_s
    wishes = Wishes(
        seed=asked.seed,
        gap_s=gap_s,
        has_sizes=asked.has_sizes,
        has_weights=asked.has_weights,
        templates=asked.templates,
    )
    diurnal = _diurnal(asked) if asked.arrivals is Arrivals.DIURNAL else None
    for order, job in enumerate(drawn_jobs(wishes, rate)):
        arrives_s = job.arrives_s if diurnal is None else next(diurnal)
        yield _traced(job, order, arrives_s, has_deadline=asked.has_deadlines)


def _traced(job: DrawnJob, order: int, arrives_s: float, *, has_deadline: bool) -> TraceJob:
    return TraceJob(
        name=str(order),
        arrives_s=arrives_s,
        gpus=job.gpus,
        duration_s=job.duration_s,
        steps=job.steps,
        job_type=job.model,
        weight=job.weight,
        slo=job.slo if has_deadline else None,
        order=order,
    )


def _diurnal(asked: Generated) -> Iterator[float]:
    """Yield arrivals with a rate of ``1/lam_s`` on average that is lowest at midnight.

    Arrivals are drawn by thinning: candidates come at the highest rate, and each is kept with the
    probability (rate at its time) / (highest rate).
    """
    assert asked.lam_s > 0.0, asked
    chance = Random(asked.seed + ARRIVAL_SEED)
    highest = (1.0 + DAY_SWING) / asked.lam_s
    now_s = 0.0
    yield now_s
    while True:
        now_s += chance.expovariate(highest)
        swing = DAY_SWING * math.cos(2.0 * math.pi * (now_s / DAY_S - 0.5))
        if chance.random() * (1.0 + DAY_SWING) <= 1.0 + swing:
            yield now_s
