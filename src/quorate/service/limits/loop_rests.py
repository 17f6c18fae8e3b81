"""Rests of the event loop while requests are rejected, so that it rejects many in one turn.

The event loop and the ledger's thread share the interpreter. While the ledger decides, the loop
waits for the interpreter at each request that comes, and the ledger when the loop is done with it:
these switches cost several times what a rejection does. So the loop rests for some milliseconds
after a turn in which it rejected, while the ledger decides, and then answers all that has come;
and neither thread asks the other for the interpreter as early as usual.

A request that is answered takes twenty times as long as one that is rejected. A loop that is behind
with its turns rejects while there are many requests for the ledger to decide: if it admitted each
for which there is a place, it would come to the others later and later.
"""

from __future__ import annotations

import sys
from asyncio import AbstractEventLoop
from collections.abc import Callable
from time import monotonic, sleep
from typing import Final

SWITCH_S: Final = 0.0001
"""How long a thread waits before it asks another for the interpreter."""
BATCH_SWITCH_S: Final = 0.005
"""How long it waits while requests are rejected."""
REST_S: Final = 0.004
"""How long the loop rests after a turn in which it rejected."""
LOOK_S: Final = 0.01
"""How often the loop notes that it goes on, while requests are rejected."""
BEHIND_S: Final = 0.04
"""A loop that has not noted so for this long is behind."""
CALM_S: Final = 0.25
"""For so long no request has to be rejected before threads ask as early as usual again."""


class LoopRests:
    """The rests of one event loop; for that loop only.

    ``switch_after`` sets how long threads wait for the interpreter; ``rest`` sleeps.
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
        """Whether the loop takes long for its turns while requests are rejected."""
        return self._is_busy and self._now_s() - self._looked_s > BEHIND_S

    def rejected(self, loop: AbstractEventLoop) -> None:
        """Have ``loop`` rest once when this turn is over, however many requests it rejects."""
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
        """Note that the loop goes on; switch as usual once nothing was rejected for a while."""
        self._looked_s = self._now_s()
        if self._looked_s < self._last_s + CALM_S:
            loop.call_later(LOOK_S, self._look, loop)
            return
        self._is_busy = False
        self._switch_after(SWITCH_S)
