"""Keepers that are alive and do nothing: frozen by a signal, or hung in the kernel.

A keeper reads each poke at once. One that leaves pokes unread cannot end its work at a deadline,
so the GPUs of a cancelled run would be held, and paid for, without an end. Such a keeper is named
in the log; once its work must be over, it is killed with that work, and the keeper that follows
records what has gone.

Looks are counted, not seconds: after a pause of the whole machine no keeper has had time to read.
"""

from __future__ import annotations

import logging
from typing import Final

from quorate.adapters.executors.keepers import Keepers
from quorate.keeper.wanted import Wanted

_LOG = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 2.0
"""How often keepers are looked after: they may have been killed, or be silent."""
SILENT_LOOKS: Final = 15
"""At how many looks, one after another, a keeper has left its pokes unread that is silent."""


class SilentKeepers:
    """For one thread. A keeper is silent that left its pokes unread at ``looks`` looks."""

    def __init__(self, keepers: Keepers, looks: int = SILENT_LOOKS) -> None:
        self._keepers = keepers
        self._looks_max = looks
        self._looks: dict[str, int] = {}
        self._last_s: dict[str, float] = {}

    def look(self, name: str, wanted: Wanted, *, now_s: float, now_ms: int) -> bool:
        """Return whether the keeper of a run was killed, as it is silent and its work overdue."""
        if not self._keepers.has_unread(name):
            self.forget(name)
            return False
        if now_s - self._last_s.get(name, 0.0) >= LOOK_EVERY_S:
            self._last_s[name] = now_s
            self._looks[name] = self._looks.get(name, 0) + 1
            if self._looks[name] == self._looks_max:
                _LOG.warning(
                    "the keeper of run %s is alive and does nothing: its end would not be noticed; "
                    "if the keeper was stopped by a signal, continue it (SIGCONT). It is killed "
                    "with its work when the run has to be over",
                    name,
                )
        if self._looks.get(name, 0) < self._looks_max or not is_overdue(wanted, now_ms):
            return False
        _LOG.warning("the silent keeper of run %s is killed with its work, which is overdue", name)
        self._keepers.clear(name)
        self.forget(name)
        return True

    def forget(self, name: str) -> None:
        """Count anew: the keeper has read its pokes, or there is none."""
        self._looks.pop(name, None)
        self._last_s.pop(name, None)


def is_overdue(wanted: Wanted, now_ms: int) -> bool:
    """Return whether some of the work must be over: no lease is left, or one is lost or is due."""
    return not wanted.parts or any(
        part.lost or (part.stop_by_ms is not None and part.stop_by_ms <= now_ms)
        for part in wanted.parts
    )
