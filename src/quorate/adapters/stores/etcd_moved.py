"""Marks a ledger in etcd that was moved to another store, so that later appends are refused.

Every append compares the mark's key, which must not exist (``etcd_append.py``). So a program that
still has the old ledger open cannot acknowledge anything that the new ledger lacks.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from quorate.adapters.etcd.etcd_requests import (
    Get,
    KeyValues,
    ModifiedAt,
    Put,
    Row,
    Txn,
    after_prefix,
)
from quorate.adapters.stores.etcd_records import EtcdKeys, head_of
from quorate.ledger.chain import Head
from quorate.ports.errors import LedgerMovedError, LedgerServedError, StoreError
from quorate.ports.leader_port import LeaderRecord, MemberRecord
from quorate.prepared_types import prepared

T = TypeVar("T", LeaderRecord, MemberRecord)


class EtcdMove:
    """Marks one ledger as moved."""

    def __init__(self, etcd: KeyValues, keys: EtcdKeys, place: str) -> None:
        self._etcd = etcd
        self._keys = keys
        self._place = place

    def check_not_moved(self) -> None:
        """Raise ``LedgerMovedError`` if the ledger was moved."""
        rows = self._etcd.get(Get(self._keys.moved))
        if rows:
            raise moved_error(rows[0], self._place)

    def check_unserved(self) -> None:
        """Raise ``LedgerServedError``, with the services' names, if services serve the ledger."""
        keys = self._keys
        found = {}
        for row in self._etcd.get(Get(keys.members, after_prefix(keys.members))):
            member = self._decoded(row, MemberRecord)
            found[member.name] = member.address
        for row in self._etcd.get(Get(keys.leader)):
            leader = self._decoded(row, LeaderRecord)
            found[leader.name] = leader.address
        if found:
            raise LedgerServedError(self._place, found)

    def mark(self, head: Head, target: str) -> None:
        """Refuse all later appends; raises a ``StoreError`` unless the log ends at ``head``.

        ``target`` is the place of the ledger from now on. If etcd's answer is lost, the mark may
        have been written; writing it again is harmless.
        """
        keys = self._keys
        rows = self._etcd.get(Get(keys.head))
        if rows and head_of(rows[0], self._place) == head:
            unmoved = (ModifiedAt(keys.head, rows[0].mod_revision), ModifiedAt(keys.leader, 0))
            then = (Put(keys.moved, target.encode()),)
            if self._etcd.commit(Txn(compare=unmoved, then=then)).held:
                return
        self.check_unserved()
        raise StoreError(
            f"another program wrote to {self._place} meanwhile; stop every program that uses this "
            f"ledger, and try again"
        )

    def _decoded(self, row: Row, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(row.value, type=prepared(kind))
        except msgspec.DecodeError as error:
            what = f"{self._place}: the entry {row.key.decode()} is unreadable: {error}"
            raise StoreError(what) from error


def moved_error(row: Row, place: str) -> LedgerMovedError:
    """Return the error of an append that found the mark in ``row``."""
    return LedgerMovedError(place, target=row.value.decode(), mark=row.key.decode())
