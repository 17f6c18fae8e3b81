"""What other writers append to the ledger of a service: read on as soon as it is recorded.

Only a ledger in a store that others write to is read on. A store with a leader says when its head
has moved (``HeadWatch``), so that what others record is here a moment later. Besides, the head is
read every half second: so a service knows how old its state may be, and says so, also where the
store has stopped talking to it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf
from threading import Event, Thread
from time import monotonic
from typing import Final

from quorate.loop.engine import Engine
from quorate.ports.errors import QuorateError
from quorate.ports.leader_port import LedStore

_LOG = logging.getLogger(__name__)

FOLLOW_S: Final = 0.5
"""How often the head is read: a token that another service revokes is refused within 1 s."""
WATCH_S: Final = 0.5
"""How long the watch of a head waits at a time, and so how long it takes to close."""


class HeadWatch:
    """Calls ``wake`` from a thread of its own whenever the log has grown beyond what was seen."""

    def __init__(self, store: LedStore, seq: int, wake: Callable[[], None]) -> None:
        self._store = store
        self._wake = wake
        self._closing = Event()
        self.seq = seq
        self._thread = Thread(target=self._run, name="head-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Watch no longer; return when the thread has ended."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                seq = self._store.wait_for(self.seq + 1, within_s=WATCH_S).seq
            except QuorateError as error:
                _LOG.debug("the ledger's head is watched again after: %s", error)
                self._closing.wait(WATCH_S)
                continue
            if seq > self.seq:
                self.seq = seq
                self._wake()


class OtherWriters:
    """Reads on for one engine; for the ledger's thread only. ``trouble`` says why that fails.

    ``read_s`` is when the last head was asked for that the state has been brought to; at first,
    when opening the engine began.
    """

    def __init__(self, engine: Engine, read_s: float, watch: HeadWatch | None = None) -> None:
        self._engine = engine
        self._watch = watch
        self._next_s = 0.0
        self.read_s = read_s
        self.trouble = ""

    def wait_s(self) -> float:
        """Return how long nothing has to be read."""
        if not self._engine.is_shared:
            return inf
        is_behind = self._watch is not None and self._watch.seq > self._engine.head.seq
        return 0.0 if is_behind and not self.trouble else max(0.0, self._next_s - monotonic())

    def read_on(self) -> bool:
        """Apply what others have appended, if it is time to; return whether there was anything."""
        if self.wait_s() > 0:
            return False
        began_s = monotonic()
        try:
            blocks = self._engine.follow()
        except QuorateError as error:
            text = f"what other services have recorded cannot be read: {error}"
            if text != self.trouble:
                _LOG.warning("%s; it is tried again", text)
            self.trouble = text
            return False
        finally:
            self._next_s = monotonic() + FOLLOW_S
        if self.trouble:
            _LOG.info("what other services have recorded is read again")
        self.trouble, self.read_s = "", began_s
        return blocks > 0

    def close(self) -> None:
        """Watch the head no longer."""
        if self._watch is not None:
            self._watch.close()
