"""Strategies against an honest twin: none delays firm starts of others, and none gains.

A bounded form of ``python -m benchmarks.gaming``: few and short worlds, with the same measure.
"""

from __future__ import annotations

import re
from functools import cache

import pytest

from benchmarks.gaming import (
    PLAYER,
    STRATEGIES,
    WITH_CONFLICTS,
    WITHOUT_CONFLICTS,
    Played,
    Strategy,
    TooShort,
    play,
    row_of,
)
from quorate.model.events import MoveCode
from tests.oracles.effort import few_of

pytestmark = pytest.mark.slow

SEEDS = range(2)
HOURS = 8
GAIN_MAX = 25.0
"""The limit of a gain, in percent.

These few worlds vary by chance. docs/reference/gaming.md has the gains over many worlds.
"""
PLANNED = [each for each in STRATEGIES if not each.needs_conflicts]


BY_NAME: dict[str, type[Strategy]] = {"honest": Strategy} | {each.name: each for each in STRATEGIES}


@cache
def _played(strategy: str, seed: int) -> Played:
    return play(BY_NAME[strategy], seed, HOURS, pool=WITHOUT_CONFLICTS, checked=True)


def played(strategy: type[Strategy], seed: int) -> Played:
    """Return the outcome of the world of ``seed``, which is played once."""
    return _played(strategy.name, seed)


def of_others(found: Played) -> list[str]:
    """Return the violations in the books of promises that concern firm starts of other owners."""
    return [fault for fault in found.faults if not re.search(rf"\b{PLAYER}[\w-]*@", fault)]


@pytest.mark.parametrize("strategy", few_of([Strategy, *PLANNED], 2), ids=lambda each: each.name)
def test_no_strategy_delays_a_firm_start_of_another_owner(strategy: type[Strategy]) -> None:
    """An exception is a lease that overruns and began before the other run waited.

    The recorded cause names this lease.
    """
    for seed in SEEDS:
        found = played(strategy, seed)
        assert found.firm > 0
        assert not of_others(found), found.faults
        assert set(found.moved) <= ({MoveCode.LEASE_OVERRAN} if strategy is TooShort else set())


@pytest.mark.parametrize("strategy", few_of(PLANNED, 1), ids=lambda each: each.name)
def test_no_strategy_gains_much_over_its_honest_twin(strategy: type[Strategy]) -> None:
    pairs = [(played(Strategy, seed), played(strategy, seed)) for seed in SEEDS]
    assert row_of(strategy.name, pairs).gain < GAIN_MAX


@pytest.mark.soak
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("strategy", [Strategy, *STRATEGIES], ids=lambda each: each.name)
def test_no_strategy_delays_a_firm_start_where_conflicts_are_called(
    strategy: type[Strategy],
) -> None:
    found = play(strategy, 0, HOURS, pool=WITH_CONFLICTS, checked=True)
    assert not of_others(found), found.faults
    assert found.by_player == 0 or strategy is TooShort
