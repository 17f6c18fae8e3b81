"""The keepers of this machine's runs: started, poked, and looked for."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from quorate.keeper.wanted import LOCK_FILE, POKE_FIFO, ROOM_FIFO, Status, Wanted

RUNS: Final = "runs"
LIVE: Final = "live"
"""The folder with a file for each run that a keeper may be keeping."""
HOME: Final = "home"
"""The folder in which the work of a run starts that names none."""
KEEPER_LOG: Final = "keeper.log"


def run_folder(root: Path, name: str) -> Path:
    """Return the folder of a run, which it keeps through all its lives."""
    return root / RUNS / name


class Keepers:
    """For one thread at a time."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def open(self) -> None:
        """Make the folders that are missing."""
        for folder in (self._root, self._root / RUNS, self._root / LIVE):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_fifo(self._root / ROOM_FIFO)

    def known(self) -> list[str]:
        """Return the runs that a keeper may be keeping."""
        return sorted(path.name for path in (self._root / LIVE).iterdir())

    def prepare(self, wanted: Wanted) -> None:
        """Have a folder for the run, and remember that it is kept."""
        name = wanted.work.run
        folder = run_folder(self._root, name)
        (folder / HOME).mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_fifo(folder / POKE_FIFO)
        (self._root / LIVE / name).touch()

    def see_to(self, wanted: Wanted, status: Status) -> None:
        """Have what is wanted looked at by a keeper, which is started where there is none."""
        name = wanted.work.run
        exited = status.exited
        is_over = exited is not None and exited.life == wanted.life
        if self.is_alive(name):
            self._poke(name)
        elif status.slots or (wanted.parts and not is_over):
            self._start(name)

    def is_alive(self, name: str) -> bool:
        """Return whether somebody keeps the run."""
        started = self._started.get(name)
        if started is not None:
            if started.poll() is None:
                return True
            del self._started[name]
        try:
            lock = os.open(run_folder(self._root, name) / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def forget(self, name: str) -> None:
        """Note that nobody keeps the run, and nobody has to."""
        (self._root / LIVE / name).unlink(missing_ok=True)

    def _start(self, name: str) -> None:
        folder = run_folder(self._root, name)
        with (folder / KEEPER_LOG).open("ab") as log:
            self._started[name] = subprocess.Popen(  # noqa: S603 - this program's own module
                [sys.executable, "-P", "-m", "quorate.keeper", str(folder)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _poke(self, name: str) -> None:
        try:
            poke = os.open(run_folder(self._root, name) / POKE_FIFO, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return  # It has only just started, and reads what is wanted when it listens.
        try:
            os.write(poke, b".")
        except BlockingIOError:
            return  # It has been poked often enough.
        finally:
            os.close(poke)


def _make_fifo(path: Path) -> None:
    try:
        os.mkfifo(path, 0o600)
    except FileExistsError:
        return
