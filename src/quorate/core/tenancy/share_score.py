"""The score: how far an owner is below its target share, reduced as its budget runs out.

Score = m(u) * max(0, (eff - share) / eff); docs/design/tenancy.md explains the formula. All numbers
are whole numbers in parts of ``ONE``, so that a score is the same on every machine. The functions
are pure.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

ONE: Final = 1 << 40
"""The number that represents 1: all numbers in this module are in parts of it."""
STEPS: Final = 32
"""The number of steps into which scores are divided.

Within a step, the run that has waited longest comes first.
"""
_PI: Final = 3_454_217_652_358
"""Pi, in parts of ``ONE``."""
_FLOOR: Final = ONE // 20
"""The factor by which a score is multiplied when the owner has used up a budget."""
_EASY: Final = ONE * 8 // 10
"""The part of a budget that an owner can use without a lower score: 80 %.

The same part limits burst: owners may burst in a flavor while less than 80 % of its GPUs are in
use.
"""
_TERMS: Final = 14


class Terms(Struct, frozen=True, kw_only=True):
    """The terms of the score of one owner in one flavor, in parts of ``ONE``.

    ``used`` is the used part of the owner's budget, or the largest part if there are several
    budgets; it is None without a budget. ``share`` is the weighted mean of ``instant``, the present
    use, and ``decayed``, the past use. ``effective`` is ``target``, or more if the owner may burst.
    ``utilisation`` is the part of the flavor's GPUs that are in use.
    """

    used: int | None
    penalty: int
    instant: int
    decayed: int
    share: int
    target: int
    utilisation: int
    effective: int
    score: int

    @property
    def step(self) -> int:
        """The step of the score; runs of owners with a higher step are tried sooner."""
        return self.score * STEPS // ONE

    @property
    def is_over(self) -> bool:
        """Whether a budget is used up."""
        return self.used is not None and self.used >= ONE


def penalty(used: int) -> int:
    """Return m(u), the factor by which use of a budget reduces the score.

    The factor is 1 while at most 80 % of the budget is used, and 1/20 when all of it is used.
    """
    if used <= _EASY:
        return ONE
    if used >= ONE:
        return _FLOOR
    return _FLOOR + (ONE - _FLOOR) * (ONE + _cos_pi((used - _EASY) * 5)) // (2 * ONE)


def effective(target: int, burst: int, utilisation: int) -> int:
    """Return the effective target of a flavor: ``target``, or more while the fleet has room.

    ``burst`` is the factor by which the target is raised while no GPU is in use.
    """
    slack = max(0, _EASY - utilisation)
    return target + target * (burst - ONE) // ONE * slack // _EASY


def score_of(kept: int, share: int, eff: int) -> int:
    """Return the score of an owner that has ``share`` of a flavor.

    The fraction of ``eff`` by which ``share`` is below ``eff`` is multiplied by ``kept``, the
    owner's ``penalty``. The score is 0 if ``share`` is not below ``eff``.
    """
    return kept * (max(0, eff - share) * ONE // eff) // ONE if eff > 0 else 0


def _cos_pi(turn: int) -> int:
    """Return the cosine of pi times ``turn``; ``turn`` must be from 0 to ``ONE``."""
    if turn > ONE // 2:
        return -_cos_pi(ONE - turn)
    angle = turn * _PI // ONE
    square = angle * angle // ONE
    term = total = ONE
    for n in range(1, _TERMS):
        term = -term * square // ONE // ((2 * n - 1) * 2 * n)
        total += term
    return total
