"""A ledger in etcd beside etcd itself: commits, how much a year is, and a machine that begins anew.

One member on this machine, with every write synced to the disk that holds this folder. Raw
transactions compare a key and put two others, as an append does, by the same client; they and the
commits take turns, so that other work on the machine meets both. A transaction mostly waits for the
disk, so its time is of the wall clock. A commit of many commands mostly decides: its time is the
CPU time of this process and a raw transaction of its size, which is what it takes on a machine that
does little else; the wall clock is stated as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

from benchmarks.durable import OUT
from benchmarks.figure import Baseline, Effort, Figure, percentile
from benchmarks.history import Story
from benchmarks.racing import BATCH, Submitter, filled
from quorate.adapters.clock_system import SystemClock
from quorate.adapters.etcd.etcd_address import EtcdAddress
from quorate.adapters.etcd.etcd_client import EtcdClient
from quorate.adapters.etcd.etcd_requests import ModifiedAt, Put, Txn
from quorate.adapters.stores.etcd_upkeep import SEGMENT_BYTES
from quorate.adapters.stores.store_etcd import EtcdStore
from quorate.ledger.chain import GENESIS, seal
from quorate.loop.engine import SNAPSHOT_EVENTS, Engine
from quorate.model.state.records import Phase
from tests.etcd_server import Member, find_etcd

YEAR_EVENTS = 20_000_000
EVENTS_PER_BLOCK = 128
IN_A_ROW = 10
"""How many commits, and how many transactions, are measured in turn: the first pays for both."""
MIB = 1 << 20


class RawWriter:
    """Sends raw transactions that compare and put, one after the other."""

    def __init__(self, client: EtcdClient) -> None:
        self._client = client
        self._revision = 0

    def put(self, size: int) -> float:
        """Return the seconds of a transaction that compares a key, and puts it and ``size`` bytes.

        An append of that size does the same.
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


def measure(effort: Effort) -> list[Figure]:
    """Return commits beside raw transactions, and what a long ledger takes."""
    OUT.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=OUT) as folder, _member(Path(folder)) as address:
        return [*_commits(address, effort), *_long_ledger(address, effort)]


@contextmanager
def _member(folder: Path) -> Iterator[EtcdAddress]:
    member = Member(find_etcd(OUT / "engines"), folder)
    with member.run():
        yield EtcdAddress(
            endpoints=(member.endpoint,),
            name="bench",
            local=folder / "ledger",
            archive=folder / "archive",
        )


def _commits(address: EtcdAddress, effort: Effort) -> list[Figure]:
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
    """Return what one of ten takes at most: the rest waited for other work on the machine, too."""
    return percentile(seconds, 10)


def _execute(engine: Engine, submitter: Submitter, runs: int) -> float:
    """Return the seconds of one commit of so many submits."""
    commands = [submitter.run() for _ in range(runs)]
    began_s = perf_counter()
    receipts = engine.execute_all(commands, actor="bench")
    taken_s = perf_counter() - began_s
    phases = {engine.view.runs[command.run.name].phase for command in commands}
    assert phases == {Phase.RUNNING}, (receipts, phases)
    return taken_s


def _long_ledger(address: EtcdAddress, effort: Effort) -> list[Figure]:
    """Write a history as a service would, and open it on a machine that has nothing of it."""
    address = replace(address, name="long", local=address.local.with_name("long"))
    client = EtcdClient(address)
    size, most_used = 0, 0
    with EtcdStore.create(address, segment_bytes=effort.of(SEGMENT_BYTES, MIB)) as store:
        events = Story().events(effort.of(500_000, 120_000))
        head, kept_seq = GENESIS, 0
        while block := list(islice(events, EVENTS_PER_BLOCK)):
            sealed = seal(head, block)
            store.append(sealed, expected=head)
            head = sealed.head
            size += len(sealed.body)
            if head.seq - kept_seq >= SNAPSHOT_EVENTS:
                kept_seq = head.seq
                (status,) = client.status()
                most_used = max(most_used, status.bytes_used)
                # Reads on from the last snapshot and keeps another, which closes segments.
                Engine.open(store, SystemClock())
    segments = sorted((address.archive / "segments").glob("*"))
    packed = sum(path.stat().st_size for path in segments)
    published = max((address.archive / "snapshots").glob("*")).stat().st_size
    archived = int(segments[-1].name.split("-")[1]) * EVENTS_PER_BLOCK
    fresh = replace(address, local=address.local.with_name("fresh"))
    with EtcdStore.open(fresh) as store:
        began_s, began = process_time(), perf_counter()
        engine = Engine.open(store, SystemClock())
        open_cpu_s, open_s = process_time() - began_s, perf_counter() - began
        assert engine.head == head, engine.head
        engine.close()
    client.close()
    year = YEAR_EVENTS / archived * packed
    return [
        Figure(
            name="etcd: archive of a year, 20 million events",
            unit="MiB",
            value=year / MIB,
            better="less",
            baseline=Baseline("the same blocks as they are", YEAR_EVENTS / head.seq * size / MIB),
            details={
                "bytes an event": packed / archived,
                "bytes an event in a block": size / head.seq,
                "events written": head.seq,
                "events archived": archived,
                "segments of it": len(segments),
                "published snapshot, MiB": published / MIB,
            },
        ),
        Figure(
            name="etcd: most of it in use, before compaction",
            unit="MiB",
            value=most_used / MIB,
            better="less",
            target=256,
            details={"of the default quota, %": 100 * most_used / (2048 * MIB)},
        ),
        Figure(
            name="etcd: open on a machine that has nothing",
            unit="s",
            value=open_cpu_s,
            better="less",
            details={"wall s": open_s},
        ),
    ]
