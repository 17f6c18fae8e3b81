"""The outbox port: deliveries to other systems, kept until they succeed (ADR-0021).

A *sink* is one receiver of deliveries. It takes *parcels* in while it reads the ledger, and stores
in the same transaction how far it has read: its cursor. So after any crash it reads on from there,
and a parcel is delivered at least once; its key lets the receiver detect repetitions.

``testing/outbox_contract.py`` has this text as tests; every adapter passes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Protocol

BACK_OFF_MS_MIN: Final = 1_000
"""How long after its first failure a parcel is tried again, at most."""

BACK_OFF_MS_MAX: Final = 300_000
"""How long after a failure a parcel is tried again, at most, however often it failed."""

WAITING_MAX: Final = 100_000
"""How many parcels of one sink may wait: with more, it reads no further in the ledger."""

KEYS_KEPT_EVENTS: Final = 1_000_000
"""How many events behind the cursor the keys of delivered parcels are forgotten."""

_JITTER_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Parcel:
    """One delivery to one sink."""

    key: str
    """Idempotency key: unique in its sink, for ever."""

    line: str
    """Parcels of one line are delivered in the order they were taken in."""

    body: bytes

    seq: int
    """The event that caused it."""

    attempts: int = 0
    """How often it failed."""

    at_ms: int = 0
    """When it was made, by the clock of the service that made it."""

    failing_since_ms: int | None = None
    """Since when no parcel of its line could be delivered; None if none has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The parcels that a sink has still to deliver."""

    parcels: int
    since_ms: int | None
    """When the oldest of them was made; None if none waits."""

    lines_failing: int
    trouble: str
    """The reason of the last failure among lines that still fail; empty if none does."""

    trouble_ms: int | None
    """When that was."""


class Outbox(Protocol):
    """Parcels and cursors of all sinks. Every change is durable on return, whole or not at all.

    May be called from several threads. Methods raise ``StoreError`` only.
    """

    def cursor(self, sink: str) -> int:
        """Return the last event from which ``sink`` has taken parcels in; 0 at first."""
        ...

    def head(self, sink: str) -> bytes:
        """Return the hash of the ledger at the cursor of ``sink``; empty if none was kept."""
        ...

    def take_in(self, sink: str, parcels: Sequence[Parcel], cursor: int, head: bytes = b"") -> None:
        """Keep ``parcels``, ``cursor`` and the ledger's hash there in one transaction.

        The cursor never goes back, and no parcel is of an event after it. A parcel whose key is
        known, waiting or delivered, is not changed. Parcels begin with no attempt, due at once.
        """
        ...

    def due(self, sink: str, now_ms: int, limit: int) -> Sequence[Parcel]:
        """Return the first parcel of each line, if it is due, oldest first; at most ``limit``.

        Later parcels of a line wait for it, however long it takes. A parcel that is due later than
        the longest back-off from ``now_ms`` is due: the clock was set back since it failed.
        """
        ...

    def delivered(self, sink: str, key: str) -> None:
        """Forget the parcel and keep its key; the next of its line is due at once.

        A second call changes nothing. The key must have been taken in.
        """
        ...

    def failed(self, sink: str, key: str, now_ms: int, why: str) -> int:
        """Count one more attempt of the first parcel of a line; return when it is due again.

        That is ``back_off_ms`` from ``now_ms``.
        """
        ...

    def given_up(self, sink: str, key: str) -> None:
        """Forget a parcel that will not be delivered.

        As ``delivered``, but its line counts as failing.
        """
        ...

    def waiting(self, sink: str) -> Waiting:
        """Return how many parcels wait, since when, and the last failure."""
        ...

    def next_due_ms(self, sink: str) -> int | None:
        """Return when the next parcel is due, which may be past; None if none waits."""
        ...

    def close(self) -> None:
        """Release everything; further calls are bugs. Closing twice is allowed."""
        ...


def back_off_ms(key: str, attempts: int) -> int:
    """Return how long a parcel waits after its ``attempts``-th failure.

    Twice as long each time, from ``BACK_OFF_MS_MIN`` to ``BACK_OFF_MS_MAX``, less up to a quarter
    that depends on the key and the attempt: parcels that failed together are not tried together
    again.
    """
    assert attempts >= 1, attempts
    doublings = min(attempts - 1, BACK_OFF_MS_MAX.bit_length())
    longest_ms = min(BACK_OFF_MS_MIN << doublings, BACK_OFF_MS_MAX)
    digest = sha256(f"{attempts}:{key}".encode()).digest()
    part = int.from_bytes(digest[:_JITTER_BYTES])
    return longest_ms - ((longest_ms // 4 * part) >> (8 * _JITTER_BYTES))
