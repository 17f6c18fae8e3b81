"""Locks that the kernel releases when the process that holds them dies."""

from __future__ import annotations

import fcntl
import time
from typing import Final

LOOK_S: Final = 0.4
"""How long to wait for a lock, because another process may hold the lock briefly for a check."""
LOCK_EVERY_S: Final = 0.02


def locked(lock: int, wait_s: float = LOOK_S) -> bool:
    """Return whether this process got the lock; wait at most ``wait_s`` seconds for it."""
    until_s = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(LOCK_EVERY_S, left_s))
        else:
            return True
