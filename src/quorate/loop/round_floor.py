"""The floor of a round: what there is to share in a pool, and among whom. Whole numbers only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quorate.core.follow import waits_for_upstream
from quorate.core.round_checks import pool_flavors
from quorate.core.round_rates import rates_of
from quorate.loop.round_funds import Funds
from quorate.model.apply_rounds import received_ms
from quorate.model.records import RoundsRun, RunRecord
from quorate.model.specs import Pool
from quorate.model.view import StateView


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A run that takes part in the next round, with its rates and what it has received so far.

    ``rates`` are millionths of a step per second by flavor, 0 where nobody pays for it.
    """

    record: RunRecord
    known: RoundsRun
    rates: tuple[int, ...]
    measured: int
    received_ms: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """A pool at the end of a round: what there is to share, and among whom."""

    pool: Pool
    number: int
    flavors: tuple[str, ...]
    gpus: tuple[int, ...]
    members: tuple[Member, ...]


def floor_of(view: StateView, pool: str, funds: Funds, now_ms: int) -> Floor:
    """Return what there is to share in ``pool`` at ``now_ms``, and among whom."""
    there = dict(sorted(pool_flavors(view, pool).items()))
    flavors = tuple(there)
    members = []
    for name, known in view.in_rounds.items():
        record = view.runs[name]
        if known.pool != pool or record.stopping is not None:
            continue
        if waits_for_upstream(view, record.spec) is not None:
            continue
        rates, measured = rates_of(record.spec, known, view.pools[pool], flavors)
        width, carried = record.spec.gpus, funds.gpus(record.spec)
        paid = tuple([r if carried[f] >= width else 0 for r, f in zip(rates, flavors, strict=True)])
        members.append(
            Member(
                record=record,
                known=known,
                rates=paid,
                measured=measured,
                received_ms=received_ms(view, name, now_ms),
            )
        )
    before = view.rounds.get(pool)
    return Floor(
        pool=view.pools[pool],
        number=1 if before is None else before.shared.number + 1,
        flavors=flavors,
        gpus=tuple(there.values()),
        members=tuple(members),
    )
