"""Properties of the published mechanism that depend on a policy's name, or on random numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from quorate.policy.rounds.round_book import STRICT, Rules

FLAVORS_FIRST: Final = ("v100", "p100", "k80")
"""The flavors that the published mechanism knows, in the order in which they choose jobs. Other
flavors get no work in the published mechanism; in Quorate they choose last, ordered by name."""
ORDER_SEED: Final = 5
"""This number plus a simulation's seed is the seed for the random order of flavors."""


def has_pairs(policy: str) -> bool:
    """Return whether jobs share GPUs under ``policy``."""
    return "packed" in policy or policy == "gandiva"


def is_aware(policy: str) -> bool:
    """Return whether ``policy`` distinguishes flavors; if so, flavors choose in a fixed order."""
    return has_pairs(policy) or "perf" in policy or policy.startswith("allox")


def strict_rules(policy: str, round_s: float, reset_gap_s: float) -> Rules:
    """Return the published rules of ``policy``; under ``fifo``, left-over GPUs stay unused."""
    fills = not policy.startswith("fifo")
    return replace(STRICT, round_s=round_s, reset_gap_s=reset_gap_s, serves_without_share=fills)


def strict_orders(policy: str, flavors: Sequence[str], seed: int) -> Iterator[tuple[str, ...]]:
    """Yield the order of ``flavors`` in each round, without end; ``seed`` is the simulation's."""
    known = [flavor for flavor in FLAVORS_FIRST if flavor in flavors]
    order = known + sorted(set(flavors) - set(known))
    chance = Random(seed + ORDER_SEED)
    while True:
        drawn = list(order)
        if not is_aware(policy):
            chance.shuffle(drawn)
        yield tuple(drawn)
