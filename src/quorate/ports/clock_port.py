"""The clock port: the only way time enters a decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


class Clock(Protocol):
    """A clock."""

    def now_ms(self) -> int:
        """Return Unix milliseconds, which may step back.

        The loop never lets the ledger's time step back.
        """
        ...


@dataclass(frozen=True, slots=True)
class Steady:
    """A time that cannot be set: ``ms`` milliseconds since the boot with the id ``boot``."""

    boot: str
    ms: int


@runtime_checkable
class SteadyClock(Clock, Protocol):
    """A clock whose wall time can be compared with a monotonic one."""

    def steady(self) -> Steady:
        """Return the time since the machine's boot, including time asleep."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStatus:
    """The wall clock compared with the steady one.

    ``trusted_ms`` is the time that decisions use, and ``step_ms`` is how far the wall clock differs
    from it. ``why`` says why deciding has stopped, and is empty while the service decides.
    """

    wall_ms: int
    trusted_ms: int
    step_ms: int
    why: str


class ClockControl(Protocol):
    """The operations of an operator on the clock; safe from every thread."""

    def status(self) -> ClockStatus:
        """Return the present status of the clocks."""
        ...

    def accept(self, actor: str) -> ClockStatus:
        """Trust the present time of the wall clock, and decide again; ``actor`` is logged."""
        ...
