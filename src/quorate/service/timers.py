"""Timers: records due changes of a served ledger, between two answers.

The more leases there are, the longer it takes to compute when the next change is due. So this time
is not computed after each commit. The longer a computation takes, the longer is the pause before
the next computation, up to a second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic
from typing import Final

from quorate.loop.driver import Driver
from quorate.loop.engine import Engine
from quorate.ports.errors import QuorateError
from quorate.ports.executor_port import ServedExecutor

_LOG = logging.getLogger(__name__)

SLEEP_S_MAX: Final = 60.0
"""The longest sleep of the thread, so that it soon notices that the clock was set."""
TROUBLE_S: Final = 1.0
"""How long until a due action that the store refused is tried again."""
PAUSE_S_MAX: Final = 1.0
"""The longest pause before the time of the next due change is computed again.

If a commit makes an action due at once, the action may wait up to ``PAUSE_S_MAX``.
"""
_PAUSES: Final = 10
"""The pause after a computation, as a multiple of the time that the computation took.

So computing takes less than a tenth of the time. But no pause is longer than ``PAUSE_S_MAX``.
"""


class Timers:
    """Records due changes, on the ledger thread; ``trouble`` says why recording fails.

    ``executor`` returns the present executor. ``failures`` counts the attempts that failed.
    """

    def __init__(self, engine: Engine, executor: Callable[[], ServedExecutor | None]) -> None:
        self._engine = engine
        self._driver = Driver(engine)
        self._executor = executor
        self._due_ms: int | None = None
        self._is_stale = True
        self._not_before_s = 0.0
        self.trouble = ""
        self.failures = 0

    def begin(self) -> None:
        """Check for due work at once, because this service has just begun to decide."""
        self._driver = Driver(self._engine)
        self._is_stale, self._not_before_s, self.trouble = True, 0.0, ""

    def look_again(self) -> None:
        """Record that a commit may have made something else due."""
        self._is_stale = True

    def wait_s(self) -> float:
        """Return the seconds until ``do_due`` is to be called."""
        pause_s = self._not_before_s - monotonic()
        if self._is_stale:
            return max(0.0, pause_s)
        if self._due_ms is None:
            return SLEEP_S_MAX
        due_s = (self._due_ms - self._engine.now_ms()) / 1_000
        return min(SLEEP_S_MAX, max(0.0, due_s, pause_s))

    def do_due(self) -> bool:
        """Carry out due work, if a check is due; return whether anything may have been recorded."""
        if self.wait_s() > 0:
            return False
        began_s = monotonic()
        if self._engine.stopped:
            # The log already says why deciding has stopped; an operator may resume deciding.
            self._not_before_s = began_s + TROUBLE_S
            return False
        try:
            due_ms = self._driver.step()
        except QuorateError as error:
            _LOG.warning("a due action could not be recorded; trying again: %s", error)
            self.trouble = str(error)
            self.failures += 1
            self._not_before_s = began_s + TROUBLE_S
            return False
        took_s = monotonic() - began_s
        self.trouble, self._is_stale = "", False
        self._not_before_s = monotonic() + min(PAUSE_S_MAX, _PAUSES * took_s)
        executor = self._executor()
        next_ms = None if executor is None else executor.next_ms()
        self._due_ms = min((ms for ms in (due_ms, next_ms) if ms is not None), default=None)
        return True
