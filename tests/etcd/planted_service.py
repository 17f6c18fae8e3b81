"""`quorate serve` for tests: it pauses at a requested instant, and has a bug on request.

Files in the folder of the service control it, from when they are written. ``stop`` has an instant
and the name of a run: the service pauses, as by SIGSTOP, before it sends that run's block to etcd
(``append``), or that run's lease to its executor (``order``). When it has continued, and the append
or the order has ended, it writes ``went-on``; its client may have got an answer before, because the
service no longer leads. ``bug`` has the name of a ``Bug``. Its executor, ``simulated``, is a
machine room that all services of a test share. It has one reader, so that a second request gets the
state that the first request has read.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from threading import get_ident
from typing import Final

from quorate.adapters.etcd.etcd_client import EtcdClient
from quorate.adapters.etcd.etcd_requests import Put, Row, Txn, TxnAnswer
from quorate.adapters.stores.etcd_append import EtcdAppender, Fence, KnownHead
from quorate.ledger.chain import Block, Head
from quorate.loop.engine import Engine
from quorate.ports.executor_port import Executor, Order, StartLease
from quorate.service import executor_choice
from quorate.service.http import rest
from quorate.service.quorum.forwarding import LAG_MS
from quorate.service.quorum.freshness import Begun, KnownState, freshness
from quorate.service.readers import reader_pools
from quorate.service.readers.read_pool import ReadPool
from tests.etcd.shared_room import SharedRoom
from tests.service.program import CLI
from tests.tidy.tree import ROOT

BUG_FILE: Final = Path("bug")
STOP_FILE: Final = Path("stop")
WENT_ON_FILE: Final = Path("went-on")
ROOM_FILE: Final = Path("../room")
CODE: Final = (
    f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    f"from tests.etcd.planted_service import plant; plant()\n{CLI}"
)
"""The program of such a service."""
APPEND: Final = "append"
ORDER: Final = "order"


class Bug(StrEnum):
    """A bug of a service."""

    NO_COMPARE = "it appends without comparing the head and the leader"
    EARLY_ANSWER = "it acknowledges a block, and keeps it to be written later"
    STALE_READS = "it does not say that an answer may lag"
    OLD_TERM = "it gives orders under the newest term, also one in which another leads"


def plant() -> None:
    """Change this process as the files in its folder say."""
    _plant_appender()
    _plant_client()
    _plant_engine()
    reader_pools.ReadPool = partial(ReadPool, readers=1)  # type: ignore[assignment, attr-defined]
    rest.freshness = _said  # type: ignore[attr-defined]
    name = sys.argv[sys.argv.index("--quorum-name") + 1]
    room = SharedRoom(ROOM_FILE, name)
    executor_choice.SimulatedRoom = lambda _: room  # type: ignore[assignment, attr-defined, misc]


def _has(bug: Bug) -> bool:
    return BUG_FILE.exists() and BUG_FILE.read_text("utf-8") == bug


@dataclass(slots=True)
class _Stops:
    """Where this process pauses; ``has_stopped`` is true until the interrupted step has ended."""

    has_stopped: bool = False

    def stop_if_asked(self, instant: str, names: str) -> None:
        """Pause this process once, if ``stop`` asks for it now for a run in ``names``."""
        if not STOP_FILE.exists():
            return
        asked, name = STOP_FILE.read_text("utf-8").split()
        if asked == instant and name in names:
            STOP_FILE.unlink()
            self.has_stopped = True
            # The signal goes to this thread, which stops at once, before all other threads.
            signal.pthread_kill(get_ident(), signal.SIGSTOP)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Write ``went-on`` at the end of the block if this process paused in it."""
        try:
            yield
        finally:
            if self.has_stopped:
                self.has_stopped = False
                WENT_ON_FILE.touch()


_STOPS: Final = _Stops()


def _plant_appender() -> None:
    append, move_head = EtcdAppender.append, EtcdAppender._move_head
    check_at = EtcdAppender._check_at

    def appended(self: EtcdAppender, block: Block, expected: Head) -> None:
        if not _has(Bug.EARLY_ANSWER):
            with _STOPS.step():
                append(self, block, expected)

    def moved_head(
        self: EtcdAppender, head: Head, revision: int, fence: Fence | None, *puts: Put
    ) -> Txn:
        txn = move_head(self, head, revision, fence, *puts)
        return replace(txn, compare=()) if _has(Bug.NO_COMPARE) else txn

    def checked_at(
        self: EtcdAppender, expected: Head, known: KnownHead, after: tuple[Row, ...] = ()
    ) -> None:
        if not _has(Bug.NO_COMPARE):
            check_at(self, expected, known, after)

    EtcdAppender.append = appended  # type: ignore[method-assign]
    EtcdAppender._move_head = moved_head  # type: ignore[method-assign]
    EtcdAppender._check_at = checked_at  # type: ignore[method-assign]


def _plant_client() -> None:
    commit = EtcdClient.commit

    def committed(self: EtcdClient, txn: Txn, *, within_s: float | None = None) -> TxnAnswer:
        for each in txn.then:
            if isinstance(each, Put):
                _STOPS.stop_if_asked(APPEND, each.value.decode("utf-8", "replace"))
        return commit(self, txn, within_s=within_s)

    EtcdClient.commit = committed  # type: ignore[method-assign]


def _plant_engine() -> None:
    send = Engine._send

    def sent(self: Engine, executor: Executor, orders: Sequence[Order]) -> None:
        with _STOPS.step():
            for each in orders:
                if isinstance(each, StartLease):
                    _STOPS.stop_if_asked(ORDER, each.run.name)
            if _has(Bug.OLD_TERM):
                assert isinstance(executor, SharedRoom), executor
                self._term = executor.newest_term
            send(self, executor, orders)

    Engine._send = sent  # type: ignore[method-assign]


def _said(known: KnownState, before: Begun, *, is_order: bool) -> list[tuple[str, str]]:
    found = freshness(known, before, is_order=is_order)
    return [each for each in found if each[0] != LAG_MS or not _has(Bug.STALE_READS)]
