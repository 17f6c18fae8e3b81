"""Whole-system simulation with a pool that shares in rounds, beside one that binds.

Nodes are lost, the program ends inside commits, stops hang, budgets are tightened, clocks jump; the
engine, the ledger and every invariant are those of production. The seeds are always the same.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Final

import pytest

from quorate.model.refusal import RefusalCode
from quorate.policy.table import POLICIES as PUBLISHED
from quorate.sim.demand import Size
from quorate.testing.inspection import Happened, inspect_rounds
from tests.oracles.rounds import PAIRING, POLICIES

_SIZE: Final = Size(hours=8, runs=40, wishes=30)
_SEEDS: Final = range(4) if os.environ.get("HYPOTHESIS_PROFILE") == "quick" else range(9)
_EXPECTED: Final = {
    Happened("event", "round-shared/1"),
    Happened("event", "steps-counted/1"),
    Happened("event", "hold-extended/1"),
    Happened("start", "Start"),
    Happened("end", "RoundEnd"),
    Happened("end", "Fail"),
    Happened("end", "Cancelled"),
    Happened("refusal", RefusalCode.INVALID.value),
}


@pytest.mark.slow
def test_a_pool_that_shares_in_rounds_stays_right_when_everything_goes_wrong() -> None:
    happened: Counter[Happened] = Counter()
    for seed in _SEEDS:
        found = inspect_rounds(seed, _SIZE, POLICIES)
        assert not found.failure, (seed, found.failure)
        happened.update(found.happened)
    assert happened.keys() >= _EXPECTED, _EXPECTED - happened.keys()


@pytest.mark.slow
def test_runs_that_share_gpus_two_by_two_stay_right_when_everything_goes_wrong() -> None:
    happened: Counter[Happened] = Counter()
    for seed in _SEEDS:
        found = inspect_rounds(seed, Size(hours=4, runs=60, wishes=30), PAIRING, with_pairs=True)
        assert not found.failure, (seed, found.failure)
        happened.update(found.happened)
    assert happened[Happened("pair", "Start")] > len(_SEEDS), happened


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    sorted(n for n, each in PUBLISHED.items() if each.reads_pairs and not each.reads_costs),
)
def test_every_policy_of_pairs_drives_a_pool_that_knows_some(name: str) -> None:
    size = Size(hours=1, runs=12, wishes=5)
    found = inspect_rounds(2, size, {name: PUBLISHED[name]}, with_pairs=True)
    assert not found.failure, found.failure
    assert found.happened[Happened("event", "round-shared/1")] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    sorted(n for n, each in PUBLISHED.items() if not (each.reads_pairs or each.reads_costs)),
)
def test_every_policy_drives_a_pool(name: str) -> None:
    found = inspect_rounds(3, Size(hours=1, runs=10, wishes=5), {name: PUBLISHED[name]})
    assert not found.failure, found.failure
    assert found.happened[Happened("event", "round-shared/1")] > 0
