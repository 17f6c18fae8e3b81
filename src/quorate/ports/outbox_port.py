"""The outbox port: deliveries to other systems, kept until they succeed (ADR-0021).

A *sink* delivers to one receiver. A sink makes *parcels* while it reads the ledger. A sink stores
each parcel in one transaction with its cursor: the last event that it has read. So after any crash
the sink continues from the cursor, and a parcel is delivered at least once. The key of a parcel
lets the receiver detect repetitions.

``testing/outbox_contract.py`` tests these rules, and every adapter passes the tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Protocol

BACK_OFF_MS_MIN: Final = 1_000
"""The longest wait before the next attempt after a parcel's first failure."""

BACK_OFF_MS_MAX: Final = 300_000
"""The longest wait before the next attempt after any failure of a parcel."""

WAITING_MAX: Final = 100_000
"""How many parcels of one sink may wait; if more wait, the sink stops reading the ledger."""

KEYS_KEPT_EVENTS: Final = 1_000_000
"""The key of a delivered parcel is forgotten when it is this many events behind the cursor."""

_JITTER_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Parcel:
    """One delivery to one sink."""

    key: str
    """The idempotency key: unique in its sink, for ever."""

    line: str
    """Parcels of one line are delivered in the order in which they were taken in."""

    body: bytes

    seq: int
    """The sequence of the event that caused the parcel."""

    attempts: int = 0
    """How often its delivery failed."""

    at_ms: int = 0
    """When the parcel was made, by the clock of the service that made it."""

    failing_since_ms: int | None = None
    """Since when deliveries of its line have failed; None if none has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The parcels that a sink has still to deliver."""

    parcels: int
    since_ms: int | None
    """When the oldest waiting parcel was made; None if no parcel waits."""

    lines_failing: int
    trouble: str
    """The reason of the last failure of a line that still fails; empty if no line fails."""


class Outbox(Protocol):
    """Parcels and cursors of all sinks. Every change is durable on return, and whole or not at all.

    Any thread may call the methods, which raise ``StoreError`` only.
    """

    def cursor(self, sink: str) -> int:
        """Return the sequence of the last event that ``sink`` has read; 0 at first."""
        ...

    def head(self, sink: str) -> bytes:
        """Return the hash of the ledger at the cursor of ``sink``; empty if none was kept."""
        ...

    def take_in(self, sink: str, parcels: Sequence[Parcel], cursor: int, head: bytes = b"") -> None:
        """Store ``parcels``, ``cursor`` and the ledger's hash at the cursor in one transaction.

        The cursor never goes back, and no parcel is from an event after it. If the key of a parcel
        is known already, waiting or delivered, the known parcel stays unchanged. A new parcel has
        no attempts, and is due at once.
        """
        ...

    def due(self, sink: str, now_ms: int, limit: int) -> Sequence[Parcel]:
        """Return the first parcel of each line, if it is due, oldest first; at most ``limit``.

        Later parcels of a line wait for the first parcel, however long its delivery takes. If a
        parcel would have to wait longer than the longest back-off, the clock must have been set
        back since the parcel failed; such a parcel counts as due now.
        """
        ...

    def delivered(self, sink: str, key: str) -> None:
        """Forget the parcel and keep its key; the next parcel of its line is due at once.

        A second call changes nothing. The key must have been taken in.
        """
        ...

    def failed(self, sink: str, key: str, now_ms: int, why: str) -> int:
        """Count one more attempt of the first parcel of a line; return when it is due again.

        The parcel is due ``back_off_ms`` after ``now_ms``.
        """
        ...

    def given_up(self, sink: str, key: str) -> None:
        """Forget a parcel that will not be delivered.

        The effect is that of ``delivered``, but its line counts as failing.
        """
        ...

    def waiting(self, sink: str) -> Waiting:
        """Return how many parcels wait, since when, and the last failure."""
        ...

    def next_due_ms(self, sink: str) -> int | None:
        """Return when the next parcel is due, which may be in the past; None if none waits."""
        ...

    def close(self) -> None:
        """Release all resources; no other call may follow. A second call does nothing."""
        ...


def back_off_ms(key: str, attempts: int) -> int:
    """Return how long a parcel waits after its ``attempts``-th failure.

    The wait doubles each time, from ``BACK_OFF_MS_MIN`` to ``BACK_OFF_MS_MAX``. It is then reduced
    by a part of up to a quarter, which depends on the key and the attempt. So parcels that failed
    together are not tried together again.
    """
    assert attempts >= 1, attempts
    doublings = min(attempts - 1, BACK_OFF_MS_MAX.bit_length())
    longest_ms = min(BACK_OFF_MS_MIN << doublings, BACK_OFF_MS_MAX)
    digest = sha256(f"{attempts}:{key}".encode()).digest()
    part = int.from_bytes(digest[:_JITTER_BYTES])
    return longest_ms - ((longest_ms // 4 * part) >> (8 * _JITTER_BYTES))
