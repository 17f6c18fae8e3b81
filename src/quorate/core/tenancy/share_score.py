"""The score: how far an owner is below its share of a flavor, reduced as its budget runs out.

All numbers are whole numbers in parts of ``ONE``, so that a score is the same on every machine.
Score = m(u) * max(0, (eff - share) / eff): docs/design/tenancy.md. Pure.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

ONE: Final = 1 << 40
"""The number that represents 1: all figures in this module are in parts of this number."""
STEPS: Final = 32
"""The number of steps into which scores are cut.

In a step, the run that waited longest is first.
"""
_PI: Final = 3_454_217_652_358
"""Pi, in parts of ``ONE``."""
_FLOOR: Final = ONE // 20
"""The part of the score that an owner keeps when it has used up a budget."""
_EASY: Final = ONE * 8 // 10
"""The part of a budget that can be used without loss of score: 80 %.

Owners may burst in a flavor while less than 80 % of it is in use.
"""
_TERMS: Final = 14


class Terms(Struct, frozen=True, kw_only=True):
    """The terms of the score of one owner in one flavor, in parts of ``ONE``.

    ``used`` is the used part of the budget that is used most, and None without a budget.
    ``instant`` and ``decayed`` make up ``share``. ``effective`` is ``target``, or more if the owner
    may burst.
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
        """The step of the score; a higher step is tried sooner."""
        return self.score * STEPS // ONE

    @property
    def is_over(self) -> bool:
        """Whether a budget is used up."""
        return self.used is not None and self.used >= ONE


def penalty(used: int) -> int:
    """Return m(u), the part of the score that is left.

    The part is 1 up to 80 % of a budget, and 1/20 from 100 % on.
    """
    if used <= _EASY:
        return ONE
    if used >= ONE:
        return _FLOOR
    return _FLOOR + (ONE - _FLOOR) * (ONE + _cos_pi((used - _EASY) * 5)) // (2 * ONE)


def effective(target: int, burst: int, utilisation: int) -> int:
    """Return the effective target of a flavor: ``target``, or more while the fleet has room.

    ``burst`` is the factor by which an idle fleet raises the target.
    """
    slack = max(0, _EASY - utilisation)
    return target + target * (burst - ONE) // ONE * slack // _EASY


def score_of(kept: int, share: int, eff: int) -> int:
    """Return the score of an owner that has ``share`` of a flavor.

    The score is the fraction of ``eff`` by which ``share`` is below ``eff``, or 0 if it is not
    below. This fraction is multiplied by ``kept``, the owner's ``penalty``.
    """
    return kept * (max(0, eff - share) * ONE // eff) // ONE if eff > 0 else 0


def _cos_pi(turn: int) -> int:
    """Return the cosine of pi times ``turn``, which is from 0 to 1."""
    if turn > ONE // 2:
        return -_cos_pi(ONE - turn)
    angle = turn * _PI // ONE
    square = angle * angle // ONE
    term = total = ONE
    for n in range(1, _TERMS):
        term = -term * square // ONE // ((2 * n - 1) * 2 * n)
        total += term
    return total
