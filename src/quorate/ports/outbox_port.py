"""The outbox port: deliveries to other systems, kept until they succeed (ADR-0021).

A *sink* delivers to one receiver. While a sink reads the ledger, it makes *parcels* from the
events. Its *cursor* is the last event that it has read. The sink stores each parcel and its new
cursor in one transaction. So after any crash the sink continues from the cursor, and each parcel is
delivered at least once. By the key of a parcel, the receiver can recognise a repetition.

``testing/outbox_contract.py`` tests these rules, and every adapter passes the tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Protocol

BACK_OFF_MS_MIN: Final = 1_000
"""How long a parcel waits at most after its first failure, before the next attempt."""

BACK_OFF_MS_MAX: Final = 300_000
"""How long a parcel waits at most after any failure, before the next attempt."""

WAITING_MAX: Final = 100_000
"""How many parcels of one sink may wait. While more wait, the sink does not read the ledger."""

KEYS_KEPT_EVENTS: Final = 1_000_000
"""How many events the cursor must be past a delivered parcel before the parcel's key is dropped."""

_JITTER_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Parcel:
    """One delivery to one sink."""

    key: str
    """The idempotency key of the parcel. A sink never uses a key again."""

    line: str
    """The parcels of one line are delivered in the order in which they were stored."""

    body: bytes

    seq: int
    """The sequence number of the event that caused the parcel."""

    attempts: int = 0
    """How many times the delivery of the parcel has failed."""

    at_ms: int = 0
    """When the parcel was made, by the clock of the service that made it."""

    failing_since_ms: int | None = None
    """Since when deliveries of the parcel's line have failed; None if none has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The parcels that a sink still has to deliver."""

    parcels: int
    since_ms: int | None
    """When the oldest waiting parcel was made; None if no parcel waits."""

    lines_failing: int
    trouble: str
    """The reason for the last failure of a line that still fails; empty if no line fails."""


class Outbox(Protocol):
    """Parcels and cursors of all sinks. Every change is made completely or not at all, and durably.

    A change is durable when its method returns. Any thread may call the methods, which raise no
    error but ``StoreError``.
    """

    def cursor(self, sink: str) -> int:
        """Return the number of the last event that ``sink`` has read; 0 if it has read none."""
        ...

    def head(self, sink: str) -> bytes:
        """Return the hash of the ledger at the cursor of ``sink``; empty if none was stored."""
        ...

    def take_in(self, sink: str, parcels: Sequence[Parcel], cursor: int, head: bytes = b"") -> None:
        """Store ``parcels``, ``cursor`` and the ledger's hash at the cursor in one transaction.

        The cursor never goes back, and no parcel may come from an event after the cursor. If the
        key of a parcel is already known, the known parcel does not change, whether it waits or was
        delivered. A new parcel has no attempts, and is due at once.
        """
        ...

    def due(self, sink: str, now_ms: int, limit: int) -> Sequence[Parcel]:
        """Return the first parcel of every line, if it is due; at most ``limit``, oldest first.

        Later parcels of a line wait for the first parcel, however long its delivery takes. If a
        parcel would have to wait longer than ``BACK_OFF_MS_MAX``, the clock must have been set back
        since the parcel failed. Such a parcel is due now.
        """
        ...

    def delivered(self, sink: str, key: str) -> None:
        """Drop the parcel, but keep its key; the next parcel of its line is due at once.

        A second call changes nothing. The parcel must have been stored by ``take_in``.
        """
        ...

    def failed(self, sink: str, key: str, now_ms: int, why: str) -> int:
        """Record a failed attempt of the first parcel of a line; return when it is due again.

        The parcel is due ``back_off_ms`` after ``now_ms``.
        """
        ...

    def given_up(self, sink: str, key: str) -> None:
        """Drop a parcel that will not be delivered.

        The effect is the same as that of ``delivered``, except that the parcel's line is failing
        afterwards.
        """
        ...

    def waiting(self, sink: str) -> Waiting:
        """Return how many parcels of ``sink`` wait, since when, and the last failure."""
        ...

    def next_due_ms(self, sink: str) -> int | None:
        """Return when the next parcel is due, which may be in the past; None if no parcel waits."""
        ...

    def close(self) -> None:
        """Release all resources; no other call may follow. A second call does nothing."""
        ...


def back_off_ms(key: str, attempts: int) -> int:
    """Return how long a parcel waits after its ``attempts``-th failure.

    The wait doubles with each failure, from ``BACK_OFF_MS_MIN`` to ``BACK_OFF_MS_MAX``. Up to a
    quarter of the wait is then subtracted; how much depends on the key and the attempt. So parcels
    that failed at the same time are not all tried again at the same time.
    """
    assert attempts >= 1, attempts
    doublings = min(attempts - 1, BACK_OFF_MS_MAX.bit_length())
    longest_ms = min(BACK_OFF_MS_MIN << doublings, BACK_OFF_MS_MAX)
    digest = sha256(f"{attempts}:{key}".encode()).digest()
    part = int.from_bytes(digest[:_JITTER_BYTES])
    return longest_ms - ((longest_ms // 4 * part) >> (8 * _JITTER_BYTES))
