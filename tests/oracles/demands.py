"""Random problems for policies, with any number of flavors, unused flavors, and equal jobs."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from quorate.policy.problem import Pairs, Problem

RATES = (0.0, 0.5, 1.0, 2.0, 3.0, 40.0)


def problem(
    rates: list[list[float]],
    gpus: list[int],
    *,
    scales: list[int] | None = None,
    weights: list[float] | None = None,
    steps: list[float] | None = None,
    ages_s: list[float] | None = None,
    pairs: dict[tuple[int, int], list[list[float]]] | None = None,
) -> Problem:
    """Return a problem; inputs that are not given are the same for all jobs."""
    jobs = len(rates)
    at = sorted(pairs or {})
    return Problem(
        flavors=tuple(f"flavor-{number}" for number in range(len(gpus))),
        gpus=np.array(gpus, dtype=np.int64),
        jobs=tuple(f"job-{number}" for number in range(jobs)),
        rates=np.array(rates, dtype=np.float64).reshape(jobs, len(gpus)),
        scales=np.array(scales or [1] * jobs, dtype=np.int64),
        weights=np.array(weights or [1.0] * jobs),
        steps_left=np.array(steps or [1_000.0] * jobs),
        ages_s=np.array(ages_s or [0.0] * jobs),
        isolated_s=np.zeros(jobs),
        deadlines_s=np.full(jobs, np.inf),
        pairs=None
        if pairs is None
        else Pairs(
            first=np.array([a for a, _ in at], dtype=np.int64),
            second=np.array([b for _, b in at], dtype=np.int64),
            rates=np.array([pairs[key] for key in at]).reshape(len(at), len(gpus), 2),
        ),
    )


@st.composite
def problems(draw: st.DrawFn, *, flavors_max: int = 8, jobs_max: int = 12) -> Problem:
    """Return a problem in which every job has a rate above 0 on a flavor with GPUs.

    The rates of each job are one of a few rows, so that equal jobs are common. In half of the
    problems, the rates of each job are also multiplied by a factor.
    """
    flavors = draw(st.integers(1, flavors_max))
    gpus = draw(st.lists(st.integers(0, 6), min_size=flavors, max_size=flavors))
    at = draw(st.integers(0, flavors - 1))
    gpus[at] = max(1, gpus[at])
    row = st.lists(st.sampled_from(RATES), min_size=flavors, max_size=flavors)
    rows = draw(st.lists(row, min_size=1, max_size=6))
    jobs = draw(st.integers(1, jobs_max))
    factor = st.floats(0.01, 100.0) if draw(st.booleans()) else st.just(1.0)
    rates = []
    for _ in range(jobs):
        by = draw(factor)
        rates.append([rate * by for rate in draw(st.sampled_from(rows))])
        if not any(rate > 0 and there for rate, there in zip(rates[-1], gpus, strict=True)):
            rates[-1][at] = by
    return problem(
        rates,
        gpus,
        scales=draw(st.lists(st.sampled_from((1, 2, 4, 8)), min_size=jobs, max_size=jobs)),
        weights=draw(st.lists(st.sampled_from((1.0, 2.0, 5.0)), min_size=jobs, max_size=jobs)),
        steps=draw(st.lists(st.sampled_from((10.0, 1e3, 1e7)), min_size=jobs, max_size=jobs)),
        ages_s=draw(st.lists(st.sampled_from((0.0, 60.0, 1e5)), min_size=jobs, max_size=jobs)),
    )


@st.composite
def paired_problems(draw: st.DrawFn) -> Problem:
    """Return a problem with a few types of jobs and the rates of pairs of types."""
    flavors = draw(st.integers(1, 3))
    types = draw(st.integers(1, 3))
    rate = st.sampled_from((0.0, 1.0, 2.0, 3.0))
    alone = [[draw(st.sampled_from((1.0, 2.0, 4.0))) for _ in range(flavors)] for _ in range(types)]
    shared = {
        (a, b): [[draw(rate), draw(rate)] for _ in range(flavors)]
        for a in range(types)
        for b in range(a, types)
    }
    for of_type in range(types):
        shared[of_type, of_type] = [[x, x] for x, _ in shared[of_type, of_type]]
    of = draw(st.lists(st.integers(0, types - 1), min_size=1, max_size=9))
    scales = [1 + of_type % 2 for of_type in of]
    pairs = {}
    for a in range(len(of)):
        for b in range(a + 1, len(of)):
            if scales[a] == scales[b]:
                low, high = sorted((of[a], of[b]))
                found = shared[low, high]
                pairs[a, b] = [[x, y] if of[a] == low else [y, x] for x, y in found]
    return problem(
        [alone[of_type] for of_type in of],
        draw(st.lists(st.integers(1, 4), min_size=flavors, max_size=flavors)),
        scales=scales,
        steps=[1_000.0 * (1 + of_type) for of_type in of],
        pairs=pairs,
    )
