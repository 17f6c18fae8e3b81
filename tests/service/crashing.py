"""A daemon that kills itself at a chosen instant, and is restarted as by a supervisor.

Run as ``python -m tests.service.crashing LEDGER PORT INSTANT LIVES``: see ``tests.service.lives``.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from threading import Thread
from typing import Final

import uvloop

from quorate.adapters.stores.archive_file import ArchiveFile
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.ledger.archive import ArchivedRow
from quorate.ledger.chain import Block, Head, open_block
from quorate.loop.engine import Engine
from quorate.model.events import RequestKept
from quorate.service.auth.authenticator import Authenticator
from quorate.service.config import configured
from quorate.service.daemon import Daemon, Extras
from quorate.service.ledger_thread import LedgerThread
from tests.service.lives import die, supervise

SNAPSHOT_EVENTS: Final = 25
"""The events between two snapshots; so few that each life writes several snapshots."""
PASSED_MAX: Final = 6
"""The most chances to die that are skipped, so that each life has done something before."""
WATCHED: Final = "watched"
"""A file beside the ledger that exists while a test watches this life; no life ends before."""
IN_COMMIT: Final = "in COMMIT"
IN_COMMIT_S_MAX: Final = 0.001


class Instant(StrEnum):
    """When the process dies."""

    BEFORE = "before-the-commit"
    GROUP = "in-a-group-commit"
    AFTER = "after-the-commit"
    SNAPSHOT = "in-a-snapshot"


PLACES: Final = {
    Instant.BEFORE: ("",),
    Instant.GROUP: ("INSERT INTO block", "UPDATE head", "COMMIT", IN_COMMIT),
    Instant.AFTER: ("",),
    Instant.SNAPSHOT: ("INSERT INTO run", "INSERT OR REPLACE INTO snapshot", "COMMIT", IN_COMMIT),
}
"""The statements at which it dies, in turn; or it dies while the last of them is carried out."""


@dataclass
class Doom:
    """When one life ends. ``passed`` chances are skipped before."""

    instant: Instant
    place: str
    passed: int
    in_commit_s: float


class DoomedArchive(ArchiveFile):
    """An archive that watches the statements of its writer."""

    def __init__(self, ledger: Path, watched: Callable[[str], None]) -> None:
        super().__init__(ledger, is_kept_open=True)
        self._watched = watched

    def _writing(self, *, is_new: bool) -> sqlite3.Connection:
        db = super()._writing(is_new=is_new)
        db.set_trace_callback(self._watched)
        return db


class DoomedStore(SqliteStore):
    """A store whose process dies at the instant of its ``doom``."""

    doom: Doom | None = None

    def append(self, block: Block, *, expected: Head) -> None:
        """Append ``block``, or die if its turn has come."""
        if self._is_time(Instant.BEFORE):
            self._die(block.hash)
        if _requests(block) > 1 and self._is_time(Instant.GROUP):
            self._die_in_transaction(block.hash)
        is_last = self._is_time(Instant.AFTER)
        super().append(block, expected=expected)
        if is_last:
            self._die(block.hash)

    def save_snapshot(
        self,
        head: Head,
        payload: bytes,
        ended: Iterable[ArchivedRow] = (),
        *,
        base_seq: int = 0,
    ) -> None:
        """Keep ``payload``, or die if its turn has come."""
        # A snapshot that archives no run inserts no row at which to die.
        rows = list(ended)
        is_due = self.doom is not None and (rows or not self.doom.place.endswith("run"))
        if is_due and self._is_time(Instant.SNAPSHOT):
            self._archive = DoomedArchive(self.path, self._at_statements(head.hash))
        super().save_snapshot(head, payload, rows, base_seq=base_seq)

    def _is_time(self, instant: Instant) -> bool:
        if self.doom is None or self.doom.instant is not instant:
            return False
        self.doom.passed -= 1
        return self.doom.passed < 0 and (self.path.parent / WATCHED).exists()

    def _die_in_transaction(self, what: bytes) -> None:
        """Let the process die at a later statement."""
        self._db.set_trace_callback(self._at_statements(what))

    def _at_statements(self, what: bytes) -> Callable[[str], None]:
        """Return a function for each statement, which kills the process at its place."""
        assert self.doom is not None
        place, wait_s = self.doom.place, self.doom.in_commit_s

        def die_soon() -> None:
            time.sleep(wait_s)
            self._die(what)

        def traced(statement: str) -> None:
            if place == IN_COMMIT and statement == "COMMIT":
                # The thread runs while SQLite writes without the interpreter's lock.
                Thread(target=die_soon).start()
            elif place != IN_COMMIT and statement.startswith(place):
                self._die(what)

        return traced

    def _die(self, what: bytes) -> None:
        assert self.doom is not None
        die(self.path.parent, self.doom.instant, self.doom.place, what.hex())


def _requests(block: Block) -> int:
    """Return the number of requests with a key in a block."""
    before = Head(height=block.height - 1, seq=block.first_seq - 1, hash=block.prev_hash)
    return sum(isinstance(event, RequestKept) for event in open_block(block, after=before))


async def _many_snapshots(
    ledger_thread: LedgerThread, authenticator: Authenticator
) -> AsyncIterator[str]:
    del authenticator

    def set_up(engine: Engine) -> None:
        engine.snapshot_events = SNAPSHOT_EVENTS

    await ledger_thread.run(set_up)
    yield "nowhere; snapshots are taken often"


def _live(ledger: Path, port: int, doom: Doom | None) -> None:
    """Serve until killed or stopped."""
    (ledger.parent / WATCHED).unlink(missing_ok=True)

    def open_store(url: str, *, wait_s: float) -> SqliteStore:
        store = DoomedStore.open(Path(url), wait_s=wait_s)
        store.doom = doom
        return store

    flags = {"listen": f"127.0.0.1:{port}", "ledger": str(ledger), "executor": "simulated"}
    daemon = Daemon(
        configured(flags, {}, None), Extras(open_store=open_store, surfaces=[_many_snapshots])
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(daemon.run(lambda *_: None))


def main(ledger: Path, port: int, instant: Instant, lives: int) -> int:
    """Return 0 if SIGKILL ended every life except the last, and the last one ended cleanly."""
    rng = Random(str(instant))
    places = PLACES[instant]
    dooms = (
        Doom(
            instant,
            places[number % len(places)],
            passed=rng.randint(1, PASSED_MAX),
            in_commit_s=rng.uniform(0, IN_COMMIT_S_MAX),
        )
        for number in range(lives)
    )
    return supervise(ledger.parent, lambda doom: _live(ledger, port, doom), dooms, None)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), Instant(sys.argv[3]), int(sys.argv[4])))
