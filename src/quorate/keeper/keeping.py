"""One keeper at a time: whoever has the lock of a run's folder, which the kernel lets go of."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Final

from quorate.keeper.main import Keeper, notify
from quorate.keeper.wanted import LOCK_FILE

LOCK_TRIES: Final = 20
LOCK_EVERY_S: Final = 0.02


def keep(folder: Path) -> int:
    """Keep the run of ``folder`` until nothing is left to be done; return 0.

    Does nothing where somebody else keeps it.
    """
    lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _locked(lock):
        return 0
    keeper = Keeper(folder)
    keeper.run()
    keeper.close()
    os.close(lock)
    # Once more, now that the lock is free: what was wanted meanwhile needs another keeper.
    notify(folder)
    return 0


def _locked(lock: int) -> bool:
    """Return whether nobody else has the lock; the daemon may have it for an instant, to look."""
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOCK_EVERY_S)
        else:
            return True
    return False
