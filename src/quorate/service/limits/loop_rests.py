"""Pauses the event loop while requests are rejected, so that one turn rejects many requests.

The event loop and the ledger thread share the interpreter lock. While the ledger decides, each
request that arrives moves the lock from the ledger thread to the loop and back. These two switches
cost several times as much as a rejection. So if the ledger decides after a turn with rejections,
the loop sleeps for some milliseconds, and then answers all requests that have arrived. In addition
both threads request the lock later than usual.

Answering a request takes twenty times as long as rejecting it. So while the ledger has many
requests to decide, a loop that is behind rejects requests even below the limit. Otherwise the loop
would fall further and further behind.
"""

from __future__ import annotations

import sys
from asyncio import AbstractEventLoop
from collections.abc import Callable
from time import monotonic, sleep
from typing import Final

SWITCH_S: Final = 0.0001
"""How long a thread waits before it requests the interpreter lock from another thread."""
BATCH_SWITCH_S: Final = 0.005
"""How long a thread waits for the lock while requests are rejected."""
REST_S: Final = 0.004
"""How long the loop sleeps after a turn with rejections."""
LOOK_S: Final = 0.01
"""How often the loop records that it makes progress, while requests are rejected."""
BEHIND_S: Final = 0.04
"""The loop is behind if it has not recorded progress for ``BEHIND_S``."""
CALM_S: Final = 0.25
"""How long after the last rejected request threads request the lock as usual again."""


class LoopRests:
    """The pauses of one event loop; for that loop only.

    ``switch_after`` sets how long threads wait for the interpreter lock; ``rest`` sleeps.
    """

    def __init__(
        self,
        switch_after: Callable[[float], None] = sys.setswitchinterval,
        rest: Callable[[float], None] = sleep,
        now_s: Callable[[], float] = monotonic,
    ) -> None:
        self._switch_after = switch_after
        self._rest = rest
        self._now_s = now_s
        self._is_due = False
        self._is_busy = False
        self._last_s = 0.0
        self._looked_s = 0.0

    @property
    def is_behind(self) -> bool:
        """Whether the turns of the loop take long while requests are rejected."""
        return self._is_busy and self._now_s() - self._looked_s > BEHIND_S

    def rejected(self, loop: AbstractEventLoop) -> None:
        """Let ``loop`` sleep once after this turn, however many requests it rejects."""
        if not self._is_due:
            self._is_due = True
            loop.call_soon(self._begin, loop)

    def _begin(self, loop: AbstractEventLoop) -> None:
        self._is_due = False
        self._last_s = self._now_s()
        if not self._is_busy:
            self._is_busy = True
            self._switch_after(BATCH_SWITCH_S)
            self._look(loop)
        self._rest(REST_S)

    def _look(self, loop: AbstractEventLoop) -> None:
        """Record progress of the loop; after rejections, let threads request the lock as usual."""
        self._looked_s = self._now_s()
        if self._looked_s < self._last_s + CALM_S:
            loop.call_later(LOOK_S, self._look, loop)
            return
        self._is_busy = False
        self._switch_after(SWITCH_S)
