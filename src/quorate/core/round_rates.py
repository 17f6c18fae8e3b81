"""Rates: how fast a run of a rounds pool is on each flavor, and what of that was measured.

Rates are millionths of a step per second of the whole run. What was measured takes the place of
what was declared, flavor by flavor: nobody is believed longer than one round. A run that names its
job type has the rates that its pool knows of the type. Where nothing is known of a flavor, it is as
good as any other until it was tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quorate.model.amounts import PPM
from quorate.model.records import RoundsRun
from quorate.model.specs import Run

UNKNOWN_RATE: Final = PPM
"""One step per second: what a flavor is taken for as long as nobody knows better."""


def declared_rate(run: Run, flavor: str) -> int | None:
    """Return what ``run`` declares for ``flavor``, at least 0; None where it says nothing of it."""
    work = run.rounds
    assert work is not None, run
    for name, rate in work.throughputs:
        if name == flavor:
            return round(rate * PPM)
    return None


def rates_of(run: Run, known: RoundsRun, flavors: Sequence[str]) -> tuple[tuple[int, ...], int]:
    """Return the rates of ``run`` on ``flavors``, and which were measured, as bits.

    A flavor that it does not ask for has none.
    """
    found: list[int] = []
    measured = 0
    for place, flavor in enumerate(flavors):
        if flavor not in run.flavors:
            found.append(0)
            continue
        rate = known.rates.get(flavor)
        if rate is not None:
            measured |= 1 << place
        else:
            said = declared_rate(run, flavor)
            rate = UNKNOWN_RATE if said is None else said
        found.append(rate)
    return tuple(found), measured
