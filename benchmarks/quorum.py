"""The figures of a ledger in etcd: commits, a lost race, revoked tokens, a failover."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import revocation
from benchmarks.durable import OUT
from benchmarks.etcd_commits import commits, synced_member
from benchmarks.figure import Effort, Figure
from benchmarks.racing import lost_race
from quorate.adapters.etcd.etcd_address import EtcdAddress
from quorate.adapters.stores.store_etcd import EtcdStore


def measure(effort: Effort) -> list[Figure]:
    """Return the figures of one writer, of two that race, and of three services."""
    OUT.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=OUT) as folder, synced_member(Path(folder)) as address:
        found = [*commits(address, effort), _lost_race(address, effort)]
    return [*found, *revocation.measure(effort)]


def _lost_race(address: EtcdAddress, effort: Effort) -> Figure:
    """Return the CPU time in this process of losing a race in etcd."""
    raced = replace(address, name="race", local=address.local.with_name("race"))
    other = replace(raced, local=address.local.with_name("other"))
    with EtcdStore.create(raced) as store, EtcdStore.open(other) as beside:
        return lost_race("etcd: losing a race, 1 block behind", effort, store, beside)
