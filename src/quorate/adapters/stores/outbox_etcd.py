"""The outbox of a ledger in etcd: a new leader continues the deliveries of the last leader.

A parcel is one message for one sink, such as a webhook or a mail address. Parcels are derived from
the ledger's events, so they need not be stored. For each sink, etcd has a position: a block up to
which every parcel was delivered or given up. A new leader makes the parcels after that position
again, and delivers them. Parcels that the previous leader delivered beyond the position are sent
again with the same key, so the receiver can drop them. Waiting parcels are in a temporary file on
the leader's machine (docs/adr/0021). A line is a sequence of parcels that are delivered in order.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Lock
from typing import Final, Self

from quorate.adapters.etcd.etcd_address import EtcdAddress
from quorate.adapters.etcd.etcd_client import EtcdClient
from quorate.adapters.etcd.etcd_requests import Get, KeyValues, ModifiedAt, Put, Row, Txn
from quorate.adapters.stores.etcd_records import EtcdKeys, position_of, position_value
from quorate.adapters.stores.outbox_sqlite import SqliteOutbox
from quorate.ports.outbox_port import Parcel, Waiting

KEEP_S: Final = 1.0
"""How often a position is written while parcels wait; otherwise it is written immediately."""


@dataclass(slots=True)
class _Position:
    """A sink's progress.

    ``ends`` has the end of each block that the sink has read since its stored position: the
    sequence number of the block's last event, and the ledger's hash after this event.
    """

    kept: int
    revision: int
    ends: deque[tuple[int, bytes]]
    written_s: float = 0.0


class EtcdOutbox:
    """The sinks of the leader; see ``Outbox``. After ``close``, their positions stay in etcd.

    Positions never go back: a late write of a former leader changes nothing.
    """

    def __init__(
        self,
        etcd: KeyValues,
        keys: EtcdKeys,
        place: str,
        *,
        close: Callable[[], None] = lambda: None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._etcd = etcd
        self._keys = keys
        self._place = place
        self._clock_s = clock_s
        self._box = SqliteOutbox.temporary()
        self._positions: dict[str, _Position] = {}
        self._turn = Lock()
        self._on_close = ExitStack()
        self._on_close.callback(close)
        self._on_close.callback(self._box.close)

    @classmethod
    def open(cls, address: EtcdAddress) -> Self:
        """Return the outbox of the ledger at ``address``."""
        client = EtcdClient(address)
        return cls(client, EtcdKeys(address.name), address.place, close=client.close)

    def cursor(self, sink: str) -> int:
        """Return the sequence number up to which ``sink`` has made parcels; see ``Outbox``."""
        self._begun(sink)
        return self._box.cursor(sink)

    def head(self, sink: str) -> bytes:
        """Return the hash of the ledger at the cursor of ``sink``; see ``Outbox``."""
        self._begun(sink)
        return self._box.head(sink)

    def take_in(self, sink: str, parcels: Sequence[Parcel], cursor: int, head: bytes = b"") -> None:
        """Store ``parcels`` and the cursor until this outbox is closed; see ``Outbox``."""
        position = self._begun(sink)
        self._box.take_in(sink, parcels, cursor, head)
        with self._turn:
            position.ends.append((cursor, head))
        self._keep(sink)

    def due(self, sink: str, now_ms: int, limit: int) -> Sequence[Parcel]:
        """Return the parcels that are due, at most the first of each line; see ``Outbox``."""
        return self._box.due(sink, now_ms, limit)

    def delivered(self, sink: str, key: str) -> None:
        """Remove the parcel and remember its key; see ``Outbox``."""
        self._box.delivered(sink, key)
        self._keep(sink)

    def failed(self, sink: str, key: str, now_ms: int, why: str) -> int:
        """Count a failed attempt; return the time of the next attempt; see ``Outbox``."""
        return self._box.failed(sink, key, now_ms, why)

    def given_up(self, sink: str, key: str) -> None:
        """Remove a parcel that will not be delivered; see ``Outbox``."""
        self._box.given_up(sink, key)
        self._keep(sink)

    def waiting(self, sink: str) -> Waiting:
        """Return how many parcels wait, since when, and why; see ``Outbox``."""
        return self._box.waiting(sink)

    def next_due_ms(self, sink: str) -> int | None:
        """Return the time at which the next parcel is due; see ``Outbox``."""
        return self._box.next_due_ms(sink)

    def close(self) -> None:
        """Release all resources; see ``Outbox``."""
        self._on_close.close()

    def _begun(self, sink: str) -> _Position:
        """Return the progress of ``sink``; the first call reads the stored position."""
        with self._turn:
            known = self._positions.get(sink)
            if known is not None:
                return known
            row = self._row(sink)
            seq, digest = (0, b"") if row is None else position_of(row, self._place)
            if seq:
                self._box.take_in(sink, (), seq, digest)
            revision = 0 if row is None else row.mod_revision
            begun = _Position(seq, revision, deque([(seq, digest)]))
            self._positions[sink] = begun
            return begun

    def _keep(self, sink: str) -> None:
        """Write the position of ``sink`` if it has moved and a write is due."""
        with self._turn:
            position = self._positions[sink]
            oldest = self._box.oldest_seq(sink)
            ends = position.ends
            while len(ends) > 1 and (oldest is None or ends[1][0] < oldest):
                ends.popleft()
            now_s = self._clock_s()
            is_time = oldest is None or now_s - position.written_s >= KEEP_S
            if ends[0][0] > position.kept and is_time:
                self._write(sink, position)
                position.written_s = now_s

    def _write(self, sink: str, position: _Position) -> None:
        """Write the position to etcd, unless another service has written a later position."""
        seq, digest = position.ends[0]
        key = self._keys.outbox(sink)
        while seq > position.kept:
            answer = self._etcd.commit(
                Txn(
                    compare=(ModifiedAt(key, position.revision),),
                    then=(Put(key, position_value(seq, digest)),),
                    otherwise=(Get(key),),
                )
            )
            if answer.held:
                position.kept, position.revision = seq, answer.revision
                return
            rows = answer.rows[0]
            position.revision = rows[0].mod_revision if rows else 0
            position.kept = position_of(rows[0], self._place)[0] if rows else 0

    def _row(self, sink: str) -> Row | None:
        rows = self._etcd.get(Get(self._keys.outbox(sink)))
        return rows[0] if rows else None
