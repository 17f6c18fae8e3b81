"""Rates: how fast a run of a rounds pool is on each flavor, and which rates were measured.

Rates are millionths of a step per second of the whole run. A measured rate replaces the declared
one, flavor by flavor: a false declaration of a run that reports its steps lasts one round at most.
A run that never reports steps keeps its declared rates; it has its part of its owner's share by
them, and misstating them only takes GPUs from it that would serve it better
(tests/unit/loop/test_round_gaming.py). A run that names its job type has the rates of that type in
its pool's table: those on several nodes, if its last GPUs were on several nodes and the table
has them. If nothing is known of a flavor, it counts as equal to any other until it was tried.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from quorate.model.amounts import PPM
from quorate.model.specs import Pool, Run, TypeRates
from quorate.model.state.records import RoundsRun

UNKNOWN_RATE: Final = PPM
"""One step per second: the rate of a flavor as long as none is known."""


SPREAD_SUFFIX: Final = "_unconsolidated"
"""The suffix of a flavor's name under which a table has rates on GPUs of several nodes."""


def known_types(pool: Pool, flavor: str) -> tuple[TypeRates, ...]:
    """Return the rates of job types that ``pool`` has for ``flavor``, sorted by type and GPUs."""
    return next((each.types for each in pool.throughputs if each.flavor == flavor), ())


def type_rates(pool: Pool, flavor: str, job_type: str, gpus: int) -> TypeRates | None:
    """Return the rates that ``pool`` has for a type of job on ``flavor``; None if it has none."""
    types = known_types(pool, flavor)
    at = bisect_left(types, (job_type, gpus), key=lambda each: (each.job_type, each.gpus))
    found = types[at] if at < len(types) else None
    if found is None or (found.job_type, found.gpus) != (job_type, gpus):
        return None
    return found


def paired_rates(pool: Pool, flavor: str, gpus: int, types: tuple[str, str]) -> tuple[int, int]:
    """Return how fast two types of equal width are on the same GPUs, 0 if they cannot share."""
    one, other = sorted(types)
    known = type_rates(pool, flavor, one, gpus)
    for name, *rates in () if known is None else known.beside:
        if name == other:
            return (rates[0], rates[1]) if types == (one, other) else (rates[1], rates[0])
    return 0, 0


def declared_rate(run: Run, pool: Pool, flavor: str, *, is_spread: bool = False) -> int | None:
    """Return the declared rate of ``run`` on ``flavor``, its own or from the pool's table.

    At least 0; None if there is none. ``is_spread``: its GPUs are on several nodes.
    """
    work = run.rounds
    assert work is not None, run
    if work.job_type is not None:
        rates = None
        if is_spread:
            rates = type_rates(pool, f"{flavor}{SPREAD_SUFFIX}", work.job_type, run.gpus)
        rates = rates or type_rates(pool, flavor, work.job_type, run.gpus)
        return None if rates is None else rates.alone
    for name, rate in work.throughputs:
        if name == flavor:
            return round(rate * PPM)
    return None


def rates_of(
    run: Run, known: RoundsRun, pool: Pool, flavors: Sequence[str]
) -> tuple[tuple[int, ...], int]:
    """Return the rates of ``run`` in ``pool`` on ``flavors``, and which were measured, as bits.

    A flavor that the run does not ask for has no rate.
    """
    rates: list[int] = []
    measured, bit = 0, 1
    asked, known_rates, nodes = run.flavors, known.rates, known.nodes
    is_spread = len(nodes) > 1 and len(set(nodes)) > 1
    work = run.rounds
    assert work is not None, run
    own = dict(reversed(work.throughputs)) if work.job_type is None else None
    for flavor in flavors:
        rate = known_rates.get(flavor)
        if flavor not in asked:
            rate = 0
        elif rate is not None:
            measured |= bit
        elif own is not None:  # As ``declared_rate``, which a pool would call for every flavor.
            rate = round(own[flavor] * PPM) if flavor in own else UNKNOWN_RATE
        else:
            rate = declared_rate(run, pool, flavor, is_spread=is_spread)
            if rate is None:
                rate = UNKNOWN_RATE
        rates.append(rate)
        bit <<= 1
    return tuple(rates), measured
