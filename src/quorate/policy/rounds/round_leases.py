"""Leases of rounds: the steps and seconds that a job may run before it must ask again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLease:
    """The limits of a job's time on its GPUs: steps and seconds, whichever ends first."""

    steps: int
    seconds: float


def granted(steps_left: int, left_s: float) -> RoundLease:
    """Return the lease of a job that starts with ``left_s`` seconds of the round left."""
    return RoundLease(steps=steps_left, seconds=max(left_s, 0.0))


def extended(lease: RoundLease, steps_left: int, round_s: float) -> RoundLease:
    """Return ``lease`` extended by a round, for a job that keeps its GPUs.

    ``steps_left`` is the number of steps left when the lease was granted or now, whichever is less,
    so that a lease never has more steps than the job.
    """
    return RoundLease(steps=min(lease.steps, steps_left), seconds=lease.seconds + round_s)


def steps_in(rate: float, seconds: float, steps_left: float) -> float:
    """Return how many whole steps a job does at ``rate`` in ``seconds``, at most ``steps_left``."""
    return min(int(rate * seconds), steps_left)
