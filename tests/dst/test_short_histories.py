"""Short histories of small worlds, in which almost every decision meets a limit.

``make test`` always plays the same few seeds of every theme, and ``make soak`` thousands of new
seeds. ``QUORATE_SHORT=pools:17`` (or ``pools:3,8,100-120``) plays the named seeds instead. A
failure prints the world, the commands that are needed to fail, and the command line that repeats
the history.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from random import SystemRandom
from typing import Final

import pytest

from tests.oracles.effort import IS_SOAK, seeds_of, sized
from tests.oracles.short_histories import play
from tests.oracles.short_worlds import Theme

_CHOSEN: Final = os.environ.get("QUORATE_SHORT", "")
_COUNT: Final = sized(12, 2_000)
"""How many histories of each theme are played."""
_FIRST_MAX: Final = 10**9
_EXPECTED: Final = {
    Theme.CONFLICT: {"ConflictDeclared", "ConflictResolved"},
    Theme.CLAIMS: {"NodesClaimed"},
    Theme.POOLS: {"ReservationMoved", "PoolApplied"},
    Theme.ARRAYS: {"RunRequeued"},
    Theme.MALLEABLE: {"RunResized"},
    Theme.ROUNDS: {"RoundShared", "HoldExtended"},
    Theme.MIX: {"NodeMarked", "BudgetApplied", "ReservationClosed"},
}
"""Events without which the histories of a theme do not test it."""


@pytest.mark.slow
@pytest.mark.parametrize("theme", [Theme(_CHOSEN.partition(":")[0])] if _CHOSEN else list(Theme))
def test_the_core_keeps_every_rule_in_short_histories_of(theme: Theme) -> None:
    happened: Counter[str] = Counter()
    for seed in _seeds():
        found = play(theme, seed)
        assert not found.failure, found.failure
        happened += found.happened
    if not _CHOSEN:
        assert happened.keys() >= _EXPECTED[theme], _EXPECTED[theme] - happened.keys()


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("theme", "seed"),
    [
        # A grant of a round took the hard quota of a firm start in another pool.
        (Theme.ROUNDS, 51_101),
        (Theme.ROUNDS, 51_129),
        # A run that needs certain racks was refused before the nodes of a started run were known.
        (Theme.MALLEABLE, 50_123),
        # A start became firm for the instant of the decision, and was not tried as one that is due.
        (Theme.MALLEABLE, 3_132),
        # A start became firm after the tentative start of an earlier run of another pool.
        (Theme.MALLEABLE, 54_136),
    ],
)
def test_a_history_that_found_a_fault_passes(theme: Theme, seed: int) -> None:
    found = play(theme, seed)
    assert not found.failure, found.failure


@pytest.mark.heavy
def test_a_seed_of_a_theme_is_one_history() -> None:
    assert play(Theme.MIX, 1) == play(Theme.MIX, 1)


def _seeds() -> Iterable[int]:
    """Return the seeds to play: the chosen seeds, or new ones in a soak, or else the first ones."""
    if _CHOSEN:
        return seeds_of(_CHOSEN.partition(":")[2])
    first = SystemRandom().randrange(_FIRST_MAX) if IS_SOAK else 0
    return range(first, first + _COUNT)
