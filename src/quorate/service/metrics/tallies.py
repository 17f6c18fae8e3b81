"""Tallies of waiting runs by reason, of running runs, and of stopping leases.

The state has no index of runs by reason, and iterating over a queue of 100,000 runs for every
scrape would delay the next commit. So each commit names the runs and leases that it changed, and
the tallies look these up in the state again. The look-up also corrects earlier changes that were
missed.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Final

from quorate.model.events import (
    Event,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    RunEnded,
    RunRefused,
    RunRequeued,
    RunSubmitted,
)
from quorate.model.state.records import Phase, RunRecord
from quorate.model.state.state_view import StateView
from quorate.service.metrics.metric_table import NO_CODE

_OUTDATED_MAX: Final = 1_024
"""How many outdated entries a heap may have beyond the number of waiting runs."""


class Tallies:
    """The tallies of one ledger, for its ledger thread only."""

    __slots__ = ("_codes", "_heaps", "deadlines_ms", "running", "waiting")

    def __init__(self) -> None:
        self._codes: dict[str, str] = {}
        self._heaps: dict[str, list[tuple[int, str]]] = {}
        self.waiting: dict[str, int] = {}
        """The number of waiting runs by refusal code; codes without runs are left out."""
        self.running: set[str] = set()
        """The names of the running runs."""
        self.deadlines_ms: dict[str, int] = {}
        """The deadline of each stopping lease."""

    def read(self, view: StateView) -> None:
        """Compute all tallies from the state; called when the ledger has been opened."""
        self._codes, self._heaps, self.waiting = {}, {}, {}
        runs = view.runs
        for name in view.pending:
            self._put(name, _code(runs[name]), runs[name].submitted_ms)
        self.running = {lease.fact.run for lease in view.leases.values()}
        for name in view.in_rounds:
            self._look_at_run(name, runs[name])
        self.deadlines_ms = {
            name: lease.ending.deadline_ms
            for name, lease in view.leases.items()
            if lease.ending is not None
        }

    def seen(self, events: Iterable[Event], view: StateView) -> None:
        """Update the tallies by ``events``, which ``view`` includes."""
        runs: dict[str, None] = {}
        leases: dict[str, None] = {}
        for event in events:
            match event:
                case RunRefused() | LeaseStarted() | RunRequeued() | RunEnded():
                    runs[event.run] = None
                case RunSubmitted():
                    runs[event.run.name] = None
                case LeaseEnding() | LeaseEnded():
                    leases[event.lease] = None
                case _:
                    pass
        for run in runs:
            self._look_at_run(run, view.runs[run])
        for lease in leases:
            self._look_at_lease(lease, view)

    def oldest_ms(self, code: str) -> int:
        """Return the earliest submission time of the runs whose last refusal has ``code``."""
        heap, codes = self._heaps[code], self._codes
        while codes.get(heap[0][1]) != code:
            heappop(heap)
        return heap[0][0]

    def stops(self, now_ms: int) -> tuple[int, int]:
        """Return how many stops are within their deadline, and how many are past it."""
        overdue = sum(deadline_ms < now_ms for deadline_ms in self.deadlines_ms.values())
        return len(self.deadlines_ms) - overdue, overdue

    def _look_at_run(self, name: str, record: RunRecord) -> None:
        phase = record.phase
        code = _code(record) if phase is Phase.PENDING else None
        if phase is Phase.RUNNING:
            self.running.add(name)
        else:
            self.running.discard(name)
        known = self._codes.get(name)
        if known == code:
            return
        if known is not None:
            self._take(name, known)
        if code is not None:
            self._put(name, code, record.submitted_ms)

    def _look_at_lease(self, name: str, view: StateView) -> None:
        lease = view.leases.get(name)
        if lease is None or lease.ending is None:
            self.deadlines_ms.pop(name, None)
        else:
            self.deadlines_ms[name] = lease.ending.deadline_ms

    def _put(self, name: str, code: str, since_ms: int) -> None:
        self._codes[name] = code
        count = self.waiting[code] = self.waiting.get(code, 0) + 1
        heap = self._heaps.setdefault(code, [])
        if len(heap) > 2 * count + _OUTDATED_MAX:
            heap[:] = {entry for entry in heap if self._codes.get(entry[1]) == code}
            heapify(heap)
        heappush(heap, (since_ms, name))

    def _take(self, name: str, code: str) -> None:
        del self._codes[name]
        left = self.waiting[code] - 1
        if left:
            self.waiting[code] = left
        else:
            del self.waiting[code], self._heaps[code]


def _code(record: RunRecord) -> str:
    return NO_CODE if record.refusal is None else record.refusal.code
