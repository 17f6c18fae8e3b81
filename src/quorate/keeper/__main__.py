"""``python -m quorate.keeper FOLDER`` is the keeper of the run in FOLDER.

A run has at most one keeper. The keeper holds the lock of the folder, which the kernel releases
when the keeper ends.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from quorate.keeper.keeper_main import Keeper, notify
from quorate.keeper.locks import locked
from quorate.keeper.wanted import LOCK_FILE


def _keep(folder: Path) -> None:
    """Be the keeper of the run in ``folder``; return at once if the run has a keeper already."""
    lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not locked(lock):
        return
    keeper = Keeper(folder)
    keeper.run()
    keeper.close()
    os.close(lock)
    # Only now, without the lock, can the daemon start another keeper. It does so if it wants work.
    notify(folder)


_keep(Path(sys.argv[1]))
