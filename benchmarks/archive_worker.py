"""Makes one measurement of ``archive``: ``python -m benchmarks.archive_worker``.

Prints one JSON object: the CPU seconds of opening, the memory, the CPU time that a snapshot takes
on the committing thread, and this thread's slowest commit while snapshots are written.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from time import process_time, thread_time
from typing import Final

from benchmarks.figure import median_of
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.core.commands import Complete, Submit
from quorate.ledger.fold import replay
from quorate.ledger.snapshot import cut, restore, take
from quorate.loop.engine import Engine
from quorate.loop.state_loading import load_state
from quorate.model.specs import Run
from quorate.model.state.state import State
from quorate.testing.memory_engines import HandClock

COMMANDS: Final = 400
CUTS: Final = 9
SNAPSHOT_EVENTS: Final = 400
_PAGE_KIB: Final = 4


def archived(path: Path) -> dict[str, float]:
    """Measure a ledger opened as by a service, with snapshots written on another thread."""
    with SqliteStore.open(path) as store:
        began_s = process_time()
        engine = Engine.open(store, HandClock(0))
        open_s = process_time() - began_s
        memory_mib = resident_mib()
        engine.snapshot_events = SNAPSHOT_EVENTS
        engine.write_snapshots_beside()
        waits = []
        for number in range(COMMANDS):
            run = Run(name=f"next-{number}", owner="team00", flavors=("H100",), gpus=1)
            for command in (Submit(run), Complete(run.name)):
                began_s = thread_time()
                receipt = engine.execute(command, actor="bench")
                waits.append(thread_time() - began_s)
                assert not receipt.decision.refusals, receipt
        engine.wait_for_snapshot()
        kept = len(dict(engine.view.runs.kept()))
        state, _, _ = load_state(store, SNAPSHOT_EVENTS)
        pause_s = median_of(CUTS, lambda: _cut_s(state))
        engine.close()
        return {
            "open_s": open_s,
            "memory_mib": memory_mib,
            "pause_ms": 1_000 * pause_s,
            "slowest_ms": 1_000 * max(waits),
            "kept": kept,
        }


def _cut_s(state: State) -> float:
    """Return the CPU seconds that a snapshot takes on the committing thread."""
    began_s = thread_time()
    cut(state)
    took_s = thread_time() - began_s
    state.runs.thaw()
    return took_s


def in_memory(path: Path) -> dict[str, float]:
    """Measure with every run in memory, and with snapshots on the deciding thread."""
    with SqliteStore.open(path) as store:
        state, _ = replay(store.blocks())
        memory_mib = resident_mib()
        began_s = thread_time()
        payload = take(state)
        pause_s = thread_time() - began_s
        began_s = process_time()
        restored = restore(payload)
        open_s = process_time() - began_s
        assert restored is not None
        return {
            "open_s": open_s,
            "memory_mib": memory_mib,
            "pause_ms": 1_000 * pause_s,
            "slowest_ms": 1_000 * pause_s,
            "kept": len(state.runs),
        }


def resident_mib() -> float:
    """Return the memory that this process uses now."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_KIB / 1_024


if __name__ == "__main__":
    print(
        json.dumps({"archived": archived, "in_memory": in_memory}[sys.argv[1]](Path(sys.argv[2])))
    )
