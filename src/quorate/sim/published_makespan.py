"""The published makespan policy that does not distinguish flavors.

The policy searches for a feasible makespan, and stops within 5 % of the least one. For that
makespan, the policy takes the shares that an interior point solver returns: the middle of all
feasible shares. The policy of the same name in ``policy/table.py`` has the exact makespan, and
assigns fast flavors first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from quorate.model.job_types import JobType
from quorate.policy.problem import Floats, Ints
from quorate.policy.rounds.round_book import Row, Shares
from quorate.policy.solvers.center import center, has_inside
from quorate.sim.published_policies import RowRate
from quorate.sim.round_simulation import Moment

SHORTEST_S: Final = 100.0
LONGEST_S: Final = 1e6
"""The search begins between ``SHORTEST_S`` and ``LONGEST_S``."""
LONGER: Final = 10.0
"""If no makespan between the bounds is feasible, the upper bound becomes the lower bound. The new
upper bound is the old upper bound times ``LONGER``."""
WITHIN: Final = 1.05


class PublishedMakespan:
    """The middle of all shares that let every job end by a makespan near the least.

    Every job is assumed to have one rate on all flavors: its rate on the first flavor of ``gpus``
    on which it makes progress. A job that makes progress on no flavor has no share.
    """

    def __init__(
        self, gpus: Mapping[str, int], types: Mapping[str, JobType], rate: RowRate
    ) -> None:
        self._flavors = tuple(gpus)
        self._gpus = np.array(tuple(gpus.values()), dtype=np.int64)
        self._types = types
        self._rate = rate

    def __call__(self, moment: Moment) -> Shares:
        """Return the shares of the jobs of ``moment``."""
        found: dict[Row, Mapping[str, float]] = {
            (job,): dict.fromkeys(self._flavors, 0.0) for job in moment.steps_left
        }
        times_s = {job: self._alone_s(job, steps) for job, steps in moment.steps_left.items()}
        jobs = [job for job, time_s in times_s.items() if time_s is not None]
        if not jobs:
            return found
        alone_s = np.array([times_s[job] for job in jobs], dtype=np.float64)
        scales = np.array([self._types[job].scale for job in jobs], dtype=np.int64)
        makespan_s = near_least_s(alone_s, scales, self._gpus)
        shares = center(alone_s / makespan_s, scales, self._gpus)
        for job, row in zip(jobs, shares.tolist(), strict=True):
            found[(job,)] = dict(zip(self._flavors, row, strict=True))
        return found

    def _alone_s(self, job: str, steps: float) -> float | None:
        """Return how long ``job`` takes if it runs alone and always has GPUs.

        Return None if the job makes no progress on any flavor.
        """
        rates = (self._rate((job,), flavor)[0] for flavor in self._flavors)
        first = next((rate for rate in rates if rate > 0.0), None)
        return None if first is None else steps / first


def near_least_s(alone_s: Floats, scales: Ints, gpus: Ints) -> float:
    """Return the makespan at which the published search ends.

    The makespan is feasible, and at most 5 % longer than the lower bound at the end of the search.
    Usually this lower bound is an infeasible makespan. But the first lower bound, ``SHORTEST_S``,
    was not tried. If the search was restarted with longer bounds, its lower bound is the former
    upper bound. That bound was not tried either, but is within 5 % of an infeasible makespan.
    """
    low_s, top_s, found_s = SHORTEST_S, LONGEST_S, None
    while True:
        high_s = top_s
        while WITHIN * low_s < high_s:
            middle_s = (low_s + high_s) / 2.0
            if has_inside(alone_s / middle_s, scales, gpus):
                high_s = found_s = middle_s
            else:
                low_s = middle_s
        if found_s is not None:
            return found_s
        low_s, top_s = top_s, top_s * LONGER
