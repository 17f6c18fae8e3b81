"""The request context: a ledger as of now, and the caller.

What time has made due since the last event (holds that ran out) is settled for readers in an
overlay, so that amounts are right to the millisecond; the next command that writes records it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from quorate.core.decision_log import DecisionLog, GoOn, always
from quorate.core.explain.state_outlook import Outlook
from quorate.core.lifecycle.settle import settle_holds
from quorate.ledger.chain import Head
from quorate.ledger.checkpoint import Checkpoint
from quorate.loop.engine import Engine
from quorate.model.events import RunRequeued
from quorate.model.state.state import State
from quorate.model.state.state_view import StateView
from quorate.operations.caller import Caller
from quorate.operations.recent_blocks import Recent
from quorate.operations.visibility import Tenants, seen_by
from quorate.ports.accounting_port import LinkStatus
from quorate.ports.clock_port import Clock, ClockControl
from quorate.ports.leader_port import QuorumControl
from quorate.ports.log_port import Logs
from quorate.ports.report_port import Reports
from quorate.ports.store_port import EventStore
from quorate.views.runs.instant import Moment

Signer = Callable[[State, Head, int], Checkpoint]
"""Signs that a ledger with this state ends there, at this time; it holds the ledger's key."""


class Instant:
    """A state at one instant, and what follows from it; for all questions about it alike.

    The state must not change while this is used.
    """

    def __init__(self, view: StateView, now_ms: int, *, has_executor: bool) -> None:
        self.outlook = Outlook(view, now_ms, has_executor=has_executor)

    @property
    def now_ms(self) -> int:
        """The time as of which everything is shown."""
        return self.outlook.now_ms

    @cached_property
    def _log(self) -> DecisionLog:
        log = DecisionLog(self.outlook.view, now_ms=self.now_ms, actor="reader")
        settle_holds(log)
        return log

    @cached_property
    def stopped(self) -> tuple[str, ...]:
        """The runs whose money has ended, which is not recorded yet."""
        events = self._log.events
        return tuple(event.run for event in events if isinstance(event, RunRequeued))

    @cached_property
    def shown(self) -> Outlook:
        """The outlook on the state with holds settled; the same one if nothing was due."""
        if not self._log.events:
            return self.outlook
        return Outlook(self._log.view, self.now_ms, has_executor=self.outlook.has_executor)


@dataclass
class RequestContext:
    """Used for one question or order. ``prefix`` are the options that reach the same ledger.

    Without a ``signer`` no checkpoint can be signed here. ``recent`` are the blocks that all who
    follow the ledger read together; without it each reads the store. Without ``logs`` no output of
    runs is kept here, and without ``reports`` no reports of simulations; without ``accounting`` no
    accounting system is linked here; without ``clock_control`` the wall clock is not compared with
    another; without ``quorum`` no service answers. ``mail_domains`` are those to which a service
    mails what runs ask for; None where no service answers.
    ``is_executed`` says that an executor runs the work though the engine here, which only reads,
    has none. ``instant`` is as of when the caller is answered, where others are answered from it,
    too; without it, that is now. ``widths_max`` is how many widths the runs of one request may
    have where others wait for the same ledger (``batch_bounds.py``); without it any number.
    Deciding an order is given up when it may not ``go_on``.
    """

    engine: Engine
    caller: Caller
    prefix: tuple[str, ...] = ()
    name: str = "the ledger"
    notes: list[str] = field(default_factory=list)
    signer: Signer | None = None
    recent: Recent | None = None
    logs: Logs | None = None
    reports: Reports | None = None
    mail_domains: tuple[str, ...] | None = None
    is_executed: bool = False
    accounting: LinkStatus | None = None
    clock_control: ClockControl | None = None
    quorum: QuorumControl | None = None
    instant: Instant | None = None
    widths_max: int | None = None
    go_on: GoOn = always

    @property
    def has_executor(self) -> bool:
        """Whether a stop lasts until an executor confirms it."""
        return self.is_executed or self.engine.executor is not None

    @property
    def recorded(self) -> StateView:
        """The state in the ledger."""
        return self.engine.view

    @property
    def store(self) -> EventStore:
        """The ledger, as far as the state has it."""
        return self.engine.seen

    @property
    def tenants(self) -> Tenants:
        """The tenants in the ledger."""
        return Tenants.of(self.recorded)

    @cached_property
    def _instant(self) -> Instant:
        return self.instant or Instant(
            self.recorded, self.engine.now_ms(), has_executor=self.has_executor
        )

    @property
    def now_ms(self) -> int:
        """The time as of which everything is shown."""
        return self._instant.now_ms

    @property
    def outlook(self) -> Outlook:
        """What follows from the state in the ledger now."""
        return self._instant.outlook

    @cached_property
    def moment(self) -> Moment:
        """The state with holds settled; a note names the caller's runs that time has stopped."""
        shown = self._instant.shown
        found = Moment(
            shown.view,
            self.now_ms,
            self.recorded.seq,
            seen_by(self.recorded, self.caller),
            self.has_executor,
            shared=shown,
        )
        stopped = [run for run in self._instant.stopped if found.redaction.shows_run(run)]
        if stopped:
            self.notes.append(
                f"note: the money of {', '.join(stopped)} has ended, which is shown and not yet "
                "recorded; record it: quorate tick"
            )
        return found

    def aside(self) -> tuple[str, ...]:
        """Return the notes, with the runs that time has stopped."""
        _ = self.moment
        return tuple(self.notes)


@dataclass(frozen=True, kw_only=True)
class BlockDesk:
    """A context in which the blocks alone are read: for a ledger that does not fold."""

    store: EventStore
    clock: Clock
    caller: Caller
    name: str = "the ledger"
    signer: Signer | None = None

    @property
    def now_ms(self) -> int:
        """The time; without a state it may run back."""
        return self.clock.now_ms()


@dataclass(frozen=True, kw_only=True)
class CallerContext:
    """A request context for questions of a caller about itself; no ledger is read."""

    caller: Caller
    tenants: Tenants


AnyDesk = RequestContext | BlockDesk
