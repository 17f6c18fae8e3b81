"""Draws commands about tenants: new tenants, changed limits, limits below the usage, removals.

Some commands name an outdated version, and some try to remove a tenant in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from quorate.core.commands import Command, CreateOwner, RemoveOwner, UpdateOwner
from quorate.model.amounts import HOUR_MS
from quorate.model.specs import Owner, Quota
from quorate.sim.demand import TEAMS, Arrival, Size, Wish, one_in

_COMING: Final = ("newt", "owl", "guest")
"""Owners that are created and removed; only the guest has runs."""
_LONG_AGO: Final = 1
"""A version that no owner ever has: the sequence number of the ledger's first event."""
_WISHES_PER_TENANT_WISH: Final = 6


def draw_soft_quota(chance: Random) -> Quota:
    """Return soft quotas of a team: small targets that runs exceed, and budgets that run out."""
    if one_in(chance, 3):
        return Quota()
    return Quota(
        fair_share_target_ppm=chance.choice((None, 20_000, 100_000, 600_000, 800_000)),
        burst_allowance_ppm=chance.choice((None, 1_500_000, 3_000_000)),
        gpu_ms_budget=chance.choice((None, None, 10 * HOUR_MS, 60 * HOUR_MS)),
        node_ms_budget=chance.choice((None, None, None, 20 * HOUR_MS)),
    )


def draw_tenant_wishes(
    chance: Random, size: Size, until_ms: int, arrivals: Sequence[Arrival]
) -> tuple[Wish, ...]:
    """Return commands about tenants, mostly while runs are active."""
    found = []
    for _ in range(size.wishes // _WISHES_PER_TENANT_WISH):
        arrival = chance.choice(arrivals)
        at_ms = min(until_ms, arrival.at_ms + chance.randrange(HOUR_MS))
        found.append(Wish(at_ms, _wish(chance, arrival.run.owner)))
    return tuple(found)


def _wish(chance: Random, owner: str) -> Command:
    """Return a command about a tenant, often about ``owner``, who owns a run."""
    if one_in(chance, 4):
        return CreateOwner(_new(chance), "a new group")
    version = _LONG_AGO if one_in(chance, 6) else None
    if one_in(chance, 3):
        name = chance.choice((*_COMING, *_COMING, owner, "org", "lab"))
        return RemoveOwner(name, version, "no longer needed")
    return UpdateOwner(
        chance.choice((owner, owner, *TEAMS, "org", "newt")),
        _limits(chance),
        chance.choice((None, None, None, (), ("org",), ("nobody",))),
        version,
        "other limits",
    )


def _new(chance: Random) -> Owner:
    return Owner(
        name=chance.choice((*_COMING, "ant")),
        parents=chance.choice(((), ("org",), ("lab", "org"), ("newt",))),
        quota=Quota(
            nodes_max=chance.choice((None, 2)),
            fair_share_target_ppm=chance.choice((None, 400_000)),
        ),
    )


def _limits(chance: Random) -> tuple[tuple[str, int | None], ...]:
    """Return new values for one or two limits: a number, 0, or None for no limit."""
    choices: tuple[tuple[str, int | None], ...] = (
        ("nodes_max", chance.choice((None, None, 0, 1, 2, 3, 5))),
        ("concurrent_runs_max", chance.choice((None, None, 0, 1, 2, 4))),
        ("fair_share_target_ppm", chance.choice((None, 100_000, 600_000))),
        ("gpu_ms_budget", chance.choice((None, 0, 8 * HOUR_MS))),
    )
    return tuple(chance.sample(choices, k=chance.randrange(1, 3)))
