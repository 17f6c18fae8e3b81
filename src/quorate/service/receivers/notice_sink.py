"""One receiver as a sink: reads the ledger from a cursor, and delivers the receiver's notices.

All this runs on the receiver's own thread. Notices are stored in the outbox together with the
cursor, and removed when the receiver has confirmed them. After an interruption notices are sent
again with the same id (ADR-0021).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from quorate.documents.times import time_text
from quorate.ledger.chain import Block, Head, open_block
from quorate.model.amounts import DAY_MS
from quorate.model.events import Event
from quorate.ports.clock_port import Clock
from quorate.ports.outbox_port import WAITING_MAX, Outbox, Parcel, back_off_ms
from quorate.ports.store_port import EventStore
from quorate.service.accounting.outbox_place import check_place
from quorate.service.receivers.delivery_counts import DeliveryCounts
from quorate.service.receivers.delivery_result import Posted, Result
from quorate.views.notices.notice import KnownFew, Notice, names_in
from quorate.views.notices.notice_feed import notices_of

_LOG = logging.getLogger(__name__)

GIVE_UP_MS: Final = 3 * DAY_MS
"""How long a refused notice is retried before it is given up."""
PAUSE_MS_MAX: Final = 60_000
"""The longest pause for a receiver that accepts nothing."""
TAKEN_EVENTS_MAX: Final = 1_000
"""How many events, in whole blocks, are read for one transaction of the outbox."""
CURSOR_LAG_EVENTS: Final = 1_000
"""How many events the stored cursor may lag behind; a restart reads these events again."""
DELIVERIES_MAX: Final = 200
"""How many parcels (notices to send) are sent before the ledger is read again."""
DUE_MAX: Final = 20
"""How many lines (sequences of parcels) of the outbox are looked up at a time."""
SLEEP_S_MAX: Final = 60.0
"""The longest sleep of the thread, so that it soon notices that the clock was set."""


class Receiver(Protocol):
    """The target of a sink: it selects notices, encodes them, and sends them.

    The log names a receiver by its ``kind`` and its ``name``. ``name`` and ``digest`` identify a
    receiver: parcels that wait for one receiver are not sent to a different receiver of the same
    name. An empty ``tenant`` means all tenants.
    """

    kind: str
    name: str
    digest: str
    tenant: str

    def addressed(self, notice: Notice, known: KnownFew, ledger_id: str) -> Addressed | None:
        """Return ``notice`` in the form to send; None if it is not for this receiver."""
        ...

    def send(self, message: str, body: bytes, now_ms: int) -> Posted:
        """Send ``body``, which has the permanent id ``message``, and return the result."""
        ...

    def abort(self) -> None:
        """Close the connection under way, from another thread, and send nothing more."""
        ...


@dataclass(frozen=True, slots=True)
class Addressed:
    """A notice to send: notices of one ``line`` are sent in order; ``body`` is its content."""

    line: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Lookup:
    """The data that notices need in addition to events: runs, conflicts, and owners."""

    known: KnownFew
    owners: frozenset[str] | None
    """The owners whose notices the receiver gets; None for all owners."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The ledger and its state, as a sink reads them.

    ``reading`` opens the ledger, on any thread. ``look_up`` returns runs, conflicts and the owners
    below a tenant; it waits until the ledger thread has looked them up.
    """

    ledger_id: str
    reading: Callable[[], EventStore]
    look_up: Callable[[set[str], set[str], str], Lookup]


class NoticeSink:
    """Reads and delivers in steps; for one thread.

    ``is_gone`` is True once the receiver has declined further notices.
    """

    def __init__(
        self,
        receiver: Receiver,
        *,
        source: Source,
        outbox: Outbox,
        clock: Clock,
        counts: DeliveryCounts,
    ) -> None:
        self._receiver = receiver
        self._source = source
        self._outbox = outbox
        self._clock = clock
        self._counts = counts
        # The name has the ledger's id, because another ledger has other events with the same
        # sequences. It has the receiver's digest, because a receiver must not get parcels that wait
        # for another receiver of the same name.
        kind, name, digest = receiver.kind, receiver.name, receiver.digest
        self.name: Final = f"{kind}/{source.ledger_id}/{name}/{digest}"
        self._label: Final = f"{kind} {name}"
        self._cursor = 0
        self._begins_at: Head | None = None
        self._failures = 0
        self._pause_until_ms = 0
        self.is_gone = False
        self.is_stopping = False

    def begin(self) -> None:
        """Record that a new receiver gets notices of events from now on.

        Raises ``QuorateError`` like ``step``. After an error, the first ``step`` that succeeds
        makes the record.
        """
        store = self._source.reading()
        self._begins_at = store.head()
        self._find_place(store)

    def step(self) -> float:
        """Read new events and deliver waiting notices; return the seconds until the next call.

        Raises ``QuorateError`` if the ledger or the outbox cannot be read or written.
        """
        if self._has_ended():
            return SLEEP_S_MAX
        is_behind = self._take_in()
        self._deliver()
        waiting = self._outbox.waiting(self.name)
        now_ms = self._clock.now_ms()
        self._counts.stands(self._receiver.name, waiting, now_ms)
        if self._has_ended():
            return SLEEP_S_MAX
        due_ms = self._outbox.next_due_ms(self.name)
        if is_behind and waiting.parcels < WAITING_MAX:
            return 0.0
        if due_ms is None:
            return SLEEP_S_MAX
        wait_ms = max(due_ms, self._pause_until_ms) - now_ms
        return min(SLEEP_S_MAX, max(0.0, wait_ms / 1_000))

    def _has_ended(self) -> bool:
        return self.is_gone or self.is_stopping

    # --- Reading the ledger ---

    def _take_in(self) -> bool:
        """Read up to ``TAKEN_EVENTS_MAX`` events; return whether there are more events."""
        store = self._source.reading()
        end = store.head()
        if self._cursor == 0:
            self._find_place(store)
        assert self._cursor <= end.seq, (self._cursor, end)
        if self._cursor == end.seq or self._outbox.waiting(self.name).parcels >= WAITING_MAX:
            return self._cursor < end.seq
        parcels: list[Parcel] = []
        began = cursor = self._cursor
        head = b""
        for block in store.blocks(from_height=store.height_at(cursor + 1)):
            parcels += self._parcels(block)
            cursor, head = block.head.seq, block.head.hash
            if cursor - began >= TAKEN_EVENTS_MAX or self.is_stopping:
                break
        if parcels or cursor - self._outbox.cursor(self.name) >= CURSOR_LAG_EVENTS:
            self._outbox.take_in(self.name, parcels, cursor, head)
        self._cursor = cursor
        return cursor < end.seq

    def _find_place(self, store: EventStore) -> None:
        """Set the cursor from the outbox.

        The cursor of a new receiver is the ledger's end at ``begin``.
        """
        check_place(self._outbox, self.name, store)
        cursor = self._outbox.cursor(self.name)
        if cursor == 0:
            begin = self._begins_at or store.head()
            self._outbox.take_in(self.name, (), begin.seq, begin.hash)
            cursor = begin.seq
        self._cursor = cursor

    def _parcels(self, block: Block) -> Iterator[Parcel]:
        """Yield the parcels that the events of a block cause for this receiver."""
        before = Head(height=block.height - 1, seq=block.first_seq - 1, hash=block.prev_hash)
        events: list[Event] = list(open_block(block, after=before))
        lookup = self._source.look_up(*names_in(events), self._receiver.tenant)
        now_ms = self._clock.now_ms()
        for notice in notices_of(block.first_seq, events, lookup.known):
            if lookup.owners is not None and notice.owner not in lookup.owners:
                continue
            sent = self._receiver.addressed(notice, lookup.known, self._source.ledger_id)
            if sent is not None:
                yield Parcel(
                    key=notice.name,
                    line=sent.line,
                    body=sent.body,
                    seq=notice.seq,
                    at_ms=now_ms,
                )

    # --- Delivering ---

    def _deliver(self) -> None:
        """Send due parcels, line by line, until none is due or the receiver accepts no more."""
        sent = 0
        while sent < DELIVERIES_MAX and not self.is_stopping:
            now_ms = self._clock.now_ms()
            # If more than the longest pause is left, the clock was set back, and the pause is over.
            if 0 < self._pause_until_ms - now_ms <= PAUSE_MS_MAX:
                return
            due = self._outbox.due(self.name, now_ms, DUE_MAX)
            if not due:
                return
            for parcel in due:
                sent += 1
                if not self._send(parcel):
                    return

    def _send(self, parcel: Parcel) -> bool:
        """Send one parcel, and record the result; return whether to send more now."""
        message = f"msg_{self._source.ledger_id}_{parcel.key}"
        posted = self._receiver.send(message, parcel.body, self._clock.now_ms())
        if self.is_stopping and posted.result is not Result.DELIVERED:
            return False  # Aborted by this service: it is sent again after the next start.
        match posted.result:
            case Result.DELIVERED:
                self._outbox.delivered(self.name, parcel.key)
                self._counts.delivered(self._receiver.name)
                self._failures = 0
            case Result.GONE:
                self._end(posted)
            case Result.REFUSED | Result.REJECTED:
                self._failed(parcel, posted)
            case Result.UNREACHABLE:
                self._failures += 1
                pause_ms = min(PAUSE_MS_MAX, back_off_ms(self.name, self._failures))
                self._pause_until_ms = self._clock.now_ms() + pause_ms
                self._failed(parcel, posted)
        return posted.result in (Result.DELIVERED, Result.REFUSED, Result.REJECTED)

    def _failed(self, parcel: Parcel, posted: Posted) -> None:
        now_ms, name = self._clock.now_ms(), self._receiver.name
        due_ms = self._outbox.failed(self.name, parcel.key, now_ms, posted.why)
        self._counts.failed(name)
        if posted.result is Result.REJECTED:
            self._give_up(parcel, f"the receiver rejects the notice for good: {posted.why}")
            return
        if parcel.attempts == 0:
            _LOG.warning(
                "%s: notice %s of %s was not accepted (%s); trying again at %s",
                *(self._label, parcel.key, parcel.line, posted.why, time_text(due_ms)),
            )
        since_ms = parcel.failing_since_ms
        is_old = now_ms - parcel.at_ms >= GIVE_UP_MS
        if is_old and since_ms is not None and now_ms - since_ms >= GIVE_UP_MS:
            self._give_up(parcel, f"not accepted since {time_text(since_ms)}, last: {posted.why}")

    def _give_up(self, parcel: Parcel, why: str) -> None:
        self._outbox.given_up(self.name, parcel.key)
        self._counts.given_up(self._receiver.name)
        _LOG.error(
            "%s: notice %s of %s is given up: %s; it is still in the ledger: quorate notices "
            "--from %d",
            *(self._label, parcel.key, parcel.line, why, parcel.seq),
        )

    def _end(self, posted: Posted) -> None:
        self.is_gone = True
        self._counts.ended(self._receiver.name)
        _LOG.error(
            "%s has ended: the receiver declined further notices (%s). Waiting notices are kept; "
            "remove the receiver from the configuration, or restart the service to try again",
            *(self._label, posted.why),
        )
