"""Locks that the kernel lets go of when whoever holds them dies."""

from __future__ import annotations

import fcntl
import time
from typing import Final

LOCK_TRIES: Final = 20
LOCK_EVERY_S: Final = 0.02


def locked(lock: int) -> bool:
    """Return whether nobody else has the lock; who only looks has it for an instant."""
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOCK_EVERY_S)
        else:
            return True
    return False
