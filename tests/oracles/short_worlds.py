"""The worlds of short histories: small fleets with tight money and quotas, by theme.

A world is drawn from a seeded generator. Its numbers are few and small, so that limits meet: nodes
of one size, envelopes that pay for half of the fleet, windows that open and close on the hour at
which runs end.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

from msgspec.structs import replace

from quorate.model.amounts import HOUR_MS, MINUTE_MS, PPM
from quorate.model.specs import (
    Budget,
    Cap,
    Discipline,
    Envelope,
    Lending,
    Node,
    Owner,
    Placement,
    Pool,
    Quota,
    Sharing,
)
from quorate.testing.builders import ANYWHERE, NOW_MS, budget, envelope, lending, node
from tests.oracles.brief_values import brief
from tests.oracles.checked_lives import CheckedLife

STEP_MS: Final = 10 * MINUTE_MS
"""The unit of time: runs, windows and rounds last whole steps, so that many instants are equal."""
TEAMS: Final = ("ant", "bee", "cat")
FAMILY: Final = "org"
SIDE: Final = "side"
"""The name of the second pool, of the nodes in domain B."""


class Theme(StrEnum):
    """The subject that a history has more of than other histories."""

    CONFLICT = "conflict"
    CLAIMS = "claims"
    POOLS = "pools"
    ARRAYS = "arrays"
    MALLEABLE = "malleable"
    ROUNDS = "rounds"
    MIX = "mix"


@dataclass(frozen=True, slots=True)
class World:
    """The pools, nodes, owners and budgets that are declared before the first command."""

    pools: tuple[Pool, ...]
    nodes: tuple[Node, ...]
    owners: tuple[Owner, ...]
    budgets: tuple[Budget, ...]

    def life(self) -> CheckedLife:
        """Return a new ledger of this world."""
        return CheckedLife(
            nodes=self.nodes, budgets=self.budgets, owners=self.owners, pools=self.pools
        )

    def lines(self) -> list[str]:
        """Return a line for each declared object."""
        return [brief(spec) for spec in (*self.pools, *self.nodes, *self.owners, *self.budgets)]


def draw_world(chance: Random, theme: Theme) -> World:
    """Return a world of ``theme``."""
    is_mix = theme is Theme.MIX
    has_conflicts = theme is Theme.CONFLICT or (is_mix and chance.random() < 0.5)
    has_rounds = theme is Theme.ROUNDS or (is_mix and chance.random() < 0.3)
    with_side = (Theme.POOLS, Theme.MALLEABLE, Theme.MIX)
    has_side = has_rounds or theme in with_side or chance.random() < 0.2
    has_quotas = theme in (Theme.POOLS, Theme.CLAIMS) or chance.random() < 0.3
    has_racks = chance.random() < 0.15
    pool = _pool(chance, theme, has_conflicts=has_conflicts)
    pools = [pool]
    if has_rounds:
        pools.append(_rounds(chance))
    elif has_side:
        pools.append(_side(chance, pool))
    return World(
        tuple(pools),
        tuple(_nodes(chance, has_side=has_side, has_racks=has_racks)),
        tuple(_owners(chance, has_quotas=has_quotas, has_conflicts=has_conflicts)),
        tuple(_budgets(chance, theme, has_racks=has_racks)),
    )


def _pool(chance: Random, theme: Theme, *, has_conflicts: bool) -> Pool:
    rates = (10_000, PPM, PPM) if has_conflicts else (0, 0, 0, 10_000)
    return Pool(
        name="default",
        firm_horizon_ms=chance.choice((1, 2, 6, 6, 100)) * HOUR_MS,
        notice_ms=chance.choice((1, 5, 10, 15)) * MINUTE_MS,
        runtime_min_ms=chance.choice((None, 0, MINUTE_MS, STEP_MS)),
        cool_down_ms=chance.choice((None, 0, STEP_MS)),
        disruption_rate_ppm=chance.choice(rates),
        reservation_depth=chance.choice((1, 2, 3, 20, 20)),
        grace_max_ms=chance.choice((1, 5, 10)) * MINUTE_MS,
        collateral_max=chance.choice((1, 4)),
        whole_nodes=chance.random() < (0.4 if theme is Theme.CLAIMS else 0.15),
        placement=chance.choice(tuple(Placement)),
    )


def _side(chance: Random, pool: Pool) -> Pool:
    """Return a second pool that binds runs to nodes, with other promises than ``pool``."""
    return replace(
        pool,
        name=SIDE,
        selector=(("fabric.domain", "B"),),
        firm_horizon_ms=chance.choice((0, 1, 3, 6, 1_000)) * HOUR_MS,
        reservation_depth=chance.choice((1, 2, 5, 20)),
        whole_nodes=chance.random() < 0.3,
        disruption_rate_ppm=chance.choice((0, pool.disruption_rate_ppm)),
        notice_ms=chance.choice((1, 10)) * MINUTE_MS,
    )


def _rounds(chance: Random) -> Pool:
    """Return a second pool that shares in rounds."""
    return Pool(
        name=SIDE,
        selector=(("fabric.domain", "B"),),
        discipline=Discipline.ROUNDS,
        policy="p",
        round_ms=chance.choice((1, 2)) * STEP_MS,
    )


def _nodes(chance: Random, *, has_side: bool, has_racks: bool) -> list[Node]:
    gpus = chance.choice((2, 4, 8))
    domains = [*chance.choice((("A",), ("A", "C"))), *(("B",) if has_side else ())]
    return [
        node(
            f"{domain.lower()}{number}",
            gpus if chance.random() < 0.9 else chance.choice((1, 2, 4, 8)),
            domain,
            rack=chance.choice((None, "r1", "r2")) if has_racks else None,
        )
        for domain in domains
        for number in range(chance.choice((1, 2, 3)))
    ]


def _owners(chance: Random, *, has_quotas: bool, has_conflicts: bool) -> list[Owner]:
    family = Quota()
    if has_quotas:
        family = Quota(
            nodes_max=chance.choice((None, None, 2, 3)),
            concurrent_runs_max=chance.choice((None, None, 2, 3)),
        )
    owners = [Owner(name=FAMILY, quota=family)]
    for name in TEAMS:
        quota = Quota()
        if has_quotas and chance.random() < 0.5:
            quota = Quota(
                nodes_max=chance.choice((None, 1, 2, 3)),
                concurrent_runs_max=chance.choice((None, 1, 2, 3)),
            )
        if has_conflicts and chance.random() < 0.4:
            quota = replace(
                quota,
                fair_share_target_ppm=chance.choice((100_000, 300_000, 500_000)),
                burst_allowance_ppm=chance.choice((None, 1_500_000)),
            )
        if chance.random() < 0.15:
            quota = replace(quota, gpu_ms_budget=chance.choice((1, 4, 20)) * HOUR_MS)
        parents = chance.choice(((FAMILY,), (FAMILY,), ()))
        owners.append(Owner(name=name, parents=parents, quota=quota))
    return owners


def _budgets(chance: Random, theme: Theme, *, has_racks: bool) -> list[Budget]:
    with_caps = 0.5 if theme in (Theme.POOLS, Theme.CONFLICT) else 0.2
    payers = [*TEAMS, FAMILY] if chance.random() < 0.3 else list(TEAMS)
    found = []
    for owner in payers:
        lines = [
            _envelope(chance, f"e{number}", has_racks=has_racks)
            for number in range(chance.choice((1, 1, 1, 2)))
        ]
        caps = []
        if chance.random() < with_caps:
            cap = Cap(
                name="c",
                flavor="H100",
                envelopes=tuple(line.name for line in lines),
                concurrency_max=chance.choice((None, 2, 4, 8)),
                gpu_ms_max=chance.choice((None, None, 20 * HOUR_MS)),
            )
            caps.append(cap)
        found.append(budget(f"b-{owner}", owner, *lines, caps=caps))
    return found


def _envelope(chance: Random, name: str, *, has_racks: bool) -> Envelope:
    start_ms = NOW_MS - HOUR_MS
    if chance.random() < 0.15:
        start_ms = NOW_MS + chance.randrange(10) * STEP_MS
    end_ms = NOW_MS + 100 * HOUR_MS
    if chance.random() < 0.15:
        end_ms = start_ms + chance.randrange(3, 20) * STEP_MS
    lent = Lending()
    if chance.random() < 0.4:
        lent = lending(
            concurrency_max=chance.choice((None, 2, 4)),
            recall_notice_ms=chance.choice((None, MINUTE_MS, STEP_MS, 2 * STEP_MS)),
        )
    selector = ANYWHERE
    if chance.random() < 0.2:
        selector = (("fabric.domain", chance.choice("AB")),)
    elif has_racks and chance.random() < 0.4:
        selector = (("rack", chance.choice(("r1", "r2"))),)
    line = envelope(
        name,
        chance.choice((4, 8, 8, 16, 16, 48)),
        selector=selector,
        start_ms=start_ms,
        end_ms=end_ms,
        gpu_ms_max=chance.choice((4, 12, 30, 100)) * HOUR_MS if chance.random() < 0.25 else None,
        lending=lent,
    )
    return replace(
        line,
        allow_reservations=chance.random() < 0.4,
        allow_admission=chance.random() < 0.15,
        sharing=chance.choice((Sharing.FAMILY, Sharing.NONE)),
    )
