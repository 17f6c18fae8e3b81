"""The scheduler of one pool as a separate process on a ledger in etcd, until SIGTERM.

    python fault_scheduler.py URL HISTORY CLIENT SEED PAUSE WAY BUG-FILE CLOCK-FILE POOL

Its engine submits runs of its pool, and cancels and reads runs of all pools, which other programs
use, too. It writes every request and answer to HISTORY. Between two requests it pauses for PAUSE
seconds, or for the duration of the last request, up to WAY seconds. As soon as BUG-FILE exists, it
has the bug that this file names: a bug that broke the ledger before every scheduler has begun would
prevent the last ones from ever getting an answer. CLOCK-FILE says by how much its clock is ahead.
An error that is not one of the store's errors ends the process, and then the test fails.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from types import FrameType
from typing import Final

from quorate.adapters.etcd.etcd_address import EtcdAddress, parse_address
from quorate.adapters.etcd.etcd_client import EtcdClient
from quorate.adapters.etcd.etcd_requests import Txn, TxnAnswer
from quorate.adapters.stores.store_etcd import EtcdStore
from quorate.ledger.chain import Block, Head
from quorate.loop.engine import Engine
from quorate.ports.errors import CorruptLedgerError, StoreError, UnsureAppendError
from quorate.testing.client_history import Found, Read, Request, Verdict, Written
from tests.etcd.fault_world import pick, spec_of
from tests.etcd.history_file import HistoryFile
from tests.etcd.stepped_clock import SteppedClock
from tests.oracles.engine_client import ask

SEGMENT_BYTES: Final = 20_000
SNAPSHOT_EVENTS: Final = 150


@dataclass
class _Ending:
    is_asked: bool = False

    def ask(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.is_asked = True


class Scheduler:
    """One engine, which is opened again when it can no longer be used."""

    def __init__(self, address: EtcdAddress, clock: SteppedClock, bug_file: Path) -> None:
        self._address, self._clock, self._bug_file = address, clock, bug_file
        self._bug = ""
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """The engine; raise a ``StoreError`` if it cannot be opened now."""
        if self._engine is None:
            store = EtcdStore.open(self._address, segment_bytes=SEGMENT_BYTES)
            plant(store, self._bug)
            try:
                self._engine = Engine.open(store, self._clock, snapshot_events=SNAPSHOT_EVENTS)
            except BaseException:
                store.close()
                raise
        return self._engine

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def answer(self, name: str, nonce: str, request: Request) -> Written | Found | None:
        """Return the answer to ``request``, or None if its outcome is unknown."""
        if not self._bug and self._bug_file.exists():
            self._bug = self._bug_file.read_text("utf-8")
            self.close()
        is_stale = self._bug == "stale-reads" and isinstance(request, Read)
        try:
            asked = Read(may_lag=True) if is_stale else request
            return ask(self.engine, spec_of(name, nonce), asked)
        except UnsureAppendError:
            return None
        except StoreError:
            return None if isinstance(request, Read) else Written(Verdict.FAILED)
        except CorruptLedgerError:
            if not self._bug:
                raise
            self.close()
            return None


def plant(store: EtcdStore, bug: str) -> None:
    """Break ``store`` by ``bug``, so that the test shows whether the check detects it."""
    appender = store._appender
    if bug == "no-compare":
        appender._etcd = _Careless(store._client)
    elif bug == "early-answer":
        written = appender.append
        kept: list[tuple[Block, Head]] = []

        def append(block: Block, expected: Head) -> None:
            """Acknowledge a block, but write it only when the next block comes."""
            kept.append((block, expected))
            if len(kept) > 1:
                written(*kept.pop(0))

        appender.append = append  # type: ignore[method-assign]


class _Careless:
    """An etcd that compares nothing."""

    def __init__(self, client: EtcdClient) -> None:
        self._client = client
        self.get = client.get

    def commit(self, txn: Txn) -> TxnAnswer:
        return self._client.commit(replace(txn, compare=()))


def main(words: Sequence[str]) -> None:
    url, history, client, seed, next_s, way_s, bug_file, clock_file, pool = words
    ending = _Ending()
    signal.signal(signal.SIGTERM, ending.ask)
    chance = Random(f"{seed} {client}")
    clock = SteppedClock(Path(clock_file))
    scheduler = Scheduler(parse_address(url.removeprefix("etcd:")), clock, Path(bug_file))
    with HistoryFile(Path(history), client) as file:
        while not ending.is_asked:
            name, request = pick(chance, client, int(pool))
            file.sent(name, request)
            began_s = time.monotonic()
            answer = scheduler.answer(name, client, request)
            if answer is not None:
                file.answered(answer)
            took_s = time.monotonic() - began_s
            time.sleep(max(float(next_s), min(took_s, float(way_s))))
    scheduler.close()


if __name__ == "__main__":
    main(sys.argv[1:])
