"""A daemon whose disk fails at times, and that is killed at random times and restarted.

Run as ``python -m tests.service.faulting FOLDER LEDGER PORT FAULT LIVES``: see
``tests.service.lives``. Deaths are noted beside FOLDER, which is on another disk than the ledger.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from threading import Thread
from typing import Final

import uvloop

from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.adapters.takeover import TAKEOVER_S
from quorate.service.config import configured
from quorate.service.daemon import Daemon, Extras
from tests.bounds import until
from tests.service.lives import note_death, supervise
from tests.service.serving import LOCAL

FILLER: Final = "filler"
REFUSED: Final = "refused"
"""A file that exists after a caller was refused because of the disk."""
UP_S_MAX: Final = 0.8
"""The longest time for which the disk works before and after its failure."""
DOWN_S_MAX: Final = 1.2
"""The longest time for which the disk fails."""


class Fault(StrEnum):
    """How the disk fails: no write succeeds, or the file system is full."""

    WRITES = "failing-writes"
    FULL = "full-disk"


@dataclass(frozen=True)
class Doom:
    """How long the disk works, fails, and works again in one life.

    With ``down_s`` 0 the disk never fails; with ``later_s`` None the life ends while the disk
    fails. A disk fails until a caller was refused because of it.
    """

    up_s: float
    down_s: float
    later_s: float | None


def fail_writes() -> None:
    """Let every write of this process to a file fail after its first byte."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))


def let_write() -> None:
    """Let writes succeed again."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def fill(folder: Path) -> None:
    """Fill the file system of ``folder``."""
    with (folder / FILLER).open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4_096))
        except OSError:
            return


def make_room(folder: Path) -> None:
    """Free the space again."""
    (folder / FILLER).unlink(missing_ok=True)


def _live(folder: Path, ledger: Path, port: int, fault: Fault, doom: Doom | None) -> None:
    """Serve until killed or stopped."""
    make_room(ledger.parent)
    # Closing a ledger removes its write-ahead log, which then has to grow again. A process that the
    # previous life had just forked holds the lock until it executes its program.
    SqliteStore.open(ledger, wait_s=TAKEOVER_S).close()

    def ready(*_: object) -> None:
        if doom is not None:
            Thread(target=_end, args=(folder, ledger, fault, doom), daemon=True).start()

    executor = {"executor": "simulated"} if fault is Fault.WRITES else LOCAL
    flags = {"listen": f"127.0.0.1:{port}", "ledger": str(ledger), **executor}
    daemon = Daemon(configured(flags, {}, None), Extras())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(daemon.run(ready))


def _end(folder: Path, ledger: Path, fault: Fault, doom: Doom) -> None:
    """Let the disk fail for a while, and kill this process."""
    note_death(folder, fault, f"{doom}")
    begin: Callable[[], None]
    end: Callable[[], None]
    if fault is Fault.WRITES:
        begin, end = fail_writes, let_write
    else:
        begin, end = (lambda: fill(ledger.parent)), (lambda: make_room(ledger.parent))
    time.sleep(doom.up_s)
    if doom.down_s:
        begin()
        time.sleep(doom.down_s)
        until((folder / REFUSED).exists, "a caller is refused")
        if doom.later_s is not None:
            end()
            time.sleep(doom.later_s)
    os.kill(os.getpid(), signal.SIGKILL)


def _dooms(lives: int) -> list[Doom]:
    rng = Random(lives)
    return [
        Doom(
            up_s=rng.uniform(0.1, UP_S_MAX),
            down_s=0.0 if number % 3 == 0 else rng.uniform(0.4, DOWN_S_MAX),
            later_s=None if number % 3 == 1 else rng.uniform(0.0, UP_S_MAX),
        )
        for number in range(lives)
    ]


def main(folder: Path, ledger: Path, port: int, fault: Fault, lives: int) -> int:
    """Return 0 if SIGKILL ended every life except the last, and the last one ended cleanly."""
    return supervise(
        folder, lambda doom: _live(folder, ledger, port, fault, doom), _dooms(lives), None
    )


if __name__ == "__main__":
    _, marker, ledger_, port_, fault_, lives_ = sys.argv
    sys.exit(main(Path(marker).parent, Path(ledger_), int(port_), Fault(fault_), int(lives_)))
