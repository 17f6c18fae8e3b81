"""The local executor: leases become processes of this machine, each run under a keeper of its own.

What is wanted of each run is written to its folder, and its keeper sees to it; what has become of
it is read from there. A daemon that is killed at any instant forgets nothing: after a restart
``resume`` writes what is wanted anew, and what keepers have noted meanwhile is read then. Files are
written and processes started by a thread of its own, so that the ledger waits for neither.
"""

from __future__ import annotations

import logging
import os
import select
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock, Thread
from typing import Final

from quorate.adapters.keepers import Keepers, run_folder
from quorate.adapters.local_book import Book
from quorate.keeper.wanted import ROOM_FIFO, Status, Wanted, read_status, read_wanted, write
from quorate.ports.executor import LeaseGone, Order, Report, RunExited, StartLease, WipeNode

_LOG = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 2.0
"""How often keepers are looked after that may have been killed."""
READ_BYTES: Final = 64 * 1024


class LocalExecutor:
    """Runs work below ``folder``; its orders are taken on one thread, and done on another."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self._keepers = Keepers(self._folder)
        self._book = Book(self._folder)
        self._told: dict[str, Wanted] = {}
        self._status: dict[str, Status] = {}
        self._changed: dict[str, None] = {}
        self._late: dict[str, None] = {}
        self._unwiped: set[tuple[str, str]] = set()
        self._lock = Lock()
        self._wake: Callable[[], None] = lambda: None
        self._is_closing = False
        self._room = -1
        self._nudged, self._nudging = os.pipe()
        self._thread = Thread(target=self._work, name="executor", daemon=True)

    def listen(self, wake: Callable[[], None]) -> None:
        """Have ``wake`` called, from another thread, whenever there is something to report."""
        self._wake = wake

    def close(self) -> None:
        """Do no more. The work goes on."""
        self._is_closing = True
        self._nudge()
        if self._thread.is_alive():
            self._thread.join()

    # --- The port, on the ledger's thread ---

    def next_ms(self) -> int | None:
        """Return None: whatever happens is told by itself."""
        return None

    def carry_out(self, orders: Sequence[Order]) -> None:
        """Take the orders of one commit."""
        with self._lock:
            self._take(orders)
        self._nudge()

    def resume(self, orders: Sequence[Order]) -> None:
        """Take every open lease anew; what is not among them must go."""
        if self._room < 0:
            # Only now: whoever is given orders is alone with the ledger, and with this folder.
            self._keepers.open()
            self._room = os.open(self._folder / ROOM_FIFO, os.O_RDWR | os.O_NONBLOCK)
        with self._lock:
            self._told = {}
            for name in self._keepers.known():
                wanted = read_wanted(run_folder(self._folder, name))
                if wanted is not None:
                    self._told[name] = wanted
                self._changed[name] = None
            starts = [order for order in orders if isinstance(order, StartLease)]
            self._note(self._book.forget({order.lease.lease for order in starts}))
            self._take(orders)
        self._nudge()
        if not self._thread.is_alive():
            self._thread.start()

    def reports(self) -> Sequence[Report]:
        """Return the exits, then the leases that have gone."""
        exits: list[Report] = []
        gone: list[Report] = []
        with self._lock:
            for run in self._book.runs():
                exited, leases = self._news(run)
                exits += exited
                gone += [LeaseGone(lease) for lease in leases]
        return [*exits, *gone]

    def _news(self, run: str) -> tuple[list[RunExited], list[str]]:
        """Return whether a run has exited, and which of its leases have gone."""
        idle = self._book.stopping_idle(run)
        wanted, status = self._book.wanted(run), self._status.get(run, Status())
        lease = self._book.any_lease(run)
        if wanted is None or lease is None:
            return [], idle
        exited = status.exited
        stopping = [part.lease for part in wanted.parts if part.stop_by_ms is not None]
        if exited is not None and exited.life == wanted.life:
            return [RunExited(run, lease, exited.code, exited.note)], idle + stopping
        return [], idle + [each for each in stopping if each in status.gone]

    def _take(self, orders: Sequence[Order]) -> None:
        self._note(self._book.take(orders, self._told))
        for order in orders:
            if isinstance(order, WipeNode) and (order.node, order.claim) not in self._unwiped:
                self._unwiped.add((order.node, order.claim))
                _LOG.warning(
                    "node %s is to be wiped after %s; then: quorate node wiped %s --after %s",
                    *(order.node, order.claim, order.node, order.claim),
                )

    def _note(self, runs: Iterable[str]) -> None:
        self._changed.update(dict.fromkeys(runs))

    def _nudge(self) -> None:
        os.write(self._nudging, b".")

    # --- Its own thread ---

    def _work(self) -> None:
        while not self._is_closing:
            ready, _, _ = select.select([self._room, self._nudged], [], [], LOOK_EVERY_S)
            names = self._heard(ready)
            with self._lock:
                changed, self._changed = self._changed, {}
                if not ready:
                    changed.update(dict.fromkeys(self._told))
                    changed.update(self._late)
                    self._late = {}
            is_news, failed = False, list[str]()
            for name in {**changed, **dict.fromkeys(names)}:
                try:
                    is_news |= self._see_to(name)
                except OSError as error:
                    _LOG.warning("run %s cannot be seen to, and is tried again: %s", name, error)
                    failed.append(name)
            with self._lock:
                self._late.update(dict.fromkeys(failed))
            if is_news:
                self._wake()

    def _heard(self, ready: Sequence[int]) -> list[str]:
        """Return the runs whose keepers have news."""
        if self._nudged in ready:
            os.read(self._nudged, READ_BYTES)
        if self._room not in ready:
            return []
        return os.read(self._room, READ_BYTES).decode(errors="replace").split("\n")[:-1]

    def _see_to(self, name: str) -> bool:
        """Write what is wanted of a run, see that it is kept, and return whether there is news."""
        with self._lock:
            told = self._told.get(name)
            wanted = self._book.wanted(name)
        if wanted is None:
            if told is None:
                return False
            wanted = replace(told, parts=())
        folder = run_folder(self._folder, name)
        if wanted != told:
            self._keepers.prepare(wanted)
            write(folder, wanted)
        status = read_status(folder)
        self._keepers.see_to(wanted, status)
        with self._lock:
            self._told[name] = wanted
            is_news = self._status.get(name) != status
            self._status[name] = status
            if not wanted.parts and not status.slots and not self._keepers.is_alive(name):
                self._keepers.forget(name)
                self._book.drop(name)
                del self._told[name]
                del self._status[name]
        return is_news
