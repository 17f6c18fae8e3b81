"""Draws commands about sensitive claims: submissions, releases, changes of the claims' limit.

Some claims cannot be granted. Some reports that a node was wiped name the wrong node or the wrong
claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from msgspec.structs import replace

from quorate.core.commands import Apply, Cancel, Command, Complete, Release, Submit, Wiped
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.specs import Funding, Node, OnQuota, Run, System
from quorate.sim.demand import TEAMS, Size, Wish, one_in

_WISHES_PER_CLAIM: Final = 5
_USERS: Final = ("ada", "bob")


def draw_claim_wishes(
    chance: Random, size: Size, start_ms: int, until_ms: int, nodes: Sequence[Node]
) -> tuple[Wish, ...]:
    """Return claims and commands about them; half of the claims come early, when nodes are free."""
    found = []
    for number in range(size.wishes // _WISHES_PER_CLAIM):
        end_ms = until_ms if one_in(chance, 2) else start_ms + HOUR_MS
        at_ms = chance.randrange(start_ms, end_ms)
        run = _claim(chance, number, chance.choice(nodes))
        found.append(Wish(at_ms, Apply((run,)) if one_in(chance, 3) else Submit(run)))
        later_ms = at_ms + chance.randrange(3 * HOUR_MS)
        found.append(Wish(later_ms, _about(chance, run.name, chance.choice(nodes).name)))
    return tuple(found)


def _claim(chance: Random, number: int, like: Node) -> Run:
    """Return a claim of one to three nodes like ``like``, or a claim that cannot be met."""
    run = Run(
        name=f"claim{number:03d}",
        owner=chance.choice((*TEAMS, "org")),
        flavors=(like.flavor,),
        gpus=like.gpus * chance.choice((1, 1, 1, 2, 3)),
        user=chance.choice(_USERS),
        pool=chance.choice(("default", "default", "side")),
        cross_group_spread=not one_in(chance, 4),
        expected_duration_ms=chance.choice((20, 60, 300)) * MINUTE_MS + chance.randrange(MINUTE_MS),
        checkpoint_ms=chance.choice((0, MINUTE_MS, 5 * MINUTE_MS)),
        sensitive=True,
    )
    odd = (
        replace(run, user=""),
        replace(run, gpus=run.gpus + 1),
        replace(run, on_quota=OnQuota.WAIT),
        replace(run, funding=Funding(allow_borrow=True)),
        replace(run, expected_duration_ms=None),
    )
    return chance.choice(odd) if one_in(chance, 8) else run


def _about(chance: Random, claim: str, node: str) -> Command:
    other = f"claim{chance.randrange(10):03d}"
    choices: tuple[Command, ...] = (
        Release(claim, "done early"),
        Release(claim, "done early"),
        Cancel(claim, "a mistake"),
        Complete(claim),
        Wiped(node, is_clean=True, claim=other),
        Apply(
            (System(budget_period_days=90, sensitive_pool_size=chance.choice((None, 0, 0, 1, 2))),)
        ),
    )
    return chance.choice(choices)
