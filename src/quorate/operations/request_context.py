"""The request context: a ledger as of now, and the caller.

Since the last event, changes may have become due, such as the end of a hold. For a read, these
changes are made in an overlay, so that amounts are right to the millisecond. The next command that
writes records the changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

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
"""A function that signs the end of a ledger with the ledger's key, given the state and the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideLedger:
    """What a service needs besides its ledger: the signer, logs, reports and mail domains.

    Unlike the ledger, these can be used on any thread and in any process. The fields mean the same
    as in ``RequestContext``.
    """

    name: str = "the ledger"
    signer: Signer | None = None
    logs: Logs | None = None
    reports: Reports | None = None
    mail_domains: tuple[str, ...] | None = None


ONLY_A_LEDGER: Final = BesideLedger()
"""No signer, no output of runs, no reports and no mail."""


class Instant:
    """A state at one instant, with values derived from it, for all requests about the instant.

    The state must not change while this object is used.
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
        """The runs whose money has ended, although no event has recorded this yet."""
        events = self._log.events
        return tuple(event.run for event in events if isinstance(event, RunRequeued))

    @cached_property
    def shown(self) -> Outlook:
        """The outlook on the state after due holds are settled."""
        if not self._log.events:
            return self.outlook
        return Outlook(self._log.view, self.now_ms, has_executor=self.outlook.has_executor)


@dataclass
class RequestContext:
    """The context of one request. ``prefix`` are the CLI options that reach the same ledger.

    ``signer`` signs checkpoints. If it is None, no checkpoint can be signed. ``recent`` has the
    decoded blocks that all followers of the ledger share. If it is None, each follower reads the
    store. ``logs`` has the output of runs. ``reports`` has the reports of simulations.
    ``accounting`` has the status of the link to an accounting system. ``clock_control`` has the
    check of the wall clock. ``quorum`` has the services of the ledger. Each of these five is None
    if it does not exist.

    ``mail_domains`` are the domains to which the service sends the mail that runs ask for. It is
    None without a service. ``is_executed`` means that the executor of another engine runs the work,
    and that the engine here only reads. ``instant`` is an instant that answers to several callers
    share. If it is None, the answer is as of now. ``widths_max`` is the most widths that all runs
    of one request may have together, if other requests wait for the same ledger
    (``batch_bounds.py``). None means no limit. ``go_on`` is called during the decision of an order.
    When it returns False, the decision is stopped.
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
        """Whether a stop is complete only when an executor confirms it."""
        return self.is_executed or self.engine.executor is not None

    @property
    def recorded(self) -> StateView:
        """The state in the ledger."""
        return self.engine.view

    @property
    def store(self) -> EventStore:
        """The ledger, up to the head of the state."""
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
        """The outlook as of now: values derived from the recorded state."""
        return self._instant.outlook

    @cached_property
    def moment(self) -> Moment:
        """The state with holds settled. A note names the caller's runs whose money has ended."""
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
                f"note: the budget of {', '.join(stopped)} is exhausted; this is shown, but not "
                "yet recorded; record it: quorate tick"
            )
        return found

    def aside(self) -> tuple[str, ...]:
        """Return the notes, including the note about runs whose money has ended."""
        _ = self.moment
        return tuple(self.notes)


@dataclass(frozen=True, kw_only=True)
class BlocksContext:
    """A context that reads only blocks, for a ledger from which no state can be computed."""

    store: EventStore
    clock: Clock
    caller: Caller
    name: str = "the ledger"
    signer: Signer | None = None

    @property
    def now_ms(self) -> int:
        """The time of the clock, even if it went back: there is no state to compare it with."""
        return self.clock.now_ms()


@dataclass(frozen=True, kw_only=True)
class CallerContext:
    """The context for requests of a caller about itself, which read no ledger."""

    caller: Caller
    tenants: Tenants


AnyContext = RequestContext | BlocksContext
