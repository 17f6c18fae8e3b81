"""Schedulers on several machines race for one ledger in etcd, and hard quotas hold."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from quorate.adapters.etcd.etcd_address import EtcdAddress
from quorate.adapters.etcd.etcd_client import EtcdClient
from quorate.adapters.stores.etcd_append import REFUSED_BLOCKS_MAX
from quorate.adapters.stores.store_etcd import EtcdStore
from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.core.commands import Submit
from quorate.loop.engine import Engine
from quorate.model.state.records import Phase
from quorate.testing.builders import run
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
        # All schedulers read the same blocks, the older ones from the archive.
        assert list((address.archive / "segments").iterdir())
        heads = set()
        for engine in race.engines:
            engine.follow()
            heads.add(engine.head)
        assert heads == {store.head()}


@pytest.mark.parametrize(("behind", "calls"), [(1, 2), (REFUSED_BLOCKS_MAX, 2), (6, 4)])
def test_a_scheduler_that_is_late_asks_etcd_for_little(
    address: EtcdAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: int, calls: int
) -> None:
    elsewhere = replace(address, local=tmp_path / "other")
    with EtcdStore.create(address) as store, EtcdStore.open(elsewhere) as other:
        first = Race(store, 1, Random(0))
        late = Engine.open(other, first.clock)
        # It knows the head from its own append, like a writer that wins most races.
        late.execute(Submit(run("late-0", 1, "free")), actor="test")
        (early,) = first.engines
        for number in range(behind):
            early.execute(Submit(run(f"early-{number}", 1, "free")), actor="test")
        made: list[str] = []
        call = EtcdClient._call

        def counted(self: EtcdClient, called: Any, *more: Any) -> Any:
            made.append(called.path)
            return call(self, called, *more)

        monkeypatch.setattr(EtcdClient, "_call", counted)
        late.execute(Submit(run("late-1", 1, "free")), actor="test")
        # The refused append, the reads after it, and the accepted append.
        assert len(made) == calls, made
        assert late.head == store.head()
        names = ["late-0", "late-1", *(f"early-{number}" for number in range(behind))]
        assert {late.view.runs[name].phase for name in names} == {Phase.RUNNING}
        assert sweep(late.view) == []
