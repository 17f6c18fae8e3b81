"""Continuity: the part of the audit that checks which events may follow which other events.

It has its own records, and checks these rules:

- In a hand-over, other payers take over the same slots of the same groups at one instant.
- A swap replaces lost slots by slots that the run already had. These slots keep their payers, and
  their holds end when they would have ended without the swap.
- A stopping lease ends for the reason for which it was stopped. The exception is work that ends by
  itself before the stop is complete.
- A stopping run gets no new leases, and a run that is stopped for good does not start again.
- No lease starts on a node that is not ready.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from quorate.core.admission.run_shape import Violation
from quorate.model.events import (
    EndReason,
    Event,
    HoldExtended,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    NodeMarked,
    NodeRemoved,
    NodeStatus,
    Outcome,
    Role,
    RunEnded,
    RunRequeued,
    RunResized,
    RunStopping,
    StartReason,
    lease_gpus,
)

_BY_ITSELF: Final = frozenset((EndReason.END, EndReason.FAIL))
_NEW: Final = frozenset((StartReason.START, StartReason.GROW))

_Slot = tuple[str, int]


@dataclass(slots=True)
class _Open:
    """An open lease: its start, its hold, and the reason for its stop if it is stopping."""

    fact: LeaseStarted
    hold_gpu_ms: int
    ending: EndReason | None = None

    @property
    def hold_ends_ms(self) -> int:
        return self.fact.start_ms + self.hold_gpu_ms // lease_gpus(self.fact.slots)


@dataclass(slots=True)
class Continuity:
    """The records: call ``enter`` with every event of a ledger in order, then ``settle``."""

    _open: dict[str, _Open] = field(default_factory=dict)
    _status: dict[str, NodeStatus] = field(default_factory=dict)
    _stopping: dict[str, Outcome | None] = field(default_factory=dict)
    _ended: list[tuple[_Open, LeaseEnded]] = field(default_factory=list)
    _started: list[LeaseStarted] = field(default_factory=list)
    _resized: RunResized | None = None

    def enter(self, event: Event) -> Iterator[Violation]:  # noqa: C901 - one case per kind
        """Record ``event``, and yield a violation if it may not follow the events before it."""
        if not self._goes_on(event):
            yield from self.settle()
        if self._resized is not None and not _shrinks(event):
            yield from self._width()
        match event:
            case LeaseStarted():
                yield from self._start(event)
            case LeaseEnded():
                yield from self._end(event)
            case LeaseEnding() | HoldExtended() if event.lease in self._open:
                self._change(self._open[event.lease], event)
            case RunResized() if event.run not in self._stopping:
                self._resized = event
            case NodeMarked():
                self._status[event.node] = event.status
            case NodeRemoved():
                self._status.pop(event.node, None)
            case RunStopping():
                yield from self._stop(event)
            case RunRequeued() | RunEnded():
                yield from self._let_go(event)
            case _:
                return

    def settle(self) -> Iterator[Violation]:
        """Check the last hand-over or swap, whose events are complete now; yield its violations."""
        ended, started = self._ended, self._started
        self._ended, self._started = [], []
        if not ended and not started:
            return
        yield from _handed_over(ended, started)
        yield from _swapped(ended, started)

    def _goes_on(self, event: Event) -> bool:
        """Return whether ``event`` may belong to the same hand-over or swap as the last events."""
        match event:
            case LeaseStarted():
                runs = {fact.run for fact in self._started} | {o.fact.run for o, _ in self._ended}
                return runs <= {event.run}
            case LeaseEnded() if event.lease in self._open:
                run = self._open[event.lease].fact.run
                return not self._started and all(o.fact.run == run for o, _ in self._ended)
            case _:
                return False

    def _start(self, fact: LeaseStarted) -> Iterator[Violation]:
        self._open[fact.lease] = _Open(fact, fact.hold_gpu_ms)
        self._started.append(fact)
        if fact.run in self._stopping:
            yield Violation("I11", fact.lease, f"starts for {fact.run}, but that run is stopping")
        for node, _ in fact.slots:
            status = self._status.get(node, NodeStatus.READY)
            is_new = fact.reason in _NEW and status is not NodeStatus.READY
            if is_new or status is NodeStatus.FAILED:
                yield Violation("I1", fact.lease, f"starts on {node}, which is {status}")

    def _change(self, lease: _Open, event: LeaseEnding | HoldExtended) -> None:
        if isinstance(event, LeaseEnding):
            lease.ending = event.reason
        else:
            lease.hold_gpu_ms += event.gpu_ms

    def _end(self, event: LeaseEnded) -> Iterator[Violation]:
        lease = self._open.pop(event.lease, None)
        if lease is None:
            return
        self._ended.append((lease, event))
        if lease.ending not in (None, event.reason) and event.reason not in _BY_ITSELF:
            yield Violation(
                "I6", event.lease, f"was stopped by {lease.ending}, but ends by {event.reason}"
            )

    def _stop(self, event: RunStopping) -> Iterator[Violation]:
        if self._stopping.get(event.run) is not None and event.outcome is None:
            yield Violation("I11", event.run, "was to stop for good, but restarts")
        self._stopping[event.run] = event.outcome

    def _width(self) -> Iterator[Violation]:
        """Yield a violation if the width of a resized run differs from the recorded width."""
        resized, self._resized = self._resized, None
        assert resized is not None, "only called after a change of width"
        gpus = sum(
            lease_gpus(lease.fact.slots)
            for lease in self._open.values()
            if lease.fact.run == resized.run
            and lease.ending is None
            and lease.fact.role is not Role.SPARE
        )
        if gpus != resized.gpus:
            yield Violation(
                "I7", resized.run, f"works on {gpus} GPUs, but was resized to {resized.gpus}"
            )

    def _let_go(self, event: RunRequeued | RunEnded) -> Iterator[Violation]:
        told = self._stopping.pop(event.run, None)
        if told is not None and isinstance(event, RunRequeued):
            yield Violation("I11", event.run, "was to stop for good, but waits again")


def _shrinks(event: Event) -> bool:
    """Return whether ``event`` stops or ends a lease because its run shrinks."""
    return isinstance(event, LeaseEnding | LeaseEnded) and event.reason is EndReason.SHRINK


def _handed_over(
    ended: list[tuple[_Open, LeaseEnded]], started: list[LeaseStarted]
) -> Iterator[Violation]:
    """Yield a violation if a hand-over changes slots or groups.

    It is also a violation if the new leases do not start when the old leases end.
    """
    before = {
        (lease.fact.bundle, lease.fact.comp_path, slot): event.end_ms
        for lease, event in ended
        if event.reason is EndReason.HANDOVER
        for slot in _slots(lease.fact)
    }
    after = {
        (fact.bundle, fact.comp_path, slot): fact.start_ms
        for fact in started
        if fact.reason is StartReason.HANDOVER
        for slot in _slots(fact)
    }
    if before != after:
        run = (started or [ended[0][0].fact])[0].run
        yield Violation("I6", run, "is handed over with other slots or another role")


def _swapped(
    ended: list[tuple[_Open, LeaseEnded]], started: list[LeaseStarted]
) -> Iterator[Violation]:
    """Yield a violation if a swap uses slots, payers or hold time that the run did not have."""
    had = {slot: lease for lease, _ in ended for slot in _slots(lease.fact)}
    taken: set[_Slot] = set()
    for fact in started:
        if fact.reason is not StartReason.SWAP:
            continue
        taken.update(_slots(fact))
        hold_ends_ms = _Open(fact, fact.hold_gpu_ms).hold_ends_ms
        for slot in _slots(fact):
            old = had.get(slot)
            if old is None:
                yield Violation(
                    "I6", fact.lease, f"swaps in {slot}, which is not one of its spare slots"
                )
            elif (old.fact.payer, old.fact.tier) != (fact.payer, fact.tier):
                yield Violation(
                    "I3", fact.lease, f"swaps in {slot}, but {old.fact.payer} pays for that slot"
                )
            elif hold_ends_ms != old.hold_ends_ms:
                yield Violation(
                    "I2",
                    fact.lease,
                    f"swaps in {slot}, held until {hold_ends_ms} and not {old.hold_ends_ms}",
                )
    for lease, event in ended:
        gives_up = event.reason is EndReason.SWAP or (
            event.reason is EndReason.SHRINK and lease.ending is None
        )
        if gives_up and taken.isdisjoint(_slots(lease.fact)):
            yield Violation("I6", event.lease, f"ends by {event.reason}, but was not swapped in")


def _slots(fact: LeaseStarted) -> list[_Slot]:
    return [
        (node, ordinal)
        for node, mask in fact.slots
        for ordinal in range(mask.bit_length())
        if mask >> ordinal & 1
    ]
