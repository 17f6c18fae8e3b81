"""The analytic center of all shares that give each job at least a given time.

If a program has no objective, every point within its limits is an answer. A solver that follows the
central path returns the analytic center of these points: the point that maximises the product of
all distances to the limits (Sonnevend, 1986).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from quorate.policy.problem import Floats, Ints

STEPS_MAX: Final = 100
"""If more steps than this are needed, something is wrong: even many jobs need few steps."""
WITHIN: Final = 1e-12
"""The center is found when the next step adds at most this to the logarithm of the product."""
NEAR: Final = 0.05
"""If a step gains less than this, it is taken whole, without a line search: from here on, whole
steps converge."""
LONGEST: Final = 0.95
"""A step may go at most this part of the way to the nearest limit."""
_HALVINGS: Final = 40
_BELOW_1: Final = 1 - 1e-9
"""The factor by which a limit is reduced, so that rounding errors do not exceed the limit."""


def has_inside(times: Floats, scales: Ints, gpus: Ints) -> bool:
    """Return whether all jobs can have more time than ``times``, but less than the whole time."""
    asked = float(scales @ times)
    return bool(gpus.min() > 0 and times.max() < _BELOW_1) and asked < gpus.sum() * _BELOW_1


def center(times: Floats, scales: Ints, gpus: Ints) -> Floats:
    """Return the center of the shares (jobs, flavors) that give jobs ``times`` or more.

    All flavors are equally good for a job. The limits are the whole time of each job, the GPUs of
    each flavor, and 0 for each share. There must be shares that are strictly within all limits
    (``has_inside``).
    """
    assert has_inside(times, scales, gpus), "the region has no interior, so it has no center"
    inside = _Inside(times, scales.astype(np.float64), gpus.astype(np.float64))
    shares = inside.start()
    for _ in range(STEPS_MAX):
        step, gain = inside.newton(shares)
        if gain <= WITHIN:
            return shares
        shares = shares + (1.0 if gain <= NEAR else inside.length(shares, step, gain)) * step
    raise AssertionError(f"no center of {len(times)} jobs after {STEPS_MAX} steps")


class _Inside:
    """The limits of the shares, and the function that the center maximises."""

    def __init__(self, times: Floats, scales: Floats, gpus: Floats) -> None:
        self.times, self.scales, self.gpus = times, scales, gpus

    def start(self) -> Floats:
        """Return shares within the limits: each job's least time, and up to half of what it lacks.

        A job lacks its whole time minus its least time.
        """
        lacks = 1.0 - self.times
        spare = self.gpus.sum() - self.scales @ self.times
        part = 0.5 * min(1.0, spare / (self.scales @ lacks))
        return np.outer(self.times + part * lacks, self.gpus / self.gpus.sum())

    def left(self, shares: Floats) -> tuple[Floats, Floats, Floats]:
        """Return all distances: the time that jobs lack, their time above the least, idle GPUs."""
        had = shares.sum(axis=1)
        return 1.0 - had, had - self.times, self.gpus - self.scales @ shares

    def product(self, shares: Floats) -> float:
        """Return the logarithm of the product of all distances to the limits.

        Outside the limits, return minus infinity.
        """
        parts = (shares.ravel(), *self.left(shares))
        if min(float(part.min()) for part in parts) <= 0.0:
            return -np.inf
        return float(sum(np.log(part).sum() for part in parts))

    def newton(self, shares: Floats) -> tuple[Floats, float]:
        """Return the step of Newton's method from ``shares``, and its expected gain.

        The matrix of second derivatives is a diagonal matrix plus terms of rank 1: one for each
        job, and one for each flavor. So the formulas of Sherman and Morrison, and of Woodbury,
        invert the matrix.
        """
        lacks, above, idle = self.left(shares)
        slope = 1.0 / shares + (1.0 / above - 1.0 / lacks)[:, None] - self.scales[:, None] / idle
        square = shares * shares
        bent = 1.0 / lacks**2 + 1.0 / above**2
        damped = bent / (1.0 + bent * square.sum(axis=1))

        uphill = square * slope
        uphill -= square * (damped * uphill.sum(axis=1))[:, None]
        weighed = square * self.scales[:, None]
        among = -(weighed.T @ (damped[:, None] * weighed))
        among[np.diag_indices_from(among)] += self.scales @ weighed + idle * idle
        prices = np.linalg.solve(among, self.scales @ uphill)
        paid = weighed * prices
        paid -= square * (damped * paid.sum(axis=1))[:, None]

        step = uphill - paid
        return step, float((slope * step).sum())

    def length(self, shares: Floats, step: Floats, gain: float) -> float:
        """Return which part of ``step`` keeps shares within the limits and raises the product."""
        before = self.product(shares)
        taken = min(1.0, LONGEST * self._farthest(shares, step))
        for _ in range(_HALVINGS):
            if self.product(shares + taken * step) >= before + 0.1 * taken * gain:
                return taken
            taken /= 2.0
        raise AssertionError("a step of Newton's method does not raise a concave function")

    def _farthest(self, shares: Floats, step: Floats) -> float:
        had, used = step.sum(axis=1), self.scales @ step
        lacks, above, idle = self.left(shares)
        left = np.concatenate((shares.ravel(), lacks, above, idle))
        falls = np.concatenate((-step.ravel(), had, -had, used))
        is_met = falls > 0.0
        return float((left[is_met] / falls[is_met]).min()) if is_met.any() else np.inf
