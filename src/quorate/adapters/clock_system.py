"""The system's clock."""

from __future__ import annotations

import time

_NS_PER_MS = 1_000_000


class SystemClock:
    """The wall clock of this machine."""

    def now_ms(self) -> int:
        """Return Unix milliseconds, rounded down."""
        return time.time_ns() // _NS_PER_MS
