"""Compares commits to a ledger in etcd with raw transactions of etcd.

One member runs on this machine, and syncs every write to the disk of this folder. Raw transactions
compare a key, and put this key and another one, as an append does, with the same client. Raw
transactions and commits take turns, so that other work on the machine affects both. A transaction
mostly waits for the disk, so its time is wall time. A commit of many commands mostly needs CPU. Its
time is the CPU time of this process plus the time of a raw transaction of the same size. On an idle
machine, the commit would take this time. Its wall time is reported as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from benchmarks.durable import OUT
from benchmarks.figure import Effort, Figure, percentile
from benchmarks.racing import BATCH, Submitter, filled
from quorate.adapters.clock_system import SystemClock
from quorate.adapters.etcd.etcd_address import EtcdAddress
from quorate.adapters.etcd.etcd_client import EtcdClient
from quorate.adapters.etcd.etcd_requests import ModifiedAt, Put, Txn
from quorate.adapters.stores.store_etcd import EtcdStore
from quorate.loop.engine import Engine
from quorate.model.state.records import Phase
from tests.etcd_server import Member, find_etcd

IN_A_ROW = 10
"""The number of commits, or of transactions, in one turn."""


class RawWriter:
    """Sends raw transactions that compare and put, one after another."""

    def __init__(self, client: EtcdClient) -> None:
        self._client = client
        self._revision = 0

    def put(self, size: int) -> float:
        """Return the seconds of a transaction that compares and puts a key, and puts another one.

        The other key gets ``size`` bytes. An append of that size does the same.
        """
        txn = Txn(
            compare=(ModifiedAt(b"raw/head", self._revision),),
            then=(Put(b"raw/value", bytes(size)), Put(b"raw/head", bytes(40))),
        )
        began_s = perf_counter()
        answer = self._client.commit(txn)
        taken_s = perf_counter() - began_s
        assert answer.held, answer
        self._revision = answer.revision
        return taken_s


@contextmanager
def synced_member(folder: Path) -> Iterator[EtcdAddress]:
    """Run a member that syncs its writes; yield the address for a ledger in it."""
    member = Member(find_etcd(OUT / "engines"), folder)
    with member.run():
        yield EtcdAddress(
            endpoints=(member.endpoint,),
            name="bench",
            local=folder / "ledger",
            archive=folder / "archive",
        )


def commits(address: EtcdAddress, effort: Effort) -> list[Figure]:
    """Return the figures of batched and single commits to a new ledger at ``address``."""
    repeats = effort.of(200, 20)
    client = EtcdClient(address)
    raw, submitter = RawWriter(client), Submitter()
    with EtcdStore.create(address) as store:
        filled(store, effort.of(2_500, 500), BATCH, submitter)
        engine = Engine.open(store, SystemClock())
        _execute(engine, submitter, 1)
        (block,) = store.blocks(from_height=engine.head.height)
        size, events = len(block.body), 0
        lone, lone_cpu, lone_raw, single, batched = [], [], [], [], []
        batched_cpu_s, large = 0.0, []
        for _ in range(repeats):
            began_s = process_time()
            lone.append(_execute(engine, submitter, 1))
            lone_cpu.append(process_time() - began_s)
            lone_raw.append(raw.put(size))
        for _ in range(repeats // IN_A_ROW):
            events = engine.head.seq
            began_s = process_time()
            batched += [_execute(engine, submitter, BATCH) for _ in range(IN_A_ROW)]
            batched_cpu_s += process_time() - began_s
            events = (engine.head.seq - events) // IN_A_ROW
            single += [raw.put(size // block.count) for _ in range(IN_A_ROW)]
            large += [raw.put(size // block.count * events) for _ in range(IN_A_ROW)]
        engine.close()
    client.close()
    batched_s = batched_cpu_s / len(batched) + _least(large)
    batched_rate, single_rate = events / batched_s, 1 / _least(single)
    return [
        Figure(
            name="etcd: batched commits",
            unit="x raw events/s",
            value=batched_rate / single_rate,
            better="more",
            target=5,
            details={
                "events/s": batched_rate,
                "raw transactions of one event each /s": single_rate,
                "wall, x": events * median(single) / median(batched),
                "runs a commit": BATCH,
                "events a commit": events,
                "CPU of this process a commit, ms": 1e3 * batched_cpu_s / len(batched),
                "raw transaction of its size, ms": 1e3 * _least(large),
            },
        ),
        Figure(
            name="etcd: a lone commit",
            unit="x raw latency",
            value=_least(lone) / _least(lone_raw),
            better="less",
            target=2,
            details={
                "commit, ms": 1e3 * _least(lone),
                "raw transaction of its size, ms": 1e3 * _least(lone_raw),
                "the same by medians": median(lone) / median(lone_raw),
                "CPU of this process a commit, ms": 1e3 * median(lone_cpu),
            },
        ),
    ]


def _least(seconds: list[float]) -> float:
    """Return the first decile, because slower transactions also waited for other work."""
    return percentile(seconds, 10)


def _execute(engine: Engine, submitter: Submitter, runs: int) -> float:
    """Return the seconds of one commit of ``runs`` submissions."""
    commands = [submitter.run() for _ in range(runs)]
    began_s = perf_counter()
    receipts = engine.execute_all(commands, actor="bench")
    taken_s = perf_counter() - began_s
    phases = {engine.view.runs[command.run.name].phase for command in commands}
    assert phases == {Phase.RUNNING}, (receipts, phases)
    return taken_s
