"""Watches the output of a run: sends lines as they are stored, until the run has ended.

A file does not report that it grows, so the file is polled: often while the run writes, less often
while the run is silent. The polling is done outside the ledger thread, which only answers whether
the run is over.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final

from quorate.loop.engine import Engine
from quorate.operations.caller import Caller
from quorate.operations.caller_standing import check_standing
from quorate.operations.cursor import Shown
from quorate.operations.fleet.log_following import LogFollower
from quorate.service.ledger_thread import LedgerThread

LOOK_S_MIN: Final = 0.1
LOOK_S_MAX: Final = 1.0
"""The longest pause between two polls: pauses grow while the run is silent."""
SLOWER: Final = 1.25
CHECK_S: Final = 1.0
"""How often the ledger is asked whether the run is over, while other events are recorded."""
STANDING_S: Final = 15.0
"""How often the caller's permission is checked while nothing is recorded."""


class LogWatcher:
    """A client that follows the output of a run.

    Lines up to ``cursor``, counted from 0, were read for the client. The cursor is -1 before the
    first line.
    """

    def __init__(self, ledger_thread: LedgerThread, caller: Caller, follower: LogFollower) -> None:
        self._ledger_thread = ledger_thread
        self._caller = caller
        self._follower = follower
        self._seq = -1
        self._checked_s = -STANDING_S
        self._look_s = LOOK_S_MIN
        self.cursor = self.told_cursor = follower.next - 1

    @property
    def is_over(self) -> bool:
        """Whether all output of the run was read, and the run writes no more."""
        return self._follower.is_over

    async def next(self, timeout_s: float) -> list[Shown]:
        """Return the next lines; empty if none came in time.

        Raises ``CommandError`` if the watcher lost its permission.
        """
        ends_s = monotonic() + timeout_s
        while True:
            await self._check()
            tree = await asyncio.to_thread(self._follower.read)
            if tree is not None:
                self._look_s = LOOK_S_MIN
                self.cursor = tree["next"] - 1
                return [Shown(self.cursor, tree, is_common=False)]
            left_s = ends_s - monotonic()
            if left_s <= 0:
                return []
            await asyncio.sleep(min(self._look_s, left_s))
            self._look_s = min(LOOK_S_MAX, self._look_s * SLOWER)

    async def _check(self) -> None:
        """Ask the ledger about the run and the caller, if either may have changed."""
        since_s = monotonic() - self._checked_s
        has_moved = self._ledger_thread.recorded_seq != self._seq and since_s >= CHECK_S
        if not has_moved and since_s < STANDING_S:
            return
        self._seq, self._checked_s = self._ledger_thread.recorded_seq, monotonic()
        await self._ledger_thread.run(self._look)

    def _look(self, engine: Engine) -> None:
        check_standing(engine.view, self._caller, engine.now_ms())
        self._follower.check(self._ledger_thread.context(engine, self._caller))
