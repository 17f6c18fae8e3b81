"""Makes one measurement of ``memory``: ``python -m benchmarks.memory_worker``.

Prints one JSON object: the memory after the warm-up and after each simulated minute, and the number
of commands and events.
"""

from __future__ import annotations

import json
import sys
from heapq import heapify, heappop, heappush
from pathlib import Path
from random import Random
from time import process_time
from typing import Any, Final

from benchmarks.archive_worker import resident_mib
from benchmarks.queues import Demand
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.core.commands import Complete, Submit, Tick
from quorate.core.next_due import next_due_ms
from quorate.core.profile.lease_ends import run_end_ms
from quorate.loop.commit_types import Receipt
from quorate.loop.engine import Engine
from quorate.model.amounts import MINUTE_MS, SECOND_MS
from quorate.model.events import LeaseStarted, RunEnded, StartReason
from quorate.testing.memory_engines import HandClock

STEP_MS: Final = 2 * SECOND_MS
"""The time between the ends of two runs, which is realistic for this fleet."""
WARM_MINUTES: Final = 15
"""The warm-up, which includes the first snapshot: later snapshots use its memory again."""
SNAPSHOT_EVENTS: Final = 2_000
"""The events between snapshots: few, so that an hour has several. A service uses 50,000."""


class Service:
    """An engine on the ledger in ``store``, with a clock that the benchmark sets."""

    def __init__(self, store: SqliteStore) -> None:
        self.clock = HandClock(Engine.open(store, HandClock(0)).recorded_ms)
        self.engine = Engine.open(store, self.clock)
        self.engine.snapshot_events = SNAPSHOT_EVENTS
        self.engine.write_snapshots_beside()
        state = self.engine.view
        self.state = state
        running = [name for name, record in state.runs.kept() if record.leases]
        self._due = [(run_end_ms(state, state.runs[name], 0), name) for name in running]
        heapify(self._due)
        owners = len(state.owners)
        made = 1_000_000  # Names of new runs begin here, so that none exists yet.
        self.demand = Demand(state, Random(2), owners, running=running, made=made)
        self.starts = self.ends = 0

    def minute(self) -> None:
        """Simulate a minute, in which runs end and others are submitted."""
        for _ in range(MINUTE_MS // STEP_MS):
            self.clock.ms += STEP_MS
            due_ms = next_due_ms(self.state, has_executor=False)
            if due_ms is not None and due_ms <= self.clock.ms:
                self._do(Tick())
            self._do(Complete(self._ending()))
            self._do(Submit(self.demand.next_run()))

    def _ending(self) -> str:
        """Return the run to end next: a run past its declared end, else any running run."""
        while self._due and self._due[0][0] <= self.clock.ms:
            _, name = heappop(self._due)
            if self.state.runs[name].leases:
                return name
        return self.demand.ending()

    def _do(self, command: Complete | Submit | Tick) -> None:
        receipt = self.engine.execute(command, actor="bench")
        assert not receipt.decision.refusals, receipt.decision.refusals
        self._count(receipt)

    def _count(self, receipt: Receipt) -> None:
        for event in receipt.decision.events:
            self.ends += isinstance(event, RunEnded)
            if isinstance(event, LeaseStarted) and event.reason is StartReason.START:
                self.starts += 1
                self.demand.running.append(event.run)
                record = self.state.runs[event.run]
                heappush(self._due, (run_end_ms(self.state, record, 0), event.run))


def measured(path: Path, minutes: int) -> dict[str, Any]:
    """Return the memory of a service on the ledger at ``path``, minute by minute."""
    with SqliteStore.open(path) as store:
        began_s = process_time()
        service = Service(store)
        for _ in range(WARM_MINUTES):
            service.minute()
        service.engine.wait_for_snapshot()
        samples, began_seq = [resident_mib()], service.engine.head.seq
        service.starts = service.ends = 0
        for number in range(minutes):
            service.minute()
            samples.append(resident_mib())
            print(f"minute {number + 1}: {samples[-1]:.0f} MiB", file=sys.stderr, flush=True)
        service.engine.wait_for_snapshot()  # Writing a snapshot takes memory.
        samples.append(resident_mib())
        events = service.engine.head.seq - began_seq
        service.engine.close()
        return {
            "memory_mib": samples,
            "events": events,
            "starts": service.starts,
            "ends": service.ends,
            "cpu_s": process_time() - began_s,
        }


if __name__ == "__main__":
    print(json.dumps(measured(Path(sys.argv[1]), int(sys.argv[2]))))
