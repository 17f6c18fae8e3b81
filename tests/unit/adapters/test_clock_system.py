"""The system's clock."""

from __future__ import annotations

import time

from quorate.adapters.clock_system import SystemClock
from quorate.ports.clock_port import Clock


def test_clock_tells_unix_milliseconds() -> None:
    clock: Clock = SystemClock()
    earliest = int(time.time() * 1000) - 1
    now = clock.now_ms()
    assert earliest <= now <= int(time.time() * 1000) + 1
