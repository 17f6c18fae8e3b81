"""Starts that a cluster has refused, by a quota of a namespace for example, and when to try again.

A refused start leaves traces: the pods that were made before the refusal are deleted again, and the
watch sees that. So a change of a run's pods says nothing of whether the next start may work, and
the pauses are kept here. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

PAUSE_S: Final = 1.0
"""How long after the first refusal a start is tried again; after each further one twice as long."""
PAUSE_S_MAX: Final = 30.0


@dataclass(frozen=True, slots=True)
class StartRefusal:
    """Why the start of one life of a run was refused, and until when it is not tried again."""

    life: str
    why: str
    until_s: float
    pause_s: float


@dataclass(frozen=True, slots=True)
class StartRefusals:
    """The refused starts by run; a run whose start was taken, or that is over, has none."""

    _of: dict[str, StartRefusal] = field(default_factory=dict)

    def note(self, run: str, life: str, why: str, now_s: float) -> bool:
        """Record that a start was refused; return whether it was for another reason than before."""
        before = self._of.get(run)
        is_same_life = before is not None and before.life == life
        pause_s = PAUSE_S
        if before is not None and is_same_life:
            pause_s = min(2 * before.pause_s, PAUSE_S_MAX)
        self._of[run] = StartRefusal(life, why, now_s + pause_s, pause_s)
        return before is None or not is_same_life or before.why != why

    def until_s(self, run: str, life: str) -> float:
        """Return until when the start of ``life`` is not tried again; 0 where it was not refused.

        Where it was refused in another life, on other nodes, it is tried at once.
        """
        found = self._of.get(run)
        return found.until_s if found is not None and found.life == life else 0.0

    def why(self, run: str) -> str:
        """Return why the last start of a run was refused; empty where it was not."""
        found = self._of.get(run)
        return "" if found is None else found.why

    def forget(self, run: str) -> None:
        """Take it that the start of a run was taken, or that the run is over."""
        self._of.pop(run, None)
