"""``python -m quorate.keeper FOLDER`` keeps the run of a folder; one keeper at a time.

The keeper holds the lock of the folder, which the kernel releases when the keeper ends.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from quorate.keeper.keeper_main import Keeper, notify
from quorate.keeper.locks import locked
from quorate.keeper.wanted import LOCK_FILE


def _keep(folder: Path) -> None:
    """Keep the run of ``folder`` until nothing is left to do; return at once if it has a keeper."""
    lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not locked(lock):
        return
    keeper = Keeper(folder)
    keeper.run()
    keeper.close()
    os.close(lock)
    # Once more, now that the lock is free: a request that came meanwhile needs another keeper.
    notify(folder)


_keep(Path(sys.argv[1]))
