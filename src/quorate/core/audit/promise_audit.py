"""The audit of reservations: how they are made, moved and closed. It keeps its own records.

A run has at most one reservation, and has it only while the run waits. If a planned start is moved
to a later time, the event names a cause. If a reservation is closed as activated, its run starts at
the same instant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from quorate.core.admission.run_shape import Violation
from quorate.model.events import (
    Event,
    LeaseStarted,
    MoveCode,
    ReservationClosed,
    ReservationMade,
    ReservationMoved,
    ReservationOutcome,
    RunEnded,
    RunRequeued,
    RunStopping,
)


@dataclass(slots=True)
class Promises:
    """The open reservations, and the runs whose activated reservation requires a start."""

    open: dict[str, ReservationMade] = field(default_factory=dict)
    of_run: dict[str, str] = field(default_factory=dict)
    activated: dict[str, int] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)

    def enter(self, event: Event) -> Iterator[Violation]:
        """Record ``event``, and yield its violations."""
        match event:
            case ReservationMade():
                yield from self._make(event)
            case ReservationMoved():
                yield from self._move(event)
            case ReservationClosed():
                yield from self._close(event)
            case LeaseStarted():
                yield from self._start(event)
            case RunEnded() | RunRequeued():
                self.running.discard(event.run)
                if event.run in self.of_run:
                    reservation = self.of_run[event.run]
                    yield Violation("I11", event.run, f"ends, but has reservation {reservation}")
            case RunStopping() if event.run in self.of_run:
                yield Violation("I11", event.run, "is stopped, but still waits for its start")
            case _:
                return

    def settle(self) -> Iterator[Violation]:
        """Yield a violation for each run that did not start after its reservation was activated."""
        for run in self.activated:
            yield Violation("I6", run, "was to start, but did not")

    def _make(self, event: ReservationMade) -> Iterator[Violation]:
        if event.reservation in self.open or event.run in self.of_run:
            yield Violation("I6", event.reservation, f"run {event.run} has a reservation already")
        if event.run in self.running:
            yield Violation("I11", event.reservation, f"run {event.run} is running")
        if event.planned_start_ms < event.at_ms or not event.payers or not event.slice.domains:
            yield Violation("I6", event.reservation, "has no place or payer, or a past start")
        self.open[event.reservation] = event
        self.of_run[event.run] = event.reservation

    def _move(self, event: ReservationMoved) -> Iterator[Violation]:
        if event.reservation not in self.open:
            yield Violation("I6", event.reservation, "moves, but does not exist")
        elif event.cause.code is MoveCode.AS_RECORDED and not event.cause.note:
            yield Violation("I6", event.reservation, "moves without a cause")
        if (event.planned_start_ms is None) != (not event.payers):
            yield Violation(
                "I2", event.reservation, "has payers but no start, or a start but no payers"
            )

    def _close(self, event: ReservationClosed) -> Iterator[Violation]:
        made = self.open.pop(event.reservation, None)
        if made is None:
            yield Violation("I6", event.reservation, "is closed, but was not open")
            return
        del self.of_run[made.run]
        if event.outcome is ReservationOutcome.ACTIVATED:
            self.activated[made.run] = event.at_ms

    def _start(self, event: LeaseStarted) -> Iterator[Violation]:
        if event.run in self.of_run:
            yield Violation("I6", event.run, f"starts and keeps {self.of_run[event.run]}")
        at_ms = self.activated.pop(event.run, event.at_ms)
        if at_ms != event.at_ms:
            yield Violation("I6", event.run, f"was to start at {at_ms}, and starts later")
        self.running.add(event.run)
