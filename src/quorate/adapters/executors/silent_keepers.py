"""Finds keepers that are alive but do nothing: stopped by a signal, or hung in the kernel.

A keeper reads each wake-up immediately. A keeper that leaves wake-ups unread cannot end its work at
a deadline, so a cancelled run would hold its GPUs for ever, and its payer would be charged for
the GPUs. The log names such a keeper. When the keeper's work is overdue, the executor kills the
keeper with its work. The next keeper then records that the work has ended.

The limit is a number of checks, not of seconds: while the whole machine is suspended, the seconds
pass, although no keeper can read.
"""

from __future__ import annotations

import logging
from typing import Final

from quorate.adapters.executors.keepers import Keepers
from quorate.keeper.wanted import Wanted

_LOG = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 2.0
"""How often the executor checks whether keepers were killed or are silent."""
SILENT_LOOKS: Final = 15
"""A keeper is silent if its wake-ups were unread at this many checks in a row."""


class SilentKeepers:
    """Counts the checks at which a keeper left its wake-ups unread; not thread-safe."""

    def __init__(self, keepers: Keepers, looks: int = SILENT_LOOKS) -> None:
        self._keepers = keepers
        self._looks_max = looks
        self._looks: dict[str, int] = {}
        self._last_s: dict[str, float] = {}

    def look(self, name: str, wanted: Wanted, *, now_s: float, now_ms: int) -> bool:
        """Kill a keeper that is silent and whose work is overdue; return whether it was killed."""
        if not self._keepers.has_unread(name):
            self.forget(name)
            return False
        if now_s - self._last_s.get(name, 0.0) >= LOOK_EVERY_S:
            self._last_s[name] = now_s
            self._looks[name] = self._looks.get(name, 0) + 1
            if self._looks[name] == self._looks_max:
                _LOG.warning(
                    "the keeper of run %s is alive and does nothing, so the end of the run would "
                    "go unnoticed; if the keeper was stopped by a signal, continue it (SIGCONT). "
                    "The keeper is killed with its work when the run is overdue",
                    name,
                )
        if self._looks.get(name, 0) < self._looks_max or not is_overdue(wanted, now_ms):
            return False
        _LOG.warning("the silent keeper of run %s is killed with its work, which is overdue", name)
        self._keepers.clear(name)
        self.forget(name)
        return True

    def forget(self, name: str) -> None:
        """Start counting again, because the keeper has read its wake-ups or has ended."""
        self._looks.pop(name, None)
        self._last_s.pop(name, None)


def is_overdue(wanted: Wanted, now_ms: int) -> bool:
    """Return whether work must end now: a lease lost GPUs or is overdue, or no lease is left."""
    return not wanted.parts or any(
        part.lost or (part.stop_by_ms is not None and part.stop_by_ms <= now_ms)
        for part in wanted.parts
    )
