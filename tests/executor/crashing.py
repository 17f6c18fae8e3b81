"""A daemon with real jobs that kills itself at a chosen instant, and is restarted.

Run as ``python -m tests.executor.crashing LEDGER PORT INSTANT LIVES``: see ``tests.service.lives``.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Final

import uvloop

from quorate.adapters.executors.exec_local import LocalExecutor
from quorate.adapters.executors.keepers import Keepers, work_folder
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.ledger.chain import Block, Head, open_block
from quorate.loop.driver import EXECUTOR_ACTOR
from quorate.model.events import LeaseEnded, LeaseEnding, LeaseStarted
from quorate.ports.executor_port import LeaseGone, Order, Report, RunExited
from quorate.service.config import configured
from quorate.service.daemon import Daemon, Extras
from tests.service.lives import die, supervise
from tests.service.serving import LOCAL

PASSED_MAX: Final = 3
"""The most chances to die that are skipped, so that each life has done something before."""


class Instant(StrEnum):
    """When the process dies: after recording and before acting, or the other way round."""

    COMMIT_ACT = "between-commit-and-act"
    ACT_RECORD = "between-act-and-record"


PLACES: Final = {
    Instant.COMMIT_ACT: (
        "start-committed",
        "stop-committed",
        "end-committed",
        "ordered",
        "written",
    ),
    Instant.ACT_RECORD: ("started", "exit-reported", "gone-reported", "recording"),
}
"""The places at which it dies, in turn.

A block with a start, a stop or an end is durable; its orders were taken; the wanted state is in its
file, and no keeper was started. A keeper has just been started; a run has exited or a lease has
ended, and the ledger thread was told; this is about to be appended.
"""
_COMMITTED: Final = {
    LeaseStarted: "start-committed",
    LeaseEnding: "stop-committed",
    LeaseEnded: "end-committed",
}
_REPORTED: Final = {RunExited: "exit-reported", LeaseGone: "gone-reported"}


@dataclass
class Doom:
    """Where one life ends, if at all. ``passed`` chances are skipped before."""

    folder: Path
    place: str
    passed: int

    def meet(self, place: str) -> None:
        """Die here, if this is the place and its turn has come."""
        if place != self.place:
            return
        self.passed -= 1
        if self.passed < 0:
            die(self.folder, place)


class DoomedStore(SqliteStore):
    """A store whose process may die before and after a commit."""

    doom: Doom

    def append(self, block: Block, *, expected: Head) -> None:
        """Append ``block``, or die if its turn has come."""
        events = open_block(block, after=expected)
        if any(event.actor == EXECUTOR_ACTOR for event in events):
            self.doom.meet("recording")
        super().append(block, expected=expected)
        for place in {_COMMITTED.get(type(event), "") for event in events}:
            self.doom.meet(place)


class DoomedKeepers(Keepers):
    """Keepers whose starter may die before and after it starts one."""

    doom: Doom

    def start(self, name: str) -> None:
        """Start a keeper, or die if its turn has come."""
        self.doom.meet("written")
        super().start(name)
        self.doom.meet("started")


class DoomedExecutor(LocalExecutor):
    """An executor whose process may die when it has orders, or something to report."""

    def __init__(self, folder: Path, doom: Doom) -> None:
        super().__init__(folder)
        self._doom = doom
        keepers = DoomedKeepers(self._folder)
        keepers.doom = doom
        self._keepers = keepers

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        """Take orders, and perhaps die before the executor's thread has carried them out."""
        self._keepers.take_term(term)
        with self._lock:
            self._take(orders)
            if orders:
                # The thread needs the lock to continue.
                self._doom.meet("ordered")
        self._nudge()

    def reports(self) -> Sequence[Report]:
        """Return the reports, or die if its turn has come."""
        found = super().reports()
        for place in {_REPORTED.get(type(report), "") for report in found}:
            self._doom.meet(place)
        return found


def _live(ledger: Path, port: int, doom: Doom) -> None:
    """Serve until killed or stopped."""

    def open_store(url: str, *, wait_s: float) -> SqliteStore:
        store = DoomedStore.open(Path(url), wait_s=wait_s)
        store.doom = doom
        return store

    flags = {"listen": f"127.0.0.1:{port}", "ledger": str(ledger), **LOCAL}
    extras = Extras(
        open_store=open_store,
        make_executor=lambda *_: DoomedExecutor(work_folder(ledger), doom),
    )
    daemon = Daemon(configured(flags, {}, None), extras)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(daemon.run(lambda *_: None))


def main(ledger: Path, port: int, instant: Instant, lives: int) -> int:
    """Return 0 if SIGKILL ended every life except the last, and the last one ended cleanly."""
    rng = Random(str(instant))
    places = PLACES[instant]
    dooms = (
        Doom(ledger.parent, places[number % len(places)], rng.randint(0, PASSED_MAX))
        for number in range(lives)
    )
    spared = Doom(ledger.parent, "nowhere", 0)
    return supervise(ledger.parent, lambda doom: _live(ledger, port, doom), dooms, spared)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), Instant(sys.argv[3]), int(sys.argv[4])))
