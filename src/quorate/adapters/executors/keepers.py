"""Starts, wakes and finds the keeper processes of this machine's runs."""

from __future__ import annotations

import fcntl
import logging
import os
import struct
import subprocess
import sys
import termios
from hashlib import sha256
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Final

from quorate.keeper.locks import locked
from quorate.keeper.processes import bare, kill_leftovers
from quorate.keeper.wanted import (
    HOME,
    JOB_FOLDER,
    JOBS,
    LOCK_FILE,
    POKE_FIFO,
    ROOM_FIFO,
    replace_file,
)
from quorate.ports.errors import OldTermError, WorkFolderError
from quorate.runtime import FOLDER

_LOG = logging.getLogger(__name__)

RUNS: Final = "runs"
LIVE: Final = "live"
"""The folder that has a file for each run that may have a keeper."""
KEEPER_LOG: Final = "keeper.log"
KEEPER_LOG_BYTES_MAX: Final = 1024 * 1024
"""A keeper's log that is longer than this is truncated when the next keeper starts."""
DEATHS_MAX: Final = 5
"""After this many failed starts in a row, a run gets no further keeper."""
IN_VAIN_S: Final = 60.0
"""The start of a keeper has failed if the keeper dies sooner than this."""
AFTER_DEATH_S: Final = 0.1
"""The time from a failed start to the next start; each further failure doubles this time."""
NONCE_MAX: Final = 64
"""The longest nonce that is used unchanged as a part of a folder's name."""
SERVICE_LOCK: Final = "lock"
"""The file that is locked by the service that uses this folder."""
TERM: Final = "term"
"""The file with the newest term of all accepted orders; the term is 0 if there is no file."""
LEDGER: Final = "ledger"
"""The file with the id of the folder's ledger: another ledger may have runs of the same names."""
_COUNT: Final = struct.Struct("i")


def work_folder(ledger: Path) -> Path:
    """Return the default folder for the work of a ledger."""
    return Path(f"{ledger}.work")


def run_folder(root: Path, name: str) -> Path:
    """Return the folder of a run; a run that starts again keeps its folder."""
    return root / RUNS / name


def job_place(root: Path, name: str) -> Path:
    """Return the folder of a run whose work runs as another system user.

    The folder has the files that the work may access.
    """
    return root / JOBS / name


def job_folder(root: Path, name: str) -> Path:
    """Return the folder to which a run's processes write.

    The processes of an isolated run write to a folder below ``jobs``. Only root can create folders
    in ``jobs``, so an existing folder belongs to the run.
    """
    own = job_place(root, name) / JOB_FOLDER
    return own if own.is_dir() else run_folder(root, name)


def kept_runs(root: Path) -> list[str]:
    """Return the runs below ``root`` that have a keeper now, whichever service started it."""
    try:
        names = sorted(path.name for path in (root / LIVE).iterdir())
    except FileNotFoundError:
        return []
    return [name for name in names if _is_locked(run_folder(root, name) / LOCK_FILE)]


class Keepers:
    """The keepers below one work folder. Only one thread at a time may use this object."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = -1
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._started_s: dict[str, float] = {}
        self._deaths: dict[str, int] = {}
        self._not_before_s: dict[str, float] = {}
        self._term: int | None = None

    def open(self) -> None:
        """Create the folders that are missing."""
        for folder in (self._root, self._root / RUNS, self._root / LIVE):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_fifo(self._root / ROOM_FIFO)

    def open_to_jobs(self) -> None:
        """Let other system users reach the folders of their own runs, and no other folders.

        The keepers' own files are in other folders, which stay closed.
        """
        (self._root / JOBS).mkdir(exist_ok=True)
        for folder, mode in (
            (self._root, 0o711),
            (self._root / JOBS, 0o711),
            (self._root / RUNS, 0o700),
            (self._root / LIVE, 0o700),
        ):
            folder.chmod(mode)

    def be_alone(self, wait_s: float) -> bool:
        """Lock the folder against other services; return whether the lock was obtained.

        The call retries for ``wait_s`` while another service, or a process that the other service
        left, holds the lock.
        """
        if self._lock >= 0:
            return True
        lock = os.open(self._root / SERVICE_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not locked(lock):
            _LOG.warning("%s is used by another service; trying for %g s", self._root, wait_s)
            if not locked(lock, wait_s):
                os.close(lock)
                return False
        self._lock = lock
        return True

    def belong_to(self, ledger_id: str) -> str:
        """Assign the folder to ``ledger_id`` if it has no ledger; return the id of its ledger."""
        path = self._root / LEDGER
        try:
            return path.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            replace_file(path, f"{ledger_id}\n".encode())
            return ledger_id

    def take_term(self, term: int) -> None:
        """Record that orders of ``term`` are accepted.

        Raises ``OldTermError`` if orders of a newer term were accepted before, and
        ``WorkFolderError`` if the file with the newest term cannot be read or written. The file is
        read once, because only this service uses the folder.
        """
        path = self._root / TERM
        remedy = f"if no other service uses this ledger, remove {path}"
        try:
            if self._term is None:
                self._term = int(path.read_text(encoding="utf-8")) if path.exists() else 0
            if term > self._term:
                replace_file(path, f"{term}\n".encode())
                self._term = term
        except (OSError, ValueError) as error:
            raise WorkFolderError(f"{path} cannot be used: {error}; {remedy}") from None
        if term < self._term:
            raise OldTermError(term=term, newest=self._term, remedy=remedy)

    def known(self) -> list[str]:
        """Return the runs that may have a keeper."""
        return sorted(path.name for path in (self._root / LIVE).iterdir())

    def prepare(self, name: str) -> None:
        """Create the run's folder, and record that the run may have a keeper."""
        folder = run_folder(self._root, name)
        (folder / HOME).mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_fifo(folder / POKE_FIFO)
        (self._root / LIVE / name).touch()

    def is_alive(self, name: str) -> bool:
        """Return whether the run has a keeper, or a keeper is being started."""
        started = self._started.get(name)
        code = 0 if started is None else started.poll()
        if code is None:
            return True
        self._started.pop(name, None)
        if _is_locked(run_folder(self._root, name) / LOCK_FILE):
            # The lock may be held by a keeper that an earlier service started. In that case, the
            # keeper that this service started has ended by itself.
            self._deaths.pop(name, None)
            return True
        if code:
            self._note_death(name)
            log = run_folder(self._root, name) / KEEPER_LOG
            _LOG.warning("the keeper of run %s has ended with %d: %s", name, code, log)
        return False

    def _note_death(self, name: str) -> None:
        """Count a keeper that has died, and delay the next start."""
        is_in_vain = monotonic() - self._started_s.pop(name, 0.0) < IN_VAIN_S
        deaths = self._deaths.get(name, 0) + 1 if is_in_vain else 1
        self._deaths[name] = deaths
        self._not_before_s[name] = monotonic() + AFTER_DEATH_S * 2 ** (deaths - 1)

    def wait_s(self, name: str) -> float:
        """Return how long until another keeper may be started."""
        return max(0.0, self._not_before_s.get(name, 0.0) - monotonic())

    def forget(self, name: str) -> None:
        """Record that the run has no keeper, and needs none."""
        (self._root / LIVE / name).unlink(missing_ok=True)
        self._deaths.pop(name, None)
        self._not_before_s.pop(name, None)
        self._started_s.pop(name, None)

    def why_not(self, name: str) -> str:
        """Return why a run gets no further keeper; empty if it may get one."""
        if self._deaths.get(name, 0) < DEATHS_MAX:
            return ""
        log = run_folder(self._root, name) / KEEPER_LOG
        return f"its keeper failed to start {DEATHS_MAX} times; see {log}"

    def clear(self, name: str) -> bool:
        """Kill the processes that earlier keepers left behind; return True if there were none."""
        return kill_leftovers(run_folder(self._root, name)) == 0

    def move_aside(self, name: str, nonce: str) -> Path:
        """Move an old run's folder away, for a new run with the same name; return the new path.

        The new name of the folder cannot be the name of a run, and folders that were moved earlier
        are kept.
        """
        folder = run_folder(self._root, name)
        is_plain = nonce.isascii() and nonce.replace("-", "").isalnum() and len(nonce) <= NONCE_MAX
        kept = nonce if is_plain else sha256(nonce.encode()).hexdigest()[:16]
        places = (folder.with_name(f"{name}~{kept}" + "+" * again) for again in count())
        place = next(each for each in places if not each.exists())
        folder.rename(place)
        jobs = job_place(self._root, name)
        if jobs.is_dir():
            jobs.rename(jobs.with_name(place.name))
        return place

    def start(self, name: str) -> None:
        """Start a keeper; it ends at once if the run already has another keeper."""
        folder = run_folder(self._root, name)
        path = folder / KEEPER_LOG
        is_long = path.exists() and path.stat().st_size > KEEPER_LOG_BYTES_MAX
        self._started_s[name] = monotonic()
        with path.open("wb" if is_long else "ab") as log:
            self._started[name] = subprocess.Popen(  # noqa: S603 - this program's own module
                [sys.executable, "-P", "-m", "quorate.keeper", str(folder)],
                cwd=folder,
                env={**bare(os.environ), FOLDER: str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def let_go(self) -> None:
        """Release the folder's lock, and stop watching the keepers, which continue to work."""
        for started in self._started.values():
            # The service no longer waits for its children, and Python must not warn about that.
            started.returncode = started.poll() or 0
        self._started = {}
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def poke(self, name: str) -> bool:
        """Wake the keeper; return False if it does not listen."""
        try:
            poke = os.open(run_folder(self._root, name) / POKE_FIFO, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            os.write(poke, b".")
        except BlockingIOError:
            return True  # The pipe is full, so the keeper wakes anyway.
        except BrokenPipeError:
            return False
        finally:
            os.close(poke)
        return True

    def has_unread(self, name: str) -> bool:
        """Return whether there is a wake-up that the keeper has not read."""
        try:
            poke = os.open(run_folder(self._root, name) / POKE_FIFO, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            return False
        try:
            (waiting,) = _COUNT.unpack(fcntl.ioctl(poke, termios.FIONREAD, bytes(_COUNT.size)))
        finally:
            os.close(poke)
        return bool(waiting)


def _is_locked(path: Path) -> bool:
    """Return whether a process holds the lock; the kernel releases it when its holder dies."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _make_fifo(path: Path) -> None:
    try:
        os.mkfifo(path, 0o600)
    except FileExistsError:
        return
