"""Computes rough prices, and rough choices with one flavor per job, to start exact methods.

For a few rounds, each row takes its cheapest flavor, and then prices follow the demand for each
flavor. If the price method starts from these prices, it needs half the passes. The simplex method
starts from the basis in which one flavor is full and so determines the level of all jobs. This
basis meets all constraints, and from it the method needs a third of the steps that it needs from an
empty basis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from quorate.policy.problem import Bools, Floats, Ints
from quorate.policy.solvers.levels import Demand

ROUNDS: Final = 8
"""The number of rounds in which prices follow the demand. More rounds gain little."""
FOLLOWING: Final = 0.5
SETTLING: Final = FOLLOWING / 3
"""The exponents that determine how much excess demand raises a price: in the first rounds, and
later."""
LEAST: Final = 0.1
"""The demand for a flavor is taken to be at least this part of the largest demand."""
SAMPLE: Final = 512
"""The number of rows that is enough to estimate prices."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rough:
    """A price per GPU of each flavor, the flavors that rows chose, and the fullest flavor.

    ``full`` is the demand for the fullest flavor, relative to its GPUs.
    """

    prices: Floats
    flavor: Ints
    fullest: int
    full: float


def rough(demand: Demand, need: Floats, rounds: int = ROUNDS) -> Rough:
    """Return rough prices, and a flavor for each row, if each row needs the rate ``need``.

    The flavors are those of the best round: the round in which the fullest flavor is least full. No
    row chooses a flavor that has no GPUs, or on which the row makes no progress. For each row there
    must be a flavor that it can choose.
    """
    usable: Bools = (demand.rates > 0) & (demand.gpus > 0)
    time = np.where(usable, need[:, None] / np.where(usable, demand.rates, 1.0), np.inf)
    gpus = np.maximum(demand.gpus, 1)
    asked = np.where(usable, time * demand.loads[:, None], 0.0).reshape(-1)
    starts = np.arange(len(time)) * len(gpus)
    prices = np.ones(len(gpus))
    best, fullest, least = np.zeros(len(time), dtype=np.int64), 0, np.inf
    for number in range(rounds):
        flavor = (time * prices).argmin(axis=1)
        full = np.bincount(flavor, asked.take(starts + flavor), len(gpus)) / gpus
        most = float(full.max())
        if most < least:
            best, fullest, least = flavor, int(full.argmax()), most
        if most > 0:
            exponent = FOLLOWING if number < rounds // 2 else SETTLING
            prices *= np.maximum(full / most, LEAST) ** exponent
    return Rough(prices=prices, flavor=best, fullest=fullest, full=least)


def rough_by_some(demand: Demand, need: Floats) -> Rough:
    """Return rough prices from a sample of the rows."""
    some = slice(None, None, max(1, len(need) // SAMPLE))
    loads = demand.loads[some]
    loads = loads * (demand.loads.sum() / loads.sum())
    return rough(Demand(rates=demand.rates[some], loads=loads, gpus=demand.gpus), need[some])
