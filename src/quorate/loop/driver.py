"""The driver: sleeps until something is due, and then has it done.

It brings what the executor reports into the ledger, has conflicts settled that are due, and ticks
when a hold must be renewed or a start is promised. Waiting is handed in, so that a daemon may be
woken early, and a simulation need not sleep at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorate.core.commands import Tick
from quorate.core.next_due import next_due_ms
from quorate.loop.engine import Engine
from quorate.loop.orders import commands_of

ACTOR: Final = "clock"
"""Who causes what time makes due."""
EXECUTOR_ACTOR: Final = "executor"
"""Who causes what the executor reports."""
REPORTS_MAX: Final = 1_000
"""How many reports are committed together; the rest are told again at the next step."""

Wait = Callable[[int | None], bool]
"""Wait until that instant of the clock, or until woken if None; return False to have it end."""


class Driver:
    """Drives one engine. Whoever else gives the engine commands does so between two steps."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def step(self) -> int | None:
        """Do all that is due now, and return when to step again; None when only if woken.

        Doing it twice at one instant changes nothing the second time.
        """
        self._relay()
        self._engine.settle_due()
        now_ms = self._engine.now_ms()
        due_ms = self._due_ms()
        if due_ms is None or due_ms > now_ms:
            return due_ms
        self._engine.execute(Tick(), actor=ACTOR)
        return self._due_ms(after_ms=now_ms)

    def run(self, wait: Wait) -> None:
        """Step, wait, and step again until ``wait`` says that it is enough."""
        while wait(self.step()):
            pass

    def _relay(self) -> None:
        """Commit what the executor reports."""
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
