"""The watchdog of the ledger thread: tells waiting callers when one task takes too long."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final

STUCK_S: Final = 10.0
"""How long one task may take before the service reports that it is not ready."""


class Watchdog:
    """The present task of one thread; this thread sets it, and any thread may read it.

    ``now_s`` is a monotonic clock.
    """

    def __init__(self, now_s: Callable[[], float] = monotonic) -> None:
        self._now_s = now_s
        # The pair is replaced as a whole, so that no reader sees half of it.
        self._doing: tuple[str, float] | None = None

    def begin(self, what: str) -> None:
        """Record the task that begins now."""
        self._doing = (what, self._now_s())

    def rest(self) -> None:
        """Record that there is no task."""
        self._doing = None

    @property
    def trouble(self) -> str:
        """Which task takes too long, and how long it takes already; empty if no task does."""
        doing = self._doing
        if doing is None:
            return ""
        what, began_s = doing
        busy_s = self._now_s() - began_s
        if busy_s <= STUCK_S:
            return ""
        return f"the ledger thread has been busy with {what} for {busy_s:.0f} s"
