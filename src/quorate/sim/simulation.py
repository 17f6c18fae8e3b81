"""The simulated machine room: true time, the actions in it, and the engine that runs there.

Actions happen in the order of (instant, sequence). The engine is the production engine on the given
store. The engine reads time from a wall clock that may be wrong. It may be ended and opened again
at any instant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, Protocol

from quorate.core.commands import Command
from quorate.core.decision_log import GoOn, always
from quorate.ledger.chain import GENESIS
from quorate.loop.commit_types import Asked, Receipt
from quorate.loop.driver import Driver
from quorate.loop.engine import SNAPSHOT_EVENTS, Engine
from quorate.model.state.state_view import StateView
from quorate.ports.executor_port import Executor, Order, Report
from quorate.ports.store_port import EventStore

if TYPE_CHECKING:
    from quorate.loop.rounds.round_problem import PoolPolicy

Action = Callable[[], None]

STEPS_PER_INSTANT_MAX: Final = 10_000
"""The simulation is stuck if the driver makes more steps than this at one instant."""
LOTTERY_SECRET: Final = b"what is simulated is not secret."
LOTTERY_LENGTH: Final = 1_000
"""How many lotteries one simulation may draw."""


class CrashedError(Exception):
    """The program that owned the engine has ended during an operation."""


@dataclass(slots=True)
class VirtualClock:
    """A wall clock: true time plus ``skew_ms``."""

    true_ms: int
    skew_ms: int = 0

    def now_ms(self) -> int:
        """Return the time of the clock."""
        return self.true_ms + self.skew_ms


@dataclass(slots=True)
class Timeline:
    """True time and planned actions; actions of one instant run in the order of planning."""

    clock: VirtualClock
    _planned: list[tuple[int, int, Action]] = field(default_factory=list)
    _sequence: int = 0

    @property
    def now_ms(self) -> int:
        """The true time."""
        return self.clock.true_ms

    def at(self, at_ms: int, action: Action) -> None:
        """Plan ``action`` for ``at_ms``, or for the present instant if ``at_ms`` is past."""
        self._sequence += 1
        heappush(self._planned, (max(at_ms, self.now_ms), self._sequence, action))

    def after(self, ms: int, action: Action) -> None:
        """Plan ``action`` for ``ms`` from now."""
        self.at(self.now_ms + ms, action)

    def next_ms(self) -> int | None:
        """Return when the next action happens."""
        return self._planned[0][0] if self._planned else None

    def planned(self) -> tuple[int, list[tuple[int, int, Action]]]:
        """Return the last sequence number, and (instant, number, action) of each planned action."""
        return self._sequence, sorted(self._planned, key=lambda each: each[:2])

    def restore(self, sequence: int, planned: Sequence[tuple[int, int, Action]]) -> None:
        """Plan the actions ``planned`` of another timeline, with the same numbers."""
        self._sequence, self._planned = sequence, list(planned)
        heapify(self._planned)

    def take(self) -> Action:
        """Advance time to the next action, and return the action."""
        self.clock.true_ms, _, action = heappop(self._planned)
        return action


class Observer(Protocol):
    """Observes the engine. An observer may read everything, but must not change anything."""

    def asked(self, commands: Sequence[Command], now_ms: int) -> None:
        """Observe the commands that the engine is about to decide at ``now_ms``."""
        ...

    def decided(self, command: Command, receipt: Receipt, view: StateView) -> None:
        """Observe the result of one command of a committed group."""
        ...

    def committed(self, receipts: Sequence[Receipt], view: StateView) -> None:
        """Observe the state after a group was decided, even if no block was recorded for it."""
        ...

    def reopened(self, view: StateView) -> None:
        """Observe the state with which the engine was opened again after a crash."""
        ...


class WatchedEngine(Engine):
    """The production engine, which also notifies observers of its commits."""

    observers: Sequence[Observer] = ()

    def commit_group(self, asked: Sequence[Asked], go_on: GoOn = always) -> list[Receipt]:
        """Decide and commit as ``Engine`` does, and notify the observers before and after."""
        commands = [each.command for each in asked]
        for observer in self.observers:
            observer.asked(commands, self.now_ms())
        receipts = super().commit_group(asked, go_on)
        for observer in self.observers:
            for command, receipt in zip(commands, receipts, strict=False):
                observer.decided(command, receipt, self.view)
            observer.committed(receipts, self.view)
        return receipts


@dataclass(slots=True)
class _Line:
    """The connection from an opened engine to the executor; drops orders after the engine ends."""

    executor: Executor
    is_cut: bool = False

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        if not self.is_cut:
            self.executor.carry_out(orders, term=term)

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        if not self.is_cut:
            self.executor.resume(orders, term=term, is_whole=is_whole)

    def reports(self) -> Sequence[Report]:
        return self.executor.reports()

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        return self.executor.steps(runs)


class Simulation:
    """An engine in simulated time. If ``executor`` is None, no work runs, and stops end at once.

    An empty ``store`` gets a new ledger. The ledger of any other store continues, and the
    ``executor`` must have the open leases of this ledger.
    """

    def __init__(
        self,
        timeline: Timeline,
        store: EventStore,
        executor: Executor | None = None,
        *,
        observers: Sequence[Observer] = (),
        snapshot_events: int = SNAPSHOT_EVENTS,
    ) -> None:
        self.snapshot_events = snapshot_events
        self.policies: Mapping[str, PoolPolicy] | None = None
        # If True, one step handles all actions of an instant, as in a busy daemon.
        self.is_crowded = False
        self.timeline = timeline
        self.store = store
        self.observers = observers
        self._executor = executor
        self._line = None if executor is None else _Line(executor)
        engine = self._begun() if store.head() == GENESIS else self._opened()
        self._engine: WatchedEngine | None = engine
        self._adopt(engine)
        self.due_ms: int | None = None
        """When the driver is due next; None if the driver waits for the next action."""

    def _begun(self) -> WatchedEngine:
        return WatchedEngine.create(
            self.store,
            self.timeline.clock,
            ledger_id="simulated",
            public_key="",
            actor="simulation",
            executor=self._line,
            lottery_secret=LOTTERY_SECRET,
            lottery_length=LOTTERY_LENGTH,
        )

    def _opened(self) -> WatchedEngine:
        return WatchedEngine.open(
            self.store,
            self.timeline.clock,
            executor=self._line,
            lottery_secret=LOTTERY_SECRET,
        )

    @property
    def engine(self) -> WatchedEngine | None:
        """The engine, or None while it is down."""
        return self._engine

    def share_by(self, policies: Mapping[str, PoolPolicy] | None) -> None:
        """From now on, give pools that share in rounds the policies ``policies``.

        None means all installed policies.
        """
        self.policies = policies
        if self._engine is not None:
            self._engine.policies = policies

    def send(self, command: Command, *, actor: str) -> Receipt | None:
        """Send ``command``; return None if the engine is down or ends before it answers.

        If the result is None, the command may or may not have been recorded.
        """
        receipts = self.send_all([command], actor=actor)
        return receipts[0] if receipts else None

    def send_all(self, commands: Sequence[Command], *, actor: str) -> list[Receipt]:
        """Send ``commands`` of one instant to the engine, and return its answers.

        The engine decides the commands together, before any due work. If the engine is down or
        ends before it answers, return an empty list.
        """
        if self._engine is None:
            return []
        try:
            return self._engine.execute_all(commands, actor=actor)
        except CrashedError:
            self.crash()
            return []

    def crash(self) -> None:
        """End the engine as in a crash; only the store and the executor remain."""
        if self._line is not None:
            self._line.is_cut = True
        self._engine, self.due_ms = None, None

    def reopen(self) -> None:
        """Open the engine on its store; do nothing if the engine is open."""
        if self._engine is not None:
            return
        self._line = None if self._executor is None else _Line(self._executor)
        engine = self._opened()
        self._engine = engine
        self._adopt(engine)
        for observer in self.observers:
            observer.reopened(engine.view)
        self.step()

    def _adopt(self, engine: WatchedEngine) -> None:
        engine.observers, engine.snapshot_events = self.observers, self.snapshot_events
        engine.policies = self.policies

    def run(self, until_ms: int) -> None:
        """Run all actions up to ``until_ms``.

        The driver makes a step after each action, and whenever it is due.
        """
        steps, instant_ms = 0, self.timeline.now_ms
        while True:
            wake_ms, event_ms = self._wake_ms(), self.timeline.next_ms()
            next_ms = min((ms for ms in (wake_ms, event_ms) if ms is not None), default=None)
            if next_ms is None or next_ms > until_ms:
                break
            steps = 0 if next_ms > instant_ms else steps + 1
            instant_ms = max(next_ms, instant_ms)
            assert steps < STEPS_PER_INSTANT_MAX, f"the simulation is stuck at {next_ms}"
            if event_ms == next_ms:
                self.timeline.take()()
                while self.is_crowded and self.timeline.next_ms() == next_ms:
                    self.timeline.take()()
            else:
                self.timeline.clock.true_ms = next_ms
            self.step()
        self.timeline.clock.true_ms = max(until_ms, self.timeline.now_ms)

    def step(self) -> None:
        """Let the driver do everything that is due now."""
        if self._engine is None:
            return
        try:
            self.due_ms = Driver(self._engine).step()
        except CrashedError:
            self.crash()

    def _wake_ms(self) -> int | None:
        """Return the true time at which the driver's wall clock will reach its next due instant."""
        if self.due_ms is None:
            return None
        return max(self.timeline.now_ms, self.due_ms - self.timeline.clock.skew_ms)
