"""Gives the writers of a ledger in etcd turns, so that a slow writer does not lose every race.

All writers race for the head: at each head one append succeeds. A writer whose decisions take
longer than those of other writers could lose every time. Such a writer enters a queue: it creates a
key ``NAME/turn/ENTRY`` with a lease. While the queue has an entry, etcd refuses the appends of
writers that are not in the queue. A writer in the queue appends only when its entry is the oldest.
The append removes the entry.

etcd removes an entry when its lease ends, so a writer that has crashed delays other writers at most
for the duration of its lease. If the lease ends during the writer's turn, the writer's next lease
is twice as long. A writer can lose a race during its turn only to a program that ignores the queue,
such as an older version. In that case, or if even the longest lease was too short for a turn, the
writer appends without turns for some time, because its entry would only delay writers that respect
the queue.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from os import getpid
from socket import gethostname
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
TURN_S_MAX: Final = 12
"""The longest time that an entry stays after its last renewal."""
TURNLESS_S: Final = 10.0
"""How long a writer appends without turns, after turns have not helped."""
RENEW_S: Final = 1.0
"""The time limit of one renewal."""
LEAVE_S: Final = 0.5
"""The time limit of the removal of an entry; without an answer the entry expires."""
LOOK_S: Final = 0.25
"""How often a waiting writer reads the queue, if the head does not move."""
TELL_S: Final = 2.0
"""A wait longer than this is reported in the program's log, with the writer whose turn it is."""


class TurnCalls(KeyValues, Protocol):
    """The calls of etcd that the queue needs; each may raise a ``StoreError``."""

    def grant(self, ttl_s: int) -> int:
        """Return the id of a new lease."""
        ...

    def keep_alive(self, lease: int, within_s: float) -> int:
        """Renew ``lease``; raises ``NotLeaderError`` if the lease has ended."""
        ...


class EtcdTurns:
    """One writer's place in the queue; only for the thread that appends.

    ``until_moved`` takes a revision and a number of seconds. It waits until the head has changed
    after this revision, or until the seconds are over. It returns the revision of the last known
    change, or the given revision. ``leave`` sends the deletion of an entry. Unlike the
    calls of ``etcd``, it works even when a leader's lease is over.
    """

    def __init__(
        self,
        etcd: TurnCalls,
        keys: EtcdKeys,
        until_moved: Callable[[int, float], int],
        leave: Callable[[Txn], object],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._etcd = etcd
        self._keys = keys
        self._until_moved = until_moved
        self._leave = leave
        self._clock_s = clock_s
        self._name = f"{gethostname()}, process {getpid()}"
        self._lease_s = TURN_S
        self._lease = 0
        self._entry: Row | None = None
        self._has_turn = False
        self._renewed_s = 0.0
        self._turnless_until_s = 0.0

    @property
    def queue(self) -> Get:
        """The request for the entries; the rows are in the order of their keys."""
        return Get(self._keys.turns, after_prefix(self._keys.turns))

    def comparison(self) -> Comparison:
        """Return the condition of an append: this writer has the turn, or the queue is empty."""
        entry = self._entry
        if entry is None:
            return Absent(self._keys.turns, after_prefix(self._keys.turns))
        return ModifiedAt(entry.key, entry.mod_revision)

    def leaving(self) -> tuple[Delete, ...]:
        """Return the action by which an append deletes this writer's entry; empty without one."""
        return () if self._entry is None else (Delete(self._entry.key),)

    def appended(self) -> None:
        """Record that an append of this writer succeeded, and removed its entry, if it had one."""
        if self._entry is None:
            self._lease_s = max(TURN_S, self._lease_s // 2)
        self._entry, self._has_turn = None, False

    def refused(self, queue: tuple[Row, ...], *, has_moved: bool) -> bool:
        """Return whether the queue was the reason why an append was refused.

        ``queue`` has the entries that the refused append has read. ``has_moved`` says whether the
        head has moved.
        """
        entry = self._entry
        if entry is None:
            return bool(queue)
        if entry not in queue:
            self._expired()
            return True
        if has_moved:
            self._ignored()
        return False

    def wait_for_others(self, revision: int, queue: tuple[Row, ...]) -> None:
        """Wait until the head has changed after ``revision``, or the queue is empty.

        ``queue`` has the entries that were read last.
        """
        waiting = _Waiting(self._clock_s)
        while queue:
            if self._until_moved(revision, LOOK_S) != revision:
                return
            waiting.tell(queue)
            queue = self._etcd.get(self.queue)

    def take(self, revision: int) -> None:
        """Enter the queue, and wait until this writer has the turn.

        ``revision`` is the last known revision of the head's key. If etcd does not answer, or turns
        have not helped lately, return without a turn: the next append finds out whether etcd can be
        reached. A writer calls ``take`` again during its turn only if it has lost a race.
        """
        try:
            self._wait_until_first(revision)
        except StoreDownError as error:
            _LOG.info("this writer continues without waiting for its turn: %s", error)
            self.end()

    def end(self) -> None:
        """Leave the queue without an append; if etcd does not answer, the entry expires."""
        entry, self._entry, self._has_turn = self._entry, None, False
        if entry is not None:
            self._remove(entry.key)

    def _wait_until_first(self, revision: int) -> None:
        waiting = _Waiting(self._clock_s)
        while self._clock_s() >= self._turnless_until_s:
            if self._entry is None and not self._has_entered():
                continue
            entries = tuple(sorted(self._etcd.get(self.queue), key=lambda row: row.create_revision))
            if self._entry not in entries:
                self._expired()
                continue
            if self._has_turn:
                self._ignored()
                return
            is_first = entries[0] == self._entry
            if (is_first or self._is_renewal_due()) and not self._is_renewed():
                self._expired()
            elif is_first:
                self._has_turn = True
                return
            else:
                waiting.tell(entries)
                revision = self._until_moved(revision, LOOK_S)

    def _has_entered(self) -> bool:
        """Put a new entry at the end of the queue; return False if its lease had ended already."""
        sent_s = self._clock_s()
        self._lease = self._etcd.grant(self._lease_s)
        key, value = self._keys.turns + uuid4().hex.encode(), self._name.encode()
        try:
            put = self._etcd.commit(Txn(compare=(), then=(Put(key, value, self._lease),)))
        except NotLeaderError:
            self._lease_s = min(TURN_S_MAX, 2 * self._lease_s)
            return False
        except StoreDownError:
            # The entry may exist, and would delay this writer, too.
            self._remove(key)
            raise
        self._entry = Row(key, value, put.revision, put.revision)
        self._renewed_s = sent_s
        return True

    def _remove(self, key: bytes) -> None:
        try:
            self._leave(Txn(compare=(), then=(Delete(key),)))
        except StoreError as error:
            _LOG.info(
                "the entry in the queue of writers was not removed, and will expire: %s", error
            )

    def _expired(self) -> None:
        """Record that the entry's lease ended.

        If the lease ended during this writer's turn, the next lease is longer.
        """
        if self._has_turn:
            if self._lease_s == TURN_S_MAX:
                self._turnless_until_s = self._clock_s() + TURNLESS_S
            self._lease_s = min(TURN_S_MAX, 2 * self._lease_s)
        self._entry, self._has_turn = None, False

    def _ignored(self) -> None:
        """Leave the queue, because another program has appended during this writer's turn."""
        _LOG.warning(
            "a program that appends to this ledger ignores the queue of its writers; upgrade every "
            "service, scheduler and command that uses the ledger to this version"
        )
        self._turnless_until_s = self._clock_s() + TURNLESS_S
        self.end()

    def _is_renewal_due(self) -> bool:
        return self._clock_s() - self._renewed_s >= self._lease_s / 3

    def _is_renewed(self) -> bool:
        """Renew the lease of the entry; return False if the lease has ended."""
        sent_s = self._clock_s()
        try:
            self._etcd.keep_alive(self._lease, RENEW_S)
        except NotLeaderError:
            return False
        except StoreDownError as error:
            # The lease may still exist: the next read of the queue shows whether it does.
            _LOG.debug("the entry in the queue of writers was not renewed: %s", error)
        else:
            self._renewed_s = sent_s
        return True


class _Waiting:
    """Reports a long wait once, with the name of the writer whose turn it is."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._since_s: float | None = clock_s()

    def tell(self, queue: tuple[Row, ...]) -> None:
        """Report the wait if it lasts long; ``queue`` has the present entries."""
        if self._since_s is not None and self._clock_s() - self._since_s >= TELL_S:
            first = min(queue, key=lambda row: row.create_revision)
            _LOG.warning(
                "waiting for the turn of another writer of this ledger: %s; if that program has "
                "ended or hangs, its turn ends within %s s",
                first.value.decode(),
                TURN_S_MAX,
            )
            self._since_s = None
