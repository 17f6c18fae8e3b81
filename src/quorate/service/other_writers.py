"""What other writers append to the ledger of a service: read on as soon as it is recorded.

Only a ledger in a store that others write to is read on. A store with a leader says when its head
has moved, so that what others record is here a moment later. Besides, the head is looked at every
half second: so a service knows how old its state may be, and says so, also where the store has
stopped talking to it. Both is done on threads of their own (``HeadWatch``): the ledger's thread
answers what it is asked while the store is out of reach.
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
from quorate.ports.errors import QuorateError
from quorate.ports.leader_port import LedStore

_LOG = logging.getLogger(__name__)

FOLLOW_S: Final = 0.5
"""How often the head is read: a token that another service revokes is refused within 1 s."""
WATCH_S: Final = 0.5
"""How long the watch of a head waits at a time, and so how long it takes to close."""
LOOK_S: Final = 2.0
"""How long a look at the head waits for an answer, and so how long closing may take."""
AWAY_S: Final = 5.0
"""How long looks may fail before a service is not ready: longer than etcd takes to elect."""


@dataclass(frozen=True, slots=True)
class HeadLook:
    """A look at the head: at ``asked_s``, by the steady clock, no more than ``seq`` was recorded.

    A look that had no answer says why in ``trouble``, and has the last one's ``seq`` and time.
    """

    seq: int
    asked_s: float
    trouble: str = ""


class HeadWatch:
    """Knows how far a log has got, by a watch and by looks; calls ``wake`` when either has news.

    ``look`` is replaced, never changed, so that other threads may read it.
    """

    def __init__(self, store: LedStore, seq: int, read_s: float, wake: Callable[[], None]) -> None:
        self._store = store
        self._wake = wake
        self._closing = Event()
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

    def close(self) -> None:
        """Watch no longer; return when both threads have ended."""
        self._closing.set()
        for thread in self._threads:
            thread.join()

    def _watch_on(self) -> None:
        while not self._closing.is_set():
            try:
                seq = self._store.wait_for(self.seq + 1, within_s=WATCH_S).seq
            except QuorateError as error:
                _LOG.debug("the ledger's head is watched again after: %s", error)
                self._closing.wait(WATCH_S)
                continue
            if seq > self.seq:
                self._watched_seq = seq
                self._wake()

    def _look_on(self) -> None:
        while not self._closing.wait(FOLLOW_S):
            asked_s = monotonic()
            try:
                seq = self._store.look_at_head(within_s=LOOK_S).seq
            except QuorateError as error:
                self.look = HeadLook(self.look.seq, self.look.asked_s, str(error))
            else:
                self.look = HeadLook(seq, asked_s)
            self._wake()


class OtherWriters:
    """Reads on for one engine; for the ledger's thread only. ``trouble`` says why that fails.

    ``read_s`` is when the last head was asked for that the state has been brought to; at first,
    when opening the engine began.
    """

    def __init__(self, engine: Engine, read_s: float, watch: HeadWatch | None = None) -> None:
        self._engine = engine
        self._watch = watch
        self._taken = None if watch is None else watch.look
        self._next_s = 0.0
        self.read_s = read_s
        self.trouble = ""

    @property
    def is_away(self) -> bool:
        """Whether the store did not answer the last look."""
        return self._watch is not None and bool(self._watch.look.trouble)

    @property
    def has_all_there_is(self) -> bool:
        """Whether the store is away, and the state is of use without it; any thread may ask."""
        return self.is_away and not self._engine.is_behind

    def wait_s(self) -> float:
        """Return how long nothing has to be read, or taken note of."""
        if not self._engine.is_shared:
            return inf
        if self._watch is not None and (self._watch.look is not self._taken or self._is_behind()):
            return 0.0
        return max(0.0, self._next_s - monotonic())

    def read_on(self) -> bool:
        """Apply what others have appended, if it is time to; return whether there was anything."""
        if self.wait_s() > 0:
            return False
        watch = self._watch
        if watch is None:
            return self._followed()
        look = self._taken = watch.look
        if look.trouble:
            # The store would keep this thread waiting, too.
            if monotonic() - look.asked_s > AWAY_S:
                self._failed(look.trouble)
            self._next_s = monotonic() + FOLLOW_S
            return False
        has_moved = self._followed() if watch.seq > self._engine.head.seq else False
        if self._engine.head.seq >= look.seq:
            self._worked(look.asked_s)
        return has_moved

    def close(self) -> None:
        """Watch the head no longer."""
        if self._watch is not None:
            self._watch.close()

    def _is_behind(self) -> bool:
        """Return whether more is recorded than was read, and the store is within reach."""
        watch = self._watch
        is_known = watch is not None and watch.seq > self._engine.head.seq
        return is_known and not self.is_away and not self.trouble

    def _followed(self) -> bool:
        """Return whether others have appended anything, which is applied now."""
        began_s = monotonic()
        try:
            blocks = self._engine.follow()
        except QuorateError as error:
            self._failed(str(error))
            return False
        finally:
            self._next_s = monotonic() + FOLLOW_S
        self._worked(began_s)
        return blocks > 0

    def _failed(self, why: str) -> None:
        text = f"what other services have recorded cannot be read: {why}"
        if text != self.trouble:
            _LOG.warning("%s; it is tried again", text)
        self.trouble = text

    def _worked(self, read_s: float) -> None:
        """Note that the state has all that the ledger had at ``read_s``."""
        if self.trouble:
            _LOG.info("what other services have recorded is read again")
        self.trouble, self.read_s = "", max(self.read_s, read_s)
