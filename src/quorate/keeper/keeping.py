"""One keeper at a time: the holder of the lock of a run's folder, which the kernel releases."""

from __future__ import annotations

import os
from pathlib import Path

from quorate.keeper.keeper_main import Keeper, notify
from quorate.keeper.locks import locked
from quorate.keeper.wanted import LOCK_FILE


def keep(folder: Path) -> int:
    """Keep the run of ``folder`` until there is nothing left to do; return 0.

    Does nothing if another keeper has the run.
    """
    lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not locked(lock):
        return 0
    keeper = Keeper(folder)
    keeper.run()
    keeper.close()
    os.close(lock)
    # Once more, now that the lock is free: a request that came meanwhile needs another keeper.
    notify(folder)
    return 0
