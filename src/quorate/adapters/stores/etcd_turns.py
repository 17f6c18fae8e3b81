"""Gives the writers of a ledger in etcd turns, so that a slow writer does not lose every race.

All writers race for the head: at each head one append succeeds. A writer whose decisions take
longer than those of the others could lose every time. Such a writer enters a queue: it puts a key
``NAME/turn/ENTRY`` with a lease. While there is an entry, etcd refuses every append except those of
writers in the queue, and a writer in the queue appends only when its entry is the oldest. The
append removes the entry.

An entry is removed with its lease, so a writer that is lost delays the others for the duration of
the lease only. If the lease ends before the writer has appended, its next lease is twice as long.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, Protocol
from uuid import uuid4

from quorate.adapters.etcd.etcd_requests import (
    Absent,
    Comparison,
    Delete,
    Get,
    KeyValues,
    ModifiedAt,
    Put,
    Row,
    Txn,
    after_prefix,
)
from quorate.adapters.stores.etcd_records import EtcdKeys
from quorate.ports.errors import NotLeaderError, StoreDownError, StoreError

_LOG = logging.getLogger(__name__)

TURN_S: Final = 3
"""How long an entry stays after its last renewal; etcd's shortest lease is 2 seconds."""
TURN_S_MAX: Final = 24
"""The longest such time."""
RENEW_S: Final = 1.0
"""The time limit of one renewal."""
LOOK_S: Final = 0.25
"""How often a waiting writer reads the queue, if the head does not move."""


class TurnCalls(KeyValues, Protocol):
    """The calls of etcd that the queue needs; each may raise a ``StoreError``."""

    def grant(self, ttl_s: int) -> int:
        """Return the id of a new lease."""
        ...

    def keep_alive(self, lease: int, within_s: float) -> int:
        """Renew ``lease``; raises ``NotLeaderError`` when it has ended."""
        ...


class EtcdTurns:
    """The queue as one writer uses it; for the thread that appends.

    ``until_moved`` returns when the head has changed after a revision, or after some seconds. Its
    result is the revision of the last known change, or the given one.
    """

    def __init__(
        self,
        etcd: TurnCalls,
        keys: EtcdKeys,
        until_moved: Callable[[int, float], int],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._etcd = etcd
        self._keys = keys
        self._until_moved = until_moved
        self._clock_s = clock_s
        self._lease_s = TURN_S
        self._lease = 0
        self._entry: Row | None = None
        self._renewed_s = 0.0

    @property
    def queue(self) -> Get:
        """The request for the oldest entries; the rows are in the order of their keys."""
        return Get(self._keys.turns, after_prefix(self._keys.turns))

    def comparison(self) -> Comparison:
        """Return the condition of an append: this writer has the turn, or the queue is empty."""
        entry = self._entry
        if entry is None:
            return Absent(self._keys.turns, after_prefix(self._keys.turns))
        return ModifiedAt(entry.key, entry.mod_revision)

    def leaving(self) -> tuple[Delete, ...]:
        """Return the action with which an append leaves the queue."""
        return () if self._entry is None else (Delete(self._entry.key),)

    def appended(self) -> None:
        """Record that an append was recorded, and removed the entry."""
        if self._entry is not None:
            self._entry, self._lease_s = None, TURN_S

    def refused(self, queue: tuple[Row, ...]) -> bool:
        """Return whether an append was refused because of ``queue``, which it has read."""
        entry = self._entry
        if entry is None:
            return bool(queue)
        if entry in queue:
            return False
        self._lost()
        return True

    def wait(self, revision: int) -> None:
        """Wait for a moment, at most until the head has changed after ``revision``."""
        self._until_moved(revision, LOOK_S)

    def take(self, revision: int) -> None:
        """Enter the queue, and return when this writer has the turn.

        ``revision`` is the last known one of the head's key. If etcd does not answer, return
        without a turn: the next append finds out whether etcd can be reached.
        """
        try:
            self._wait_until_first(revision)
        except StoreDownError as error:
            _LOG.info("this writer goes on without a turn: %s", error)
            self._entry = None

    def _wait_until_first(self, revision: int) -> None:
        while True:
            if self._entry is None:
                self._enter()
            entries = sorted(self._etcd.get(self.queue), key=lambda row: row.create_revision)
            if self._entry not in entries:
                self._lost()
                continue
            is_first = entries[0] == self._entry
            if (is_first or self._is_renewal_due()) and not self._is_renewed():
                self._lost()
            elif is_first:
                return
            else:
                revision = self._until_moved(revision, LOOK_S)

    def end(self) -> None:
        """Leave the queue without an append; if etcd does not answer, the entry expires."""
        entry, self._entry = self._entry, None
        if entry is not None:
            try:
                self._etcd.commit(Txn(compare=(), then=(Delete(entry.key),)))
            except StoreError as error:
                _LOG.info("the entry in the queue of writers expires by itself: %s", error)

    def _enter(self) -> None:
        """Put a new entry at the end of the queue.

        Each entry has a key of its own: if etcd's answer is lost, the entry expires by itself.
        """
        sent_s = self._clock_s()
        self._lease = self._etcd.grant(self._lease_s)
        key = self._keys.turns + uuid4().hex.encode()
        put = self._etcd.commit(Txn(compare=(), then=(Put(key, b"", self._lease),)))
        self._entry = Row(key, b"", put.revision, put.revision)
        self._renewed_s = sent_s

    def _is_renewal_due(self) -> bool:
        return self._clock_s() - self._renewed_s >= self._lease_s / 3

    def _is_renewed(self) -> bool:
        """Renew the lease of the entry; return False if it has ended."""
        sent_s = self._clock_s()
        try:
            self._etcd.keep_alive(self._lease, RENEW_S)
        except NotLeaderError:
            return False
        except StoreDownError as error:
            # The lease may last: the next read of the queue shows whether it does.
            _LOG.debug("the entry in the queue of writers was not renewed: %s", error)
        else:
            self._renewed_s = sent_s
        return True

    def _lost(self) -> None:
        """Record that the entry's lease ended; the next one is twice as long."""
        self._entry = None
        self._lease_s = min(TURN_S_MAX, 2 * self._lease_s)
