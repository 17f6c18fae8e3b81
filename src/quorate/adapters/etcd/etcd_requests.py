"""Requests to etcd and its answers, as values.

A range is ``[key, end)``. A range without an end is the single key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Row:
    """A key with its value. Revisions count all changes in etcd, not only changes of one key."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int


@dataclass(frozen=True, slots=True)
class Get:
    """Asks for the first ``limit`` rows of a range in key order; ``limit`` 0 means all rows."""

    key: bytes
    end: bytes = b""
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Put:
    """Sets a key. If ``lease`` is not 0, etcd removes the key when that lease ends."""

    key: bytes
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    """Removes the keys of a range."""

    key: bytes
    end: bytes = b""


@dataclass(frozen=True, slots=True)
class ModifiedAt:
    """True if ``key`` was last changed at ``revision``; 0 means that the key does not exist."""

    key: bytes
    revision: int


@dataclass(frozen=True, slots=True)
class CreatedAt:
    """True if ``key`` was created at ``revision``; 0 means that the key does not exist."""

    key: bytes
    revision: int


@dataclass(frozen=True, slots=True)
class Absent:
    """True if no key of the range exists."""

    key: bytes
    end: bytes


Comparison = ModifiedAt | CreatedAt | Absent
Action = Get | Put | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class Txn:
    """Atomically carries out ``then`` if every comparison is true, else ``otherwise``."""

    compare: tuple[Comparison, ...]
    then: tuple[Action, ...]
    otherwise: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class TxnAnswer:
    """Whether the comparisons were true, the revision afterwards, and the rows of each ``Get``."""

    held: bool
    revision: int
    rows: tuple[tuple[Row, ...], ...]


class KeyValues(Protocol):
    """The calls of etcd that a ledger needs.

    Both methods may raise a ``StoreError``. If ``commit`` raises ``StoreDownError``, etcd may have
    carried out the transaction, or may carry it out later.
    """

    def get(self, asked: Get, *, within_s: float | None = None) -> tuple[Row, ...]:
        """Return the rows that a quorum of etcd has now; an unanswered read is repeated.

        If ``within_s`` is given, the read is sent only once, and ``within_s`` is its time limit.
        """
        ...

    def commit(self, txn: Txn) -> TxnAnswer:
        """Send ``txn`` once and return etcd's answer."""
        ...


def after_prefix(prefix: bytes) -> bytes:
    """Return the end of the range of all keys that begin with ``prefix``."""
    assert prefix, "the empty prefix has no end"
    assert prefix[-1] < 0xFF, prefix  # noqa: PLR2004 - the last byte there is
    return prefix[:-1] + bytes([prefix[-1] + 1])
