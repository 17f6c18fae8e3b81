"""Starts that a cluster has refused, for example because of a quota, and when to retry them.

After a refused start, the pods that were already created are deleted again, and the watch reports
the deletions. So a change of a run's pods is no reason to retry the start. Instead, the time of the
next start is stored here. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

PAUSE_S: Final = 1.0
"""How long after the first refusal a start is retried; each further refusal doubles this time."""
PAUSE_S_MAX: Final = 30.0


@dataclass(frozen=True, slots=True)
class StartRefusal:
    """Why a start was refused, and when it is retried. For ``life`` see ``lease_book.py``."""

    life: str
    why: str
    until_s: float
    pause_s: float


@dataclass(frozen=True, slots=True)
class StartRefusals:
    """The refused starts by run, for runs whose last start was refused."""

    _of: dict[str, StartRefusal] = field(default_factory=dict)

    def note(self, run: str, life: str, why: str, now_s: float) -> bool:
        """Record that a start was refused; return whether the reason has changed."""
        before = self._of.get(run)
        is_same_life = before is not None and before.life == life
        pause_s = PAUSE_S
        if before is not None and is_same_life:
            pause_s = min(2 * before.pause_s, PAUSE_S_MAX)
        self._of[run] = StartRefusal(life, why, now_s + pause_s, pause_s)
        return before is None or not is_same_life or before.why != why

    def until_s(self, run: str, life: str) -> float:
        """Return the time from which the start of ``life`` is retried; 0 if no start was refused.

        If the last refused start was of another life, on other nodes, the result is 0 as well.
        """
        found = self._of.get(run)
        return found.until_s if found is not None and found.life == life else 0.0

    def why(self, run: str) -> str:
        """Return why the last start of a run was refused; empty if it was not refused."""
        found = self._of.get(run)
        return "" if found is None else found.why

    def forget(self, run: str) -> None:
        """Forget a run whose start was accepted or that has ended."""
        self._of.pop(run, None)
