"""The local executor: leases become processes of this machine, with a keeper for each run.

The executor writes the orders for each run to the run's folder. The run's keeper carries out these
orders, and records the run's status in the folder. If the service is killed at any instant, nothing
is lost: after a restart, ``resume`` writes the orders again, and reads the statuses that keepers
have recorded since. A separate thread writes the files and starts the processes, so that the thread
of the ledger does not have to wait.
"""

from __future__ import annotations

import logging
import os
import select
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock, Thread
from time import monotonic, time
from typing import Final

from quorate.adapters.executors.keepers import Keepers, job_folder, run_folder
from quorate.adapters.executors.lease_book import Book, nothing_wanted
from quorate.adapters.executors.local_isolation import JobUsers, work_maker
from quorate.adapters.executors.logs_local import last_step
from quorate.adapters.executors.silent_keepers import LOOK_EVERY_S, SILENT_LOOKS, SilentKeepers
from quorate.adapters.executors.wipe_notices import WipeNotices
from quorate.adapters.takeover import TAKEOVER_S
from quorate.keeper.wanted import (
    ROOM_FIFO,
    Exited,
    Status,
    UnreadableError,
    Wanted,
    read_status,
    read_wanted,
    write,
)
from quorate.model.closed_words import counted
from quorate.ports.errors import WorkFolderError
from quorate.ports.executor_port import Order, Readiness, Report, StartLease

_LOG = logging.getLogger(__name__)

AGAIN_S: Final = 0.1
"""How long the executor waits until it tries again to wake a keeper that does not listen."""
READ_BYTES: Final = 64 * 1024
CODE_NOT_KEPT: Final = 126
"""The exit code of a run for which no keeper could be started."""


class LocalExecutor:
    """Executes runs, with their files below ``folder``.

    One thread receives orders, and another carries them out.

    If ``users`` is given, each run works as the system user of its owner or submitter. Otherwise
    all work runs as the service's user. While another service holds the folder's lock, this service
    tries for ``takeover_s`` to get the lock. A keeper that has done nothing at ``silent_looks``
    checks in a row is killed if its work is overdue.
    """

    def __init__(
        self,
        folder: Path,
        users: JobUsers | None = None,
        *,
        takeover_s: float = TAKEOVER_S,
        silent_looks: int = SILENT_LOOKS,
    ) -> None:
        self._takeover_s = takeover_s
        self._folder = folder.absolute()
        self._keepers = Keepers(self._folder)
        self._silent = SilentKeepers(self._keepers, silent_looks)
        self._users = users
        isolate = None if users is None else users.isolation(self._folder)
        self._book = Book(lambda run: bool(run.command), work_maker(self._folder, isolate))
        self._told: dict[str, Wanted] = {}
        self._status: dict[str, Status] = {}
        self._exited: dict[str, None] = {}
        self._changed: dict[str, None] = {}
        self._wipes = WipeNotices()
        self._lock = Lock()
        self._wake: Callable[[], None] = lambda: None
        self._is_closing = False
        # Whether all open leases are known; if so, work without an open lease must end.
        self._is_whole = True
        self._trouble = ""
        self._room = -1
        self._nudged, self._nudging = os.pipe()
        os.set_blocking(self._nudging, False)
        self._thread = Thread(target=self._work, name="executor", daemon=True)
        # Used only by the executor's thread: when to retry the runs that failed.
        self._late: dict[str, float] = {}
        self._unreadable: set[str] = set()

    def listen(self, wake: Callable[[], None]) -> None:
        """Call ``wake``, from another thread, whenever the executor has something to report."""
        self._wake = wake

    def belong_to(self, ledger_id: str) -> None:
        """Lock the work folder for one ledger; raises ``WorkFolderError`` if that fails."""
        try:
            self._open()
            found = self._keepers.belong_to(ledger_id)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise WorkFolderError(
                f"{self._folder} cannot be used for work: {why}; let the user of the "
                "service write there, or name another folder with --work-folder"
            ) from None
        if found != ledger_id:
            raise WorkFolderError(
                f"{self._folder} contains the work of another ledger, {found}; move the folder "
                "away, "
                f"or name another folder with --work-folder"
            )

    def _open(self) -> None:
        """Lock the folder, until ``close``."""
        self._keepers.open()
        if not self._keepers.be_alone(self._takeover_s):
            raise WorkFolderError(
                f"{self._folder} is used by another service, which is running; stop that service, "
                f"or name another folder with --work-folder"
            )
        if self._users is not None and not self._users.is_open:
            self._keepers.open_to_jobs()
            self._users.open(self._folder)

    @property
    def trouble(self) -> str:
        """Why work cannot be started or stopped; empty if it can."""
        return self._trouble

    @property
    def outages(self) -> Mapping[str, str]:
        """An empty mapping: an outage of this executor concerns all its pools; see ``trouble``."""
        return {}

    def readiness(self, runs: Collection[str]) -> Mapping[str, Readiness]:
        """Return an empty mapping: processes of this machine start without a delay."""
        del runs
        return {}

    def close(self) -> None:
        """Pass the last orders to the keepers, then stop. The work continues."""
        self._is_closing = True
        if self._thread.is_alive():
            self._nudge()
            self._thread.join()
            with self._lock:
                left = sum(1 for wanted in self._told.values() if wanted.parts)
            if left:
                runs = counted(left, "run")
                _LOG.info(
                    "still running: %s; the next service of this ledger manages the work", runs
                )
        self._keepers.let_go()
        for file in (self._room, self._nudged, self._nudging):
            if file >= 0:
                os.close(file)
        self._room = self._nudged = self._nudging = -1

    # --- The port, called by the ledger thread ---

    def next_ms(self) -> int | None:
        """Return None: the executor wakes the driver whenever there is something to report."""
        return None

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        """Accept the orders of one commit."""
        self._keepers.take_term(term)
        with self._lock:
            self._take(orders)
        self._nudge()

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        """Accept the open leases again.

        If ``is_whole``, ``orders`` has all open leases. The work of any other lease must then end.
        """
        if self._room < 0:
            # The folder is locked only now, when the service owns the ledger and gives orders.
            self._open()
            self._room = os.open(self._folder / ROOM_FIFO, os.O_RDWR | os.O_NONBLOCK)
        self._keepers.take_term(term)
        with self._lock:
            self._is_whole = is_whole
            self._told = {}
            for name in self._keepers.known():
                wanted = self._wanted_before(name)
                if wanted is not None:
                    self._told[name] = wanted
                self._changed[name] = None
            starts = [order for order in orders if isinstance(order, StartLease)]
            if is_whole:
                self._note(self._book.forget({order.lease.lease for order in starts}))
            self._take(orders)
        self._nudge()
        if not self._thread.is_alive():
            self._thread.start()

    def _wanted_before(self, name: str) -> Wanted | None:
        """Return the last written orders of a run; None if they do not exist or are damaged."""
        try:
            return read_wanted(run_folder(self._folder, name))
        except (UnreadableError, OSError) as error:
            _LOG.warning("the last orders for run %s are lost: %s", name, error)
            return None

    def reports(self) -> Sequence[Report]:
        """Return the exits of runs, then the stopping leases that have no process left."""
        with self._lock:
            return self._book.reports(self._exited, self._status)

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        """Return the last step that each of ``runs`` has reported."""
        found = {run: last_step(job_folder(self._folder, run)) for run in runs}
        return {run: step for run, step in found.items() if step is not None}

    def _take(self, orders: Sequence[Order]) -> None:
        self._note(self._book.take(orders, self._told))
        self._wipes.take(orders)

    def _note(self, runs: Iterable[str]) -> None:
        self._changed.update(dict.fromkeys(runs))

    def _nudge(self) -> None:
        try:
            os.write(self._nudging, b".")
        except BlockingIOError:
            return  # The pipe is full, so the thread wakes anyway.

    # --- The executor's own thread ---

    def _work(self) -> None:
        try:
            self._see_to_all()
        except Exception:  # noqa: BLE001 - the top frame of this thread
            self._trouble = "a bug ended the executor; see the log, and start the service again"
            _LOG.exception("a bug ended the executor; the work continues without it")

    def _see_to_all(self) -> None:
        look_s = 0.0
        while True:
            # Orders from before the stop are still passed to the keepers.
            is_last = self._is_closing
            names = {} if is_last else self._heard(look_s)
            with self._lock:
                names.update(self._changed)
                self._changed = {}
                if monotonic() >= look_s:
                    look_s = monotonic() + LOOK_EVERY_S
                    names.update(dict.fromkeys(self._told))
            names.update(dict.fromkeys(n for n, at_s in self._late.items() if at_s <= monotonic()))
            is_news = False
            for name in names:
                is_news |= self._try(name)
            if is_last:
                return
            if is_news:
                self._wake()

    def _heard(self, look_s: float) -> dict[str, None]:
        """Wait for orders or keepers' reports; return the runs whose keepers have reported."""
        until_s = min([look_s, *self._late.values()])
        wait_s = max(0.0, until_s - monotonic())
        ready, _, _ = select.select([self._room, self._nudged], [], [], wait_s)
        if self._nudged in ready:
            os.read(self._nudged, READ_BYTES)
        if self._room not in ready:
            return {}
        text = os.read(self._room, READ_BYTES).decode(errors="replace")
        return dict.fromkeys(text.split("\n")[:-1])

    def _try(self, name: str) -> bool:
        """Handle a run, or schedule a retry; return whether there is something to report."""
        self._late.pop(name, None)
        try:
            return self._see_to(name)
        except OSError as error:
            _LOG.warning("run %s could not be handled; trying again: %s", name, error)
            self._late[name] = monotonic() + LOOK_EVERY_S
            return False

    def _see_to(self, name: str) -> bool:
        """Write a run's orders, and start a keeper if the run needs one.

        Return whether the executor has news of the run to report.
        """
        with self._lock:
            told = self._told.get(name)
            wanted = self._book.wanted(name)
            is_idle = bool(self._book.stopping_idle(name))
            is_whole = self._is_whole
        if wanted is None and not is_whole:
            return is_idle  # The run's leases may be in an unread part of the ledger.
        # A keeper may still have work of a run without orders: that work must end.
        is_stray = wanted is None and told is None and name in self._keepers.known()
        if wanted is None:
            if told is None and not is_stray:
                with self._lock:
                    self._book.drop(name)
                return is_idle
            wanted = nothing_wanted(name) if told is None else replace(told, parts=())
        past = told or self._wanted_before(name)
        if past is not None and past.is_of_another(wanted.nonce):
            if not self._make_way(name, past):
                self._late[name] = monotonic() + AGAIN_S
                return is_idle
            told = None
        is_alive = self._keepers.is_alive(name)
        if wanted != told or not is_alive:
            self._keepers.prepare(name)
            write(run_folder(self._folder, name), wanted)
        status = self._read_status(name)
        if is_alive:
            now_ms = int(time() * 1_000)
            is_killed = self._silent.look(name, wanted, now_s=monotonic(), now_ms=now_ms)
            if is_killed or not self._keepers.poke(name):
                self._late[name] = monotonic() + AGAIN_S
        elif is_stray or _needs_keeper(wanted, status):
            status = self._have_kept(name, wanted, status)
        return self._keep(name, wanted, status or Status()) or is_idle

    def _make_way(self, name: str, past: Wanted) -> bool:
        """Move away the files of an earlier run with this name; return False while that run works.

        A restored ledger may give the name of a run, and the names of its leases, to another run.
        """
        with self._lock:
            self._status.pop(name, None)
            self._exited.pop(name, None)
        if self._keepers.is_alive(name):
            write(run_folder(self._folder, name), replace(past, parts=()))
            self._keepers.poke(name)
            return False
        if not self._keepers.clear(name):
            return False
        place = self._keepers.move_aside(name, past.nonce or "")
        _LOG.warning("another run was called %s before; its files are now in %s", name, place)
        return True

    def _have_kept(self, name: str, wanted: Wanted, status: Status | None) -> Status | None:
        """Start a keeper, or fail the run if no keeper can start; return the run's status."""
        why_not = self._keepers.why_not(name)
        wait_s = self._keepers.wait_s(name)
        if why_not and self._keepers.clear(name):
            exited = Exited(life=wanted.life, code=CODE_NOT_KEPT, note=why_not)
            return replace(status or Status(), slots=(), exited=exited)
        if why_not:
            wait_s = AGAIN_S
        if wait_s:
            self._late[name] = monotonic() + wait_s
        else:
            self._keepers.start(name)
        return status

    def _read_status(self, name: str) -> Status | None:
        """Return a run's status; None if the file is unreadable, so that a keeper is needed."""
        try:
            return read_status(run_folder(self._folder, name)) or Status()
        except UnreadableError as error:
            if name not in self._unreadable:
                self._unreadable.add(name)
                _LOG.warning("the status of run %s is unknown: %s", name, error)
            return None

    def _keep(self, name: str, wanted: Wanted, status: Status) -> bool:
        """Store a run's status, or forget a run that is over; return whether the status changed."""
        is_kept = bool(wanted.parts or status.slots) or self._keepers.is_alive(name)
        with self._lock:
            is_news = self._status.get(name) != status
            if is_kept:
                self._told[name], self._status[name] = wanted, status
                if status.exited is None:
                    self._exited.pop(name, None)
                else:
                    self._exited.setdefault(name)
                return is_news
            self._keepers.forget(name)
            self._silent.forget(name)
            self._unreadable.discard(name)
            self._book.drop(name)
            for kept in (self._told, self._status, self._exited):
                kept.pop(name, None)
        return is_news


def _needs_keeper(wanted: Wanted, status: Status | None) -> bool:
    """Return whether a run needs a keeper to start or end its work, or to report its status."""
    if status is None or status.slots:
        return True
    is_over = status.exited is not None and status.exited.life == wanted.life
    return bool(wanted.parts) and not is_over
