"""The rates of a run on each flavor in a pool of discipline ``rounds``.

A rate is in millionths of a step per second, for the whole run. A measured rate replaces the
declared rate of its flavor. So if a run reports its steps, a falsely declared rate has an effect
for one round at most. If a run never reports steps, its declared rates are used. Rates only decide
which GPUs the run gets within its owner's share. So false rates only give the run GPUs that are
worse for it (tests/unit/loop/test_round_gaming.py).

If a run names its job type, its declared rates are those of this type in the pool's table. The
table may have other rates for GPUs on several nodes. These are used if the run's last GPUs were on
several nodes. If no rate is known for a flavor, a fixed rate is used until the run has tried the
flavor.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from quorate.model.amounts import PPM
from quorate.model.job_types import SPREAD_SUFFIX
from quorate.model.specs import Pool, Run, TypeRates
from quorate.model.state.records import RoundsRun

UNKNOWN_RATE: Final = PPM
"""The rate that is used for a flavor as long as no rate is known: one step per second."""


def known_types(pool: Pool, flavor: str) -> tuple[TypeRates, ...]:
    """Return the rates of all job types on ``flavor`` in the table of ``pool``, sorted by type."""
    return next((each.types for each in pool.throughputs if each.flavor == flavor), ())


def type_rates(pool: Pool, flavor: str, job_type: str, gpus: int) -> TypeRates | None:
    """Return the rates of a job type on ``flavor`` in the table of ``pool``; None without rates."""
    types = known_types(pool, flavor)
    at = bisect_left(types, (job_type, gpus), key=lambda each: (each.job_type, each.gpus))
    found = types[at] if at < len(types) else None
    if found is None or (found.job_type, found.gpus) != (job_type, gpus):
        return None
    return found


def paired_rates(pool: Pool, flavor: str, gpus: int, types: tuple[str, str]) -> tuple[int, int]:
    """Return the rates of two job types of equal width that share GPUs; both 0 if not known."""
    one, other = sorted(types)
    known = type_rates(pool, flavor, one, gpus)
    for name, *rates in () if known is None else known.beside:
        if name == other:
            return (rates[0], rates[1]) if types == (one, other) else (rates[1], rates[0])
    return 0, 0


def declared_rate(run: Run, pool: Pool, flavor: str, *, is_spread: bool = False) -> int | None:
    """Return the declared rate of ``run`` on ``flavor``: from its document, or the pool's table.

    Return None if there is no such rate. If ``is_spread`` is true, the rate is for GPUs on several
    nodes.
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
    """Return the rates of ``run`` in ``pool`` on ``flavors``, and which of them were measured.

    The second result has a bit for each flavor, which is 1 if the rate was measured. The rate of a
    flavor that the run does not ask for is 0.
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
        elif own is not None:  # ``declared_rate`` would return the same rate, but slower.
            rate = round(own[flavor] * PPM) if flavor in own else UNKNOWN_RATE
        else:
            rate = declared_rate(run, pool, flavor, is_spread=is_spread)
            if rate is None:
                rate = UNKNOWN_RATE
        rates.append(rate)
        bit <<= 1
    return tuple(rates), measured
