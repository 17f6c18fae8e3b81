"""The driver: sleeps until an action is due, and then calls the engine.

The driver commits the executor's reports, and lets the engine settle conflicts that are due. It
executes ``Tick`` when a hold must be extended or a planned start is due. The caller supplies the
function that waits. So a daemon can be woken early, and a simulation need not sleep at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorate.core.commands import Tick
from quorate.core.next_due import next_due_ms
from quorate.ledger.chain import Head
from quorate.loop.engine import Engine
from quorate.loop.orders import commands_of

ACTOR: Final = "clock"
"""The actor of the events that a tick records."""
EXECUTOR_ACTOR: Final = "executor"
"""The actor of events that the executor reports."""
REPORTS_MAX: Final = 1_000
"""How many reports are committed together; the executor repeats the rest at the next step."""

Wait = Callable[[int | None], bool]
"""Waits until the given instant of the clock; None means to wait until something wakes the driver.

Returns False to end the driver.
"""


class Driver:
    """Drives one engine. Other code may give the engine commands only between two steps."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ticked: tuple[Head, int] | None = None
        """The head after the last tick, and the instant of that tick."""

    def step(self) -> int | None:
        """Carry out everything due now; return when to step again, or None to wait until woken.

        A second call at the same instant changes nothing. A tick may record nothing, for example if
        a lease has outlasted its expected end but no start has to move. The state then still
        reports the same instant as due. The driver ignores this instant until another block is
        recorded.
        """
        self._relay()
        self._engine.settle_due()
        now_ms = self._engine.now_ms()
        due_ms = self._due_ms(after_ms=self._ticked_ms(now_ms))
        if due_ms is None or due_ms > now_ms:
            return due_ms
        self._engine.execute(Tick(), actor=ACTOR)
        self._ticked = self._engine.head, now_ms
        return self._due_ms(after_ms=now_ms)

    def _ticked_ms(self, now_ms: int) -> int | None:
        """Return the instant of the last tick; None if a block was recorded after it."""
        if self._ticked is None:
            return None
        head, ticked_ms = self._ticked
        return ticked_ms if head == self._engine.head and ticked_ms <= now_ms else None

    def run(self, wait: Wait) -> None:
        """Step, wait, and step again until ``wait`` returns False."""
        while wait(self.step()):
            pass

    def _relay(self) -> None:
        """Commit the reports of the executor."""
        executor = self._engine.executor
        if executor is None:
            return
        reports = executor.reports()[:REPORTS_MAX]
        commands = list(commands_of(self._engine.view, reports))
        if commands:
            self._engine.execute_all(commands, actor=EXECUTOR_ACTOR)

    def _due_ms(self, *, after_ms: int | None = None) -> int | None:
        return next_due_ms(
            self._engine.view,
            has_executor=self._engine.executor is not None,
            after_ms=after_ms,
            round_waits=self._engine.round_waits,
        )
