"""A long ledger in etcd: the size of its archive after a year, and the opening on a new machine.

One member runs on this machine, and syncs every write to the disk of this folder.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

from benchmarks.durable import OUT
from benchmarks.etcd_commits import synced_member
from benchmarks.figure import Baseline, Effort, Figure
from benchmarks.history import Story
from quorate.adapters.clock_system import SystemClock
from quorate.adapters.etcd.etcd_address import EtcdAddress
from quorate.adapters.etcd.etcd_client import EtcdClient
from quorate.adapters.stores.etcd_upkeep import SEGMENT_BYTES
from quorate.adapters.stores.store_etcd import EtcdStore
from quorate.ledger.chain import GENESIS, seal
from quorate.loop.engine import SNAPSHOT_EVENTS, Engine

YEAR_EVENTS = 20_000_000
EVENTS_PER_BLOCK = 128
MIB = 1 << 20


def measure(effort: Effort) -> list[Figure]:
    """Return the figures of a long ledger."""
    OUT.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=OUT) as folder, synced_member(Path(folder)) as address:
        return _long_ledger(address, effort)


def _long_ledger(address: EtcdAddress, effort: Effort) -> list[Figure]:
    """Write a history as a service would, and open it on a machine without any of its files."""
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
                # Opening reads the blocks after the last snapshot, and stores another snapshot,
                # which closes segments.
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
