"""Runs a scenario on the production engine, with a ledger in memory and a clock that it sets.

Between two steps, the engine carries out each due action at the instant at which it is due, as in a
service. A *quiet* stage carries out only the steps. With an executor, a stop is complete only when
a step of the script confirms it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.calc.scenario_script import Confirmed, Deed, Reconcile, Restart
from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import Violation, sweep
from quorate.core.commands import Applied, Apply, Command, Confirm, Submit, Tick
from quorate.ledger.chain import GENESIS, open_blocks
from quorate.loop.driver import Driver
from quorate.loop.engine import Engine
from quorate.model.events import Event
from quorate.model.refusal import Refusal
from quorate.model.state.state_view import StateView
from quorate.ports.executor_port import Order, Report
from quorate.sim.simulation import LOTTERY_LENGTH

ACTOR: Final = "scenario"
DUE_MAX: Final = 10_000
"""The most times that the engine may carry out due actions between two steps."""


class StandstillError(Exception):
    """More than ``DUE_MAX`` actions became due before the instant of a step."""


@dataclass(slots=True)
class _Clock:
    ms: int

    def now_ms(self) -> int:
        return self.ms


class PatientExecutor:
    """An executor that runs no work. The script reports the results of the executor's orders."""

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        """Accept the orders, and do nothing."""

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        """Accept the orders for all open leases again, and do nothing."""

    def reports(self) -> Sequence[Report]:
        """Return no reports: the script reports by ``confirm``, ``complete`` and ``fail``."""
        return ()

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        """Return no steps, because no work runs."""
        del runs
        return {}


class Stage:
    """One ledger and its engine. ``secret`` is the secret of the ledger's lotteries."""

    def __init__(
        self, *, now_ms: int, secret: bytes, has_executor: bool = False, quiet: bool = False
    ) -> None:
        self._clock = _Clock(now_ms)
        self._store = MemoryStore()
        self._secret = secret
        self._executor = PatientExecutor() if has_executor else None
        self._quiet = quiet
        self._head = GENESIS
        self._events: list[Event] = []
        self._engine = Engine.create(
            self._store,
            self._clock,
            ledger_id=ACTOR,
            public_key="",
            actor=ACTOR,
            executor=self._executor,
            lottery_secret=secret,
            lottery_length=LOTTERY_LENGTH,
        )

    @property
    def view(self) -> StateView:
        """The present state."""
        return self._engine.view

    @property
    def now_ms(self) -> int:
        """The time of the clock."""
        return self._clock.ms

    @property
    def has_executor(self) -> bool:
        """Whether a stop lasts until an executor confirms it."""
        return self._executor is not None

    def apply(self, specs: Sequence[Applied]) -> tuple[Refusal, ...]:
        """Apply ``specs``; return the refusals, if there are any."""
        return self._do(Apply(tuple(specs)))

    def advance(self, to_ms: int) -> None:
        """Set the clock; if the stage is not quiet, carry out the actions due until ``to_ms``."""
        for _ in range(DUE_MAX):
            due_ms = None if self._quiet else Driver(self._engine).step()
            if due_ms is None or due_ms > to_ms:
                break
            self._clock.ms = max(self._clock.ms, due_ms)
        else:
            raise StandstillError(
                f"more than {DUE_MAX} changes are due before this time; choose an earlier one"
            )
        # A script may set the clock back, in order to test that the ledger's time does not go back.
        self._clock.ms = to_ms

    def act(self, deed: Deed) -> tuple[Refusal, ...]:
        """Carry out one deed and, if the stage is not quiet, all actions that are due then.

        Return the refusals of the deed, or no refusals.
        """
        refusals = self._act(deed)
        if not self._quiet:
            Driver(self._engine).step()
        return refusals

    def _act(self, deed: Deed) -> tuple[Refusal, ...]:
        match deed:
            case Reconcile():
                known = deed.run.name in self.view.runs
                return self._do(Tick() if known else Submit(deed.run))
            case Confirmed():
                return self._confirm(deed)
            case Restart():
                self._engine = Engine.open(
                    self._store,
                    self._clock,
                    executor=self._executor,
                    lottery_secret=self._secret,
                )
                return ()
            case _:
                return self._do(deed)

    def _confirm(self, deed: Confirmed) -> tuple[Refusal, ...]:
        """Confirm that the stopping leases that ``deed`` names have ended; return the refusals."""
        going = [
            name
            for name, lease in self.view.leases.items()
            if lease.ending is not None
            and deed.run in ("", lease.fact.run)
            and deed.lease in ("", name)
        ]
        if not going and deed.lease:
            return self._do(Confirm(deed.lease))
        return tuple(refusal for name in going for refusal in self._do(Confirm(name)))

    def _do(self, command: Command) -> tuple[Refusal, ...]:
        receipt = self._engine.execute(command, actor=ACTOR)
        return receipt.decision.refusals

    def news(self) -> list[Event]:
        """Return the events recorded since the last call."""
        blocks = self._store.blocks(from_height=self._head.height + 1)
        found: list[Event] = []
        for head, events in open_blocks(blocks, after=self._head):
            self._head = head
            found += events
        self._events += found
        return found

    def violations(self, *, whole: bool = False) -> list[Violation]:
        """Return the violated invariants in the state and, if ``whole``, in the whole history."""
        found = sweep(self.view)
        if whole:
            found += audit(self._events, view=self.view)
        return found
