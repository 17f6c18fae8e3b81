"""How the costs of memory, snapshots and opening grow with the number of ended runs.

The ledgers differ in the number of ended runs, and have the same running work. Each ledger is
measured in a fresh process (``archive_worker.py``), which opens it as a service does and then
decides commands while snapshots are written.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.figure import Baseline, Effort, Figure
from benchmarks.worlds import FLAVOR, REGION_NAME, fleet
from quorate.adapters.stores.archive_file import archive_path
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.ledger.chain import GENESIS, seal
from quorate.ledger.snapshot import SNAPSHOT_FORMAT
from quorate.loop.engine import SNAPSHOT_EVENTS, Engine
from quorate.model.amounts import HOUR_MS
from quorate.model.events import (
    EndReason,
    Event,
    LeaseEnded,
    LeaseStarted,
    Outcome,
    Role,
    RunEnded,
    RunSubmitted,
    StartReason,
    Tier,
)
from quorate.model.selector import REGION
from quorate.model.specs import EnvelopeId, Owner, Run
from quorate.testing.builders import NOW_MS, budget, envelope, opening
from quorate.testing.memory_engines import HandClock

OUT: Final = Path(__file__).parent / "out"
SIZES: Final = (10_000, 100_000, 450_000)
QUICK: Final = (1_000, 4_000, 16_000)
NODES: Final = 1_000
LIVE: Final = 900
"""The number of running runs, of eight GPUs each."""
OWNERS: Final = 20
EVENTS_PER_BLOCK: Final = 256
VERSION: Final = 1
ACTOR: Final = "alice@example.org"


def measure(effort: Effort) -> list[Figure]:
    """Return each cost with the most ended runs, relative to the cost with the fewest."""
    OUT.mkdir(exist_ok=True)
    sizes = QUICK if effort.quick else SIZES
    ledgers = {
        size: _kept(OUT / f"ended-{VERSION}-{SNAPSHOT_FORMAT}-{size}.db", size) for size in sizes
    }
    found = {size: _one("archived", path) for size, path in ledgers.items()}
    plain = {size: _one("in_memory", ledgers[size]) for size in (sizes[0], sizes[-1])}
    return [
        _growth("memory", "memory_mib", "MiB", found, plain),
        _growth("snapshot, on the ledger's thread", "pause_ms", "ms", found, plain),
        _growth("opening", "open_s", "s", found, plain),
    ]


def _growth(
    name: str,
    key: str,
    unit: str,
    found: dict[int, dict[str, float]],
    plain: dict[int, dict[str, float]],
) -> Figure:
    first, last = min(found), max(found)
    growth = {size: told[key] for size, told in found.items()}
    return Figure(
        name=f"{name}, {last:,} ended runs over {first:,}",
        unit="times",
        value=growth[last] / growth[first],
        better="less",
        target=1.5,
        baseline=Baseline("all in memory", plain[last][key] / plain[first][key]),
        details={f"{unit} at {size:,}": value for size, value in growth.items()}
        | {f"{unit} at {last:,}, all in memory": plain[last][key]}
        | {f"runs in memory at {last:,}": found[last]["kept"]}
        | {f"slowest commit ms at {last:,}": found[last]["slowest_ms"]},
    )


def _one(work: str, ledger: Path) -> dict[str, float]:
    """Return the figures that a fresh process measures on a copy of ``ledger``."""
    with TemporaryDirectory(dir=OUT) as folder:
        copy = Path(folder) / ledger.name
        copyfile(ledger, copy)
        copyfile(archive_path(ledger), archive_path(copy))
        told = subprocess.run(
            [sys.executable, "-m", "benchmarks.archive_worker", work, str(copy)],
            check=True,
            capture_output=True,
            text=True,
        )
    found: dict[str, float] = json.loads(told.stdout)
    return found


def story(ended: int) -> Iterator[Event]:
    """Yield declarations, then the events of runs in turn, until ``ended`` runs have ended."""
    owners = [Owner(name=f"team{number:02d}") for number in range(OWNERS)]
    line = envelope("e", 8 * NODES, selector=((REGION, REGION_NAME),))
    money = [budget(f"{owner.name}-b", owner.name, line) for owner in owners]
    yield from opening(nodes=fleet(NODES), owners=owners, budgets=money)
    now_ms = NOW_MS
    for number in range(ended + LIVE):
        now_ms += 200
        if number >= LIVE:
            yield from _end(number - LIVE, now_ms)
        yield from _start(number, now_ms)


def _start(number: int, now_ms: int) -> Iterator[Event]:
    owner = f"team{number % OWNERS:02d}"
    run = Run(
        name=f"train-{number:07d}",
        owner=owner,
        flavors=(FLAVOR,),
        gpus=8,
        user=ACTOR,
        command=("python", "train.py", "--config", "base.yaml"),
        nonce=f"{number:032x}",
    )
    yield RunSubmitted(at_ms=now_ms, actor=ACTOR, run=run)
    yield LeaseStarted(
        at_ms=now_ms,
        actor=ACTOR,
        lease=f"{run.name}/0",
        run=run.name,
        partner=None,
        comp_path="group/0",
        bundle=0,
        role=Role.ACTIVE,
        slots=((f"n{number % LIVE:05d}", 0xFF),),
        payer=EnvelopeId(f"{owner}-b/e"),
        tier=Tier.OWNED,
        hold_gpu_ms=8 * 240 * HOUR_MS,
        start_ms=now_ms,
        reason=StartReason.START,
    )


def _end(number: int, now_ms: int) -> Iterator[Event]:
    name = f"train-{number:07d}"
    yield LeaseEnded(
        at_ms=now_ms, actor=ACTOR, lease=f"{name}/0", reason=EndReason.END, end_ms=now_ms
    )
    yield RunEnded(at_ms=now_ms, actor=ACTOR, run=name, outcome=Outcome.COMPLETED)


def _kept(path: Path, ended: int) -> Path:
    """Return the ledger at ``path``, with its archive; make the ledger if it does not exist."""
    if path.exists() and archive_path(path).exists():
        return path
    with TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        events, head = story(ended), GENESIS
        with SqliteStore.create(made) as store:
            blocks = []
            while block := list(islice(events, EVENTS_PER_BLOCK)):
                blocks.append(seal(head, block))
                head = blocks[-1].head
            store.append_all(blocks)
        # The last open writes a snapshot at the very end of the ledger.
        for snapshot_events in (SNAPSHOT_EVENTS, 1_000, 1):
            with SqliteStore.open(made) as store:
                engine = Engine.open(store, HandClock(NOW_MS), snapshot_events=snapshot_events)
                assert len(engine.view.runs) == ended + LIVE, ended
        made.rename(path)
        archive_path(made).rename(archive_path(path))
    return path
