"""The published generator of jobs: sizes, durations, types and arrivals, drawn from a seed.

The order of the draws is as published (Gavel, ``simulate_scheduler_with_generated_jobs``), so a
seed gives the same jobs as Gavel's generator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

JOB_SEED: Final = 2
ARRIVAL_SEED: Final = 3
DEADLINE_SEED: Final = 6
"""``JOB_SEED``, ``ARRIVAL_SEED`` and ``DEADLINE_SEED``, each plus the seed of a simulation, are the
seeds for the draws of jobs, arrivals and deadlines."""

MINUTE_S: Final = 60
_LONG_FROM: Final = 0.8
_HEAVY_TO: Final = 0.2
_HEAVY_WEIGHT: Final = 5.0
_DEADLINES: Final = ((0.33, 1.2), (0.67, 2.0))
_LAST_DEADLINE: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A type of job, and the numbers of GPUs that it can take, in ascending order."""

    model: str
    sizes: tuple[int, ...] = (1,)


def _family(model: str, batches: Sequence[int], sizes: tuple[int, ...]) -> list[Template]:
    return [Template(model=f"{model} (batch size {batch})", sizes=sizes) for batch in batches]


SIZES: Final = (1, 2, 4, 8)
TEMPLATES: Final = (
    *_family("ResNet-18", (16, 32, 64, 128, 256), SIZES),
    *_family("ResNet-50", (16, 32, 64, 128), SIZES),
    *_family("Transformer", (16, 32, 64, 128, 256), SIZES),
    *_family("LM", (5, 10, 20, 40, 80), SIZES),
    *_family("Recommendation", (512, 1024, 2048, 4096, 8192), (1,)),
    Template(model="A3C"),
    Template(model="CycleGAN"),
)
"""The published types of jobs, in the published order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """Which jobs to draw, from at least one template.

    If ``has_sizes``, a number of GPUs is drawn for each job. The job gets the largest number of
    GPUs that its type can take and that is not above the drawn number. ``gap_s`` is the mean time
    between two arrivals; if ``gap_s`` is 0, all jobs arrive at once.
    """

    seed: int
    gap_s: float
    has_sizes: bool = False
    has_weights: bool = False
    templates: tuple[Template, ...] = TEMPLATES


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnJob:
    """A generated job, which takes ``duration_s`` when it works alone on the reference flavor.

    Its deadline is ``slo`` times ``duration_s`` after its arrival.
    """

    model: str
    gpus: int
    steps: float
    duration_s: float
    weight: float
    slo: float
    arrives_s: float


def drawn_jobs(wishes: Wishes, rate: Callable[[str, int], float]) -> Iterator[DrawnJob]:
    """Yield jobs without end, in the order of their arrival.

    ``rate`` takes a model and a number of GPUs. It returns the rate of the model alone on so many
    GPUs of the reference flavor. A job has as many steps as it completes in its duration at this
    rate.
    """
    chance = Random(wishes.seed + JOB_SEED)
    arrivals = Random(wishes.seed + ARRIVAL_SEED)
    deadlines = Random(wishes.seed + DEADLINE_SEED)
    has_sizes = wishes.has_sizes and any(len(each.sizes) > 1 for each in wishes.templates)
    arrives_s = 0.0
    while True:
        # A size is drawn even if it is not used, so that the other draws stay the same.
        drawn = _size(chance.uniform(0, 1))
        duration_s = _duration_s(chance)
        wanted = drawn if has_sizes else 1
        template = chance.choice(wishes.templates)
        while wanted > 1 and len(template.sizes) == 1:
            template = chance.choice(wishes.templates)
        gpus = max((size for size in template.sizes if size <= wanted), default=template.sizes[0])
        weight = 1.0
        if wishes.has_weights and chance.uniform(0, 1) <= _HEAVY_TO:
            weight = _HEAVY_WEIGHT
        yield DrawnJob(
            model=template.model,
            gpus=gpus,
            steps=duration_s * rate(template.model, gpus),
            duration_s=duration_s,
            weight=weight,
            slo=_slo(deadlines.uniform(0, 1)),
            arrives_s=arrives_s,
        )
        if wishes.gap_s > 0:
            arrives_s += -math.log(1.0 - arrivals.random()) / (1.0 / wishes.gap_s)


def _size(drawn: float) -> int:
    """Return how many GPUs a job takes: 70 % take 1, 10 % 2, 15 % 4 and 5 % 8."""
    for below, gpus in ((0.7, 1), (0.8, 2), (0.95, 4)):
        # As published: the first bound is exclusive, the others are inclusive.
        if drawn < below or (gpus > 1 and drawn == below):
            return gpus
    return 8


def _duration_s(chance: Random) -> float:
    """Return a job's duration: mostly between half an hour and 17 hours, else up to a week."""
    low, high = (3, 4) if chance.random() >= _LONG_FROM else (1.5, 3)
    return MINUTE_S * 10 ** chance.uniform(low, high)


def _slo(drawn: float) -> float:
    for below, slo in _DEADLINES:
        if drawn < below:
            return slo
    return _LAST_DEADLINE
