"""Makes one measurement of ``replay``: ``python -m benchmarks.replay_worker``.

Prints one JSON object: the CPU seconds of the work and of the whole process, and counts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import process_time

from benchmarks.worlds import FLAVOR, owner_name
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.core.commands import Submit
from quorate.ledger.chain import Verified, open_blocks, verify_blocks
from quorate.ledger.fold import replay
from quorate.loop.engine import Engine
from quorate.model.specs import Run

Counts = dict[str, int]
Done = tuple[Counts, Engine | None]
"""Counts, and the built objects, so that freeing the objects is not measured."""


class StoppedClock:
    """A clock that always shows 0, so that the ledger's last time is used."""

    def now_ms(self) -> int:
        """Return zero."""
        return 0


def from_log(store: SqliteStore) -> Done:
    """Read every event, and make the first decision without recording it."""
    state, head = replay(store.blocks())
    state.overlay()  # This builds all indexes.
    return _ready(Engine(store, StoppedClock(), state, head))


def from_snapshot(store: SqliteStore) -> Done:
    """Open the ledger as a service does, and make the first decision."""
    return _ready(Engine.open(store, StoppedClock()))


def verify(store: SqliteStore) -> Done:
    """Verify the chain of blocks."""
    found = verify_blocks(store.blocks())
    assert isinstance(found, Verified), found
    return {"events": found.events, "blocks": found.blocks}, None


def verify_deep(store: SqliteStore) -> Done:
    """Verify the chain of blocks, and decode every event."""
    found = verify_blocks(store.blocks(), deep=True)
    assert isinstance(found, Verified), found
    return {"events": found.events, "blocks": found.blocks}, None


def read_only(store: SqliteStore) -> Done:
    """Read and decode every event, and drop it."""
    return {"events": sum(len(events) for _, events in open_blocks(store.blocks()))}, None


def hash_only(store: SqliteStore) -> Done:
    """Hash every block's bytes."""
    events = 0
    for block in store.blocks():
        sha256(block.body).digest()
        events += block.count
    return {"events": events}, None


WORK: dict[str, Callable[[SqliteStore], Done]] = {
    work.__name__: work
    for work in (from_log, from_snapshot, verify, verify_deep, read_only, hash_only)
}


def _ready(engine: Engine) -> Done:
    run = Run(name="next", owner=owner_name(1), flavors=(FLAVOR,), gpus=8)
    decision = engine.try_out(Submit(run), actor="bench")
    assert not decision.refusals, decision
    view = engine.view
    counts = {
        "events": engine.head.seq,
        "nodes": len(view.nodes),
        "leases": len(view.leases),
        "runs": len(view.runs),
    }
    return counts, engine


def main(work: str, path: str) -> None:
    """Do ``work`` on the ledger at ``path``, and print the measurement."""
    with SqliteStore.read(Path(path)) as store:
        start = process_time()
        counts, built = WORK[work](store)
        took = process_time() - start
        del built
    usage = getrusage(RUSAGE_SELF)
    shown = counts | {
        "work_cpu_s": took,
        "process_cpu_s": usage.ru_utime + usage.ru_stime,
        "memory_mib": usage.ru_maxrss // 1024,
    }
    print(json.dumps(shown))


if __name__ == "__main__":
    main(*sys.argv[1:])
