"""What is asked of etcd and what it answers, as values.

A range is ``[key, end)``; without an end it is the one key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Row:
    """A key as etcd has it. Revisions count the changes of the whole of etcd."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int


@dataclass(frozen=True, slots=True)
class Get:
    """Asks for the rows of a range in the order of their keys, ``limit`` of them unless 0."""

    key: bytes
    end: bytes = b""
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Put:
    """Sets a key; with a lease the key is removed when that ends."""

    key: bytes
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    """Removes a range."""

    key: bytes
    end: bytes = b""


@dataclass(frozen=True, slots=True)
class ModifiedAt:
    """Holds while the last change of ``key`` was at ``revision``; 0: while there is no such key."""

    key: bytes
    revision: int


@dataclass(frozen=True, slots=True)
class CreatedAt:
    """Holds while ``key`` is the one made at ``revision``; 0: while there is no such key."""

    key: bytes
    revision: int


Comparison = ModifiedAt | CreatedAt
Action = Get | Put | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class Txn:
    """Carries out ``then`` if every comparison holds, ``otherwise`` if one does not, at once."""

    compare: tuple[Comparison, ...]
    then: tuple[Action, ...]
    otherwise: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class TxnAnswer:
    """Whether the comparisons held, etcd's revision after it, and the rows of each ``Get``."""

    held: bool
    revision: int
    rows: tuple[tuple[Row, ...], ...]


class KeyValues(Protocol):
    """What a ledger asks of etcd.

    Both raise a ``StoreError``. Where ``commit`` raises ``StoreDownError``, the transaction may
    have been carried out, or may still be.
    """

    def get(self, asked: Get, *, within_s: float | None = None) -> tuple[Row, ...]:
        """Return rows as a quorum has them now; asking again changes nothing, and is done.

        With ``within_s`` it is asked once, for so long.
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
