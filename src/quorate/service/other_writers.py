"""Reads what other services append to the ledger, as soon as it is recorded.

Only a ledger in a shared store is followed. A store with a leader reports when its head has moved,
so this service has the new events a moment later. In addition the service reads the head every half
second, so that it knows how old its state may be, even if the store stops reporting. ``HeadWatch``
receives the reports and reads the head on separate threads, so that the ledger thread answers
requests while the store cannot be reached.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from threading import Event, Thread
from time import monotonic
from typing import Final

from quorate.loop.engine import Engine
from quorate.ports.errors import NotLeaderError, QuorateError
from quorate.ports.leader_port import LedStore

_LOG = logging.getLogger(__name__)

FOLLOW_S: Final = 0.5
"""How often the head is read, so that a token that another service revokes is refused in 1 s."""
WATCH_S: Final = 0.5
"""The longest wait for a new head; closing the watch may take as long."""
LOOK_S: Final = 2.0
"""The longest wait for an answer to a read of the head; closing the watch may take as long."""
AWAY_S: Final = 5.0
"""How long reads may fail before a service is not ready: longer than etcd's elections take."""


@dataclass(frozen=True, slots=True)
class HeadLook:
    """A read of the head: at ``asked_s`` of the monotonic clock, ``seq`` was the last event.

    If a read got no answer, ``trouble`` says why, and ``seq`` and ``asked_s`` are from the last
    read that got an answer.
    """

    seq: int
    asked_s: float
    trouble: str = ""


class HeadWatch:
    """Tracks the end of a ledger.

    ``wake`` is called when a watch reports a new end, and after each read of the head. ``look`` is
    replaced, never changed, so that other threads may read it. ``on_look`` is called with each new
    ``look``.
    """

    def __init__(
        self,
        store: LedStore,
        seq: int,
        read_s: float,
        wake: Callable[[], None],
        on_look: Callable[[HeadLook], None],
    ) -> None:
        self._store = store
        self._wake = wake
        self._on_look = on_look
        self._closing = Event()
        self._is_due = Event()
        self._watched_seq = seq
        self.look = HeadLook(seq, read_s)
        self._threads = [
            Thread(target=run, name=name, daemon=True)
            for name, run in (("head-watch", self._watch_on), ("head-look", self._look_on))
        ]
        for thread in self._threads:
            thread.start()

    @property
    def seq(self) -> int:
        """The last event that is known to be recorded."""
        return max(self._watched_seq, self.look.seq)

    def look_now(self) -> None:
        """Request an immediate read of the head; any thread may call it."""
        self._is_due.set()

    def close(self) -> None:
        """Stop watching; wait until both threads have ended."""
        self._closing.set()
        self._is_due.set()
        for thread in self._threads:
            thread.join()

    def _watch_on(self) -> None:
        while not self._closing.is_set():
            try:
                seq = self._store.wait_for(self.seq + 1, within_s=WATCH_S).seq
            except QuorateError as error:
                _LOG.debug("watching the ledger's head again after an error: %s", error)
                self._closing.wait(WATCH_S)
                continue
            if seq > self.seq:
                self._watched_seq = seq
                self._wake()

    def _look_on(self) -> None:
        while True:
            self._is_due.wait(FOLLOW_S)
            if self._closing.is_set():
                return
            # The flag is cleared before the read: a request that comes during the read needs
            # another one.
            self._is_due.clear()
            asked_s = monotonic()
            try:
                seq = self._store.look_at_head(within_s=LOOK_S).seq
            except QuorateError as error:
                self.look = HeadLook(self.look.seq, self.look.asked_s, str(error))
            else:
                self.look = HeadLook(seq, asked_s)
            self._on_look(self.look)
            self._wake()


class OtherWriters:
    """Follows the ledger for one engine, on the ledger thread; ``trouble`` says why reading fails.

    The state has all events that the ledger had at ``read_s``.
    """

    def __init__(self, engine: Engine, read_s: float, watch: HeadWatch | None = None) -> None:
        self._engine = engine
        self.watch = watch
        self._taken = None if watch is None else watch.look
        self._next_s = 0.0
        self.read_s = read_s
        self.trouble = ""

    @property
    def away(self) -> str:
        """Why the store did not answer the last read; empty if it did. Any thread may ask."""
        return "" if self.watch is None else self.watch.look.trouble

    @property
    def has_all_there_is(self) -> bool:
        """Whether the store does not answer, but the state can be used; any thread may ask."""
        return bool(self.away) and not self._engine.is_behind

    def wait_s(self) -> float:
        """Return the seconds until the next read is due; infinite if a watch wakes the thread."""
        if not self._engine.is_shared:
            return inf
        if self.watch is not None:
            has_news = self.watch.look is not self._taken or self._is_behind()
            return 0.0 if has_news else inf
        return max(0.0, self._next_s - monotonic())

    def read_on(self) -> bool:
        """Apply blocks of other services, if a read is due; return whether any were found."""
        if self.wait_s() > 0:
            return False
        watch = self.watch
        if watch is None:
            return self._followed()
        look = self._taken = watch.look
        if look.trouble:
            # The store does not answer, and would block this thread.
            if monotonic() - look.asked_s > AWAY_S:
                self._failed(look.trouble)
            return False
        has_moved = self._followed() if watch.seq > self._engine.head.seq else False
        if self._engine.head.seq >= look.seq:
            self._worked(look.asked_s)
        return has_moved

    def close(self) -> None:
        """Stop watching the head."""
        if self.watch is not None:
            self.watch.close()

    def _is_behind(self) -> bool:
        """Return whether there are unread events and the store can be reached."""
        watch = self.watch
        is_known = watch is not None and watch.seq > self._engine.head.seq
        return is_known and not self.away and not self.trouble

    def _followed(self) -> bool:
        """Apply blocks that other services have appended; return whether there were new blocks."""
        began_s = monotonic()
        try:
            blocks = self._engine.follow()
        except NotLeaderError:
            # The lease is over: the ledger thread leaves the leadership with its next turn.
            return False
        except QuorateError as error:
            self._failed(str(error))
            return False
        finally:
            self._next_s = monotonic() + FOLLOW_S
        self._worked(began_s)
        return blocks > 0

    def _failed(self, why: str) -> None:
        text = f"events of other services cannot be read: {why}"
        if text != self.trouble:
            _LOG.warning("%s; trying again", text)
        self.trouble = text

    def _worked(self, read_s: float) -> None:
        """Record that the state has all events that the ledger had at ``read_s``."""
        if self.trouble:
            _LOG.info("events of other services can be read again")
        self.trouble, self.read_s = "", max(self.read_s, read_s)
