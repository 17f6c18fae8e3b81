"""The clock port: the only way time enters a decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


class Clock(Protocol):
    """Tells the time."""

    def now_ms(self) -> int:
        """Return Unix milliseconds. May step back; the loop never lets the ledger's time do so."""
        ...


@dataclass(frozen=True, slots=True)
class Steady:
    """A reading that nobody can set: ``ms`` since the start of the boot called ``boot``."""

    boot: str
    ms: int


@runtime_checkable
class SteadyClock(Clock, Protocol):
    """A clock whose wall time can be compared with one that only ever goes on."""

    def steady(self) -> Steady:
        """Return how far the machine is in its boot, time asleep included."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStatus:
    """How the wall clock stands against the steady one.

    ``trusted_ms`` is what everything goes by; ``step_ms`` is how far the wall clock is from it.
    ``why`` says why nothing is decided, and is empty while it is.
    """

    wall_ms: int
    trusted_ms: int
    step_ms: int
    why: str


class ClockControl(Protocol):
    """What an operator looks at and accepts; safe from every thread."""

    def status(self) -> ClockStatus:
        """Return how the clocks stand now."""
        ...

    def accept(self, actor: str) -> ClockStatus:
        """Go by the wall clock as it is now, and decide again; ``actor`` is logged."""
        ...
