"""The clock port: every decision gets its time from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


class Clock(Protocol):
    """A clock."""

    def now_ms(self) -> int:
        """Return the wall-clock time in Unix milliseconds, which may step back.

        The decision loop makes sure that the times in the ledger never step back.
        """
        ...


@dataclass(frozen=True, slots=True)
class Steady:
    """A time that no user can set: ``ms`` milliseconds since the boot with the id ``boot``."""

    boot: str
    ms: int


@runtime_checkable
class SteadyClock(Clock, Protocol):
    """A clock that also has a monotonic time, with which its wall time can be compared."""

    def steady(self) -> Steady:
        """Return the time since the machine's boot, including time in which the machine slept."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStatus:
    """The wall clock compared with the steady one.

    ``trusted_ms`` is the time that decisions use, and ``step_ms`` is the difference of the wall
    clock from it. ``why`` says why the service has stopped deciding; it is empty while the service
    decides.
    """

    wall_ms: int
    trusted_ms: int
    step_ms: int
    why: str


class ClockControl(Protocol):
    """The operations on the clock that an operator may request. Any thread may call them."""

    def status(self) -> ClockStatus:
        """Return the present status of the clocks."""
        ...

    def accept(self, actor: str) -> ClockStatus:
        """Trust the present wall-clock time, and decide again; ``actor``, who asked, is logged."""
        ...
