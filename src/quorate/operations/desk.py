"""The desk: a ledger as of now, and who asks.

What time has made due since the last event (holds that ran out) is settled for readers in an
overlay, so that amounts are right to the millisecond; the next command that writes records it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from quorate.answers.moment import Moment
from quorate.core.scribe import Scribe
from quorate.core.settle import settle_holds
from quorate.ledger.chain import Head
from quorate.ledger.checkpoint import Checkpoint
from quorate.loop.engine import Engine
from quorate.model.events import RunRequeued
from quorate.model.state import State
from quorate.model.view import StateView
from quorate.operations.caller import Caller
from quorate.operations.recent import Recent
from quorate.operations.visibility import seen_by
from quorate.ports.accounting import LinkStatus
from quorate.ports.clock import Clock, ClockControl
from quorate.ports.logs import Logs
from quorate.ports.store import EventStore

Signer = Callable[[State, Head, int], Checkpoint]
"""Signs that a ledger with this state ends there, at this time; it holds the ledger's key."""


@dataclass
class Desk:
    """Used for one question or order. ``prefix`` are the options that reach the same ledger.

    Without a ``signer`` no checkpoint can be signed here. ``recent`` are the blocks that all who
    follow the ledger read together; without it each reads the store. Without ``logs`` nobody here
    keeps the output of runs; without ``accounting`` nobody here asks an accounting system; without
    ``clock_control`` the wall clock is not compared with another.
    ``is_executed`` says that an executor runs the work though the engine here, which only reads,
    has none.
    """

    engine: Engine
    caller: Caller
    prefix: tuple[str, ...] = ()
    name: str = "the ledger"
    notes: list[str] = field(default_factory=list)
    signer: Signer | None = None
    recent: Recent | None = None
    logs: Logs | None = None
    is_executed: bool = False
    accounting: LinkStatus | None = None
    clock_control: ClockControl | None = None

    @property
    def has_executor(self) -> bool:
        """Whether stops take as long as an executor takes to say that work has ended."""
        return self.is_executed or self.engine.executor is not None

    @property
    def recorded(self) -> StateView:
        """The state in the ledger."""
        return self.engine.view

    @property
    def store(self) -> EventStore:
        """The ledger itself."""
        return self.engine.store

    @cached_property
    def now_ms(self) -> int:
        """The time as of which everything is told."""
        return self.engine.now_ms()

    @cached_property
    def moment(self) -> Moment:
        """The state with holds settled; a note says which runs of theirs time has stopped."""
        scribe = Scribe(self.recorded, now_ms=self.now_ms, actor="reader")
        settle_holds(scribe)
        found = Moment(
            scribe.view,
            self.now_ms,
            self.recorded.seq,
            seen_by(self.recorded, self.caller),
            self.has_executor,
        )
        ended = (event.run for event in scribe.events if isinstance(event, RunRequeued))
        stopped = [run for run in ended if found.veil.shows_run(run)]
        if stopped:
            self.notes.append(
                f"note: the money of {', '.join(stopped)} has ended, which is shown and not yet "
                "recorded; record it: quorate tick"
            )
        return found

    def aside(self) -> tuple[str, ...]:
        """Return what is said aside, which runs time has stopped included."""
        _ = self.moment
        return tuple(self.notes)


@dataclass(frozen=True, kw_only=True)
class BlockDesk:
    """A desk at which the blocks alone are looked at: a ledger that does not fold is asked here."""

    store: EventStore
    clock: Clock
    caller: Caller
    name: str = "the ledger"
    signer: Signer | None = None

    @property
    def now_ms(self) -> int:
        """The time; no state says that it never runs back."""
        return self.clock.now_ms()


AnyDesk = Desk | BlockDesk
