"""Leases of rounds: how many steps and seconds a job may run before it has to ask again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLease:
    """The limits of a job on its GPUs: steps and seconds, whichever ends first."""

    steps: int
    seconds: float


def granted(steps_left: int, left_s: float) -> RoundLease:
    """Return the lease of a job that starts with ``left_s`` of the round to go."""
    return RoundLease(steps=steps_left, seconds=max(left_s, 0.0))


def extended(lease: RoundLease, steps_left: int, round_s: float) -> RoundLease:
    """Return ``lease`` with another round, for a job that has the same GPUs in the next one.

    ``steps_left`` are those that were left when the lease was granted, or are left now, whichever
    is fewer: a lease never lets a job pass its end.
    """
    return RoundLease(steps=min(lease.steps, steps_left), seconds=lease.seconds + round_s)


def steps_in(rate: float, seconds: float, steps_left: float) -> float:
    """Return how many whole steps a job does at ``rate`` in ``seconds``, at most those left."""
    return min(int(rate * seconds), steps_left)
