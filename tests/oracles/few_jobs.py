"""Problems written out: a row of rates for each job, and defaults for everything else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quorate.policy.problem import Problem


def few_jobs(
    rates: Sequence[Sequence[float]],
    gpus: Sequence[int],
    *,
    scales: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
) -> Problem:
    """Return jobs ``j0``, ``j1`` ... on flavors ``f0``, ``f1`` ..., new and without deadlines."""
    jobs = len(rates)
    return Problem(
        flavors=tuple(f"f{k}" for k in range(len(gpus))),
        gpus=np.array(gpus, dtype=np.int64),
        jobs=tuple(f"j{k}" for k in range(jobs)),
        rates=np.array(rates, dtype=np.float64).reshape(jobs, len(gpus)),
        scales=np.array([1] * jobs if scales is None else scales, dtype=np.int64),
        weights=np.array([1.0] * jobs if weights is None else weights, dtype=np.float64),
        steps_left=np.full(jobs, 100.0),
        ages_s=np.zeros(jobs),
        isolated_s=np.zeros(jobs),
        deadlines_s=np.full(jobs, np.inf),
    )
