"""The system's clock."""

from __future__ import annotations

import time
from functools import cached_property
from pathlib import Path
from typing import Final

from quorate.ports.clock_port import Steady

_NS_PER_MS: Final = 1_000_000
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
# Like the wall clock, ``CLOCK_BOOTTIME`` continues while the machine sleeps. Some systems lack it.
_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The wall clock of this machine, and the time since the machine was started."""

    def now_ms(self) -> int:
        """Return Unix milliseconds, rounded down."""
        return time.time_ns() // _NS_PER_MS

    def steady(self) -> Steady:
        """Return how long the machine has been up, and the id of its boot."""
        return Steady(self._boot, time.clock_gettime_ns(_STEADY) // _NS_PER_MS)

    @cached_property
    def _boot(self) -> str:
        try:
            return _BOOT_ID.read_text(encoding="ascii").strip()
        except OSError:
            # This system has no boot id, so the guard never compares readings of two processes.
            return ""
