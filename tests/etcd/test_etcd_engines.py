"""Engines of several machines on one ledger in etcd: each has a separate store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from quorate.adapters.etcd.etcd_address import EtcdAddress
from quorate.adapters.stores.store_etcd import EtcdStore
from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.core.commands import Apply
from quorate.loop.engine import Engine
from quorate.model.specs import Owner
from quorate.testing.states import same
from tests.contract.test_racing import Race
from tests.oracles.effort import sized

pytestmark = pytest.mark.slow

MACHINES = 3
ROUNDS = sized(8, 60)


@pytest.fixture
def stores(address: EtcdAddress, tmp_path: Path) -> Iterator[list[EtcdStore]]:
    """Return stores of one ledger, as on several machines."""
    with ExitStack() as opened:
        found = [opened.enter_context(EtcdStore.create(address))]
        for number in range(1, MACHINES):
            other = replace(address, local=tmp_path / f"machine-{number}")
            found.append(opened.enter_context(EtcdStore.open(other)))
        yield found


def test_hard_quotas_hold_whichever_machine_commits_first(stores: list[EtcdStore]) -> None:
    race = Race(stores[0], 0, Random(7))
    race.engines = [Engine.open(store, race.clock) for store in stores]
    assert all(engine.is_shared for engine in race.engines)
    for _ in range(ROUNDS):
        race.round()
    assert race.counts["late"] > ROUNDS
    for engine in race.engines:
        engine.follow()
    replayed = Engine.open(stores[0], race.clock)
    for engine in race.engines:
        assert engine.head == replayed.head
        assert same(engine._state, replayed._state) == []
    assert audit(race.events(), view=replayed.view) == []
    assert sweep(replayed.view) == []


def test_large_command_is_one_block_for_every_machine(stores: list[EtcdStore]) -> None:
    race = Race(stores[0], 0, Random(1))
    first, second = (Engine.open(store, race.clock) for store in stores[:2])
    owners = tuple(Owner(name=f"owner-{number:06d}-{'x' * 40}") for number in range(20_000))
    receipt = first.execute(Apply(owners), actor="test")
    block = next(stores[1].blocks(from_height=receipt.head.height))
    assert len(block.body) > 1_500_000
    assert second.follow() == 1
    assert second.head == receipt.head
    assert len(second.view.owners) == len(first.view.owners)
