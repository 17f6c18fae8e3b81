"""Schedulers on several machines race for one ledger in etcd, and hard quotas hold."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from quorate.adapters.etcd.etcd_address import EtcdAddress
from quorate.adapters.stores.store_etcd import EtcdStore
from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.loop.engine import Engine
from tests.contract.test_racing import Race
from tests.oracles.effort import sized

SCHEDULERS = 4
ROUNDS = sized(12, 300)
SEGMENT_BYTES = 2_000


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_hard_quotas_hold_whichever_machine_commits_first(
    address: EtcdAddress, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        store = stack.enter_context(EtcdStore.create(address))
        race = Race(store, 1, Random(0))
        machines = [replace(address, local=tmp_path / f"m{number}") for number in range(SCHEDULERS)]
        stores = [
            stack.enter_context(EtcdStore.open(each, segment_bytes=SEGMENT_BYTES))
            for each in machines
        ]
        race.engines = [Engine.open(each, race.clock, snapshot_events=50) for each in stores]
        for _ in range(ROUNDS):
            race.round()
        assert race.counts["late"] > ROUNDS
        view = Engine.open(store, race.clock).view
        assert audit(race.events(), view=view) == []
        assert sweep(view) == []
        # All of them read the same, the older part of it from the archive.
        assert list((address.archive / "segments").iterdir())
        heads = set()
        for engine in race.engines:
            engine.follow()
            heads.add(engine.head)
        assert heads == {store.head()}
