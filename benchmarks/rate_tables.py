"""Makes problems for policies: jobs drawn from a published or an invented throughput table.

If the published table is beside the repository, in ``../shared``, it is used; otherwise a table of
the same shape is invented. Each flavor has a twentieth of a GPU per job, so that GPUs are short.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from quorate.policy.problem import Floats, Ints, Pairs, Problem

PUBLISHED = Path(__file__).parents[2] / "shared" / "data" / "gavel" / "simulation_throughputs.json"
FLAVORS = ("v100", "p100", "k80")
SCALES = {1: 0.7, 2: 0.1, 4: 0.15, 8: 0.05}
"""The parts of the jobs that take each number of GPUs, as in the published workloads."""
JOBS_PER_GPU = 20
SINGLE_TYPES, WIDE_TYPES = 26, 19


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Types of jobs: their scales, rates alone, and pair rates (type, type, flavor, 2)."""

    source: str
    scales: Ints
    alone: Floats
    together: Floats


def table() -> Table:
    """Return the published table if it is present, else an invented table."""
    if PUBLISHED.is_file():
        return _published(json.loads(PUBLISHED.read_text("utf-8")))
    return _made_up()


def _published(read: dict[str, Any]) -> Table:
    names = [
        name for name in read[FLAVORS[0]] if any(read[flavor][name]["null"] for flavor in FLAVORS)
    ]
    scales = [int(re.findall(r", (\d+)\)", name)[0]) for name in names]
    nothing = [0.0, 0.0]
    return Table(
        source="published",
        scales=np.array(scales),
        alone=np.array([[read[flavor][name]["null"] for flavor in FLAVORS] for name in names]),
        together=np.array(
            [
                [[read[flavor][a].get(b, nothing) for flavor in FLAVORS] for b in names]
                for a in names
            ]
        ),
    )


def _made_up() -> Table:
    chance = np.random.default_rng(7)
    scales = np.repeat([1, 2, 4, 8], [SINGLE_TYPES, WIDE_TYPES, WIDE_TYPES, WIDE_TYPES])
    types = len(scales)
    alone = chance.lognormal(1.0, 1.0, (types, 1)) * np.array([1.0, 0.6, 0.2])
    alone *= chance.lognormal(0.0, 0.3, alone.shape)
    kept = chance.uniform(0.3, 0.95, (types, types, 3))
    fits = (scales[:, None] == scales) & (chance.random((types, types)) < 0.4)
    fits |= fits.T
    mine = alone[:, None, :] * kept * fits[:, :, None]
    return Table(
        source="made up",
        scales=scales,
        alone=alone,
        together=np.stack((mine, mine.transpose(1, 0, 2)), axis=3),
    )


def jobs_of(rates: Table, jobs: int, *, single: bool = False, packed: bool = False) -> Problem:
    """Return a problem of ``jobs`` jobs of types in a table; with ``single``, each has one GPU."""
    chance = np.random.default_rng(1)
    of_scale = np.array([SCALES[int(scale)] for scale in rates.scales])
    likely = of_scale / np.array([np.sum(rates.scales == scale) for scale in rates.scales])
    if single:
        likely = (rates.scales == 1).astype(np.float64)
    of = chance.choice(len(likely), jobs, p=likely / likely.sum())
    scales = rates.scales[of].astype(np.int64)
    pairs = None
    if packed:
        first, second = np.triu_indices(jobs, 1)
        fit = scales[first] == scales[second]
        first, second = first[fit], second[fit]
        pairs = Pairs(first=first, second=second, rates=rates.together[of[first], of[second]])
    durations_s = 60 * 10 ** chance.uniform(1.5, 4.0, jobs)
    steps = rates.alone[of].max(axis=1) * durations_s
    return Problem(
        flavors=FLAVORS,
        gpus=np.full(3, max(1, jobs // JOBS_PER_GPU)),
        jobs=tuple(map(str, range(jobs))),
        rates=rates.alone[of],
        scales=scales,
        weights=np.ones(jobs),
        steps_left=steps,
        ages_s=chance.uniform(0.0, 1.0, jobs) * durations_s,
        isolated_s=np.zeros(jobs),
        deadlines_s=np.full(jobs, np.inf),
        pairs=pairs,
    )


def jobs_of_types(rates: Table, of: Ints) -> Problem:
    """Return a problem with a job for each of the types ``of``, with only rates and GPUs."""
    jobs = len(of)
    nothing = np.zeros(jobs)
    return Problem(
        flavors=FLAVORS,
        gpus=np.full(3, max(1, jobs // JOBS_PER_GPU)),
        jobs=tuple(map(str, range(jobs))),
        rates=rates.alone[of],
        scales=rates.scales[of].astype(np.int64),
        weights=np.ones(jobs),
        steps_left=nothing,
        ages_s=nothing,
        isolated_s=nothing,
        deadlines_s=np.full(jobs, np.inf),
    )


def made_different(problem: Problem) -> Problem:
    """Return ``problem`` with every rate changed by up to a tenth, so that all jobs differ."""
    chance = np.random.default_rng(2)
    return replace(problem, rates=problem.rates * chance.uniform(0.9, 1.1, problem.rates.shape))


def many_flavors(jobs: int, flavors: int) -> Problem:
    """Return a problem of different jobs on many flavors, with as many GPUs as on three flavors."""
    chance = np.random.default_rng(3)
    rates = np.geomspace(1.0, 6.0, flavors) * chance.lognormal(0.0, 0.5, (jobs, flavors))
    nothing = np.zeros(jobs)
    return Problem(
        flavors=tuple(f"flavor-{number}" for number in range(flavors)),
        gpus=np.full(flavors, max(1, 3 * jobs // (JOBS_PER_GPU * flavors))),
        jobs=tuple(map(str, range(jobs))),
        rates=rates * chance.lognormal(0.0, 1.0, (jobs, 1)),
        scales=chance.choice(list(SCALES), jobs, p=list(SCALES.values())),
        weights=np.ones(jobs),
        steps_left=nothing,
        ages_s=nothing,
        isolated_s=nothing,
        deadlines_s=np.full(jobs, np.inf),
    )
