"""Keeps a ledger in etcd small: moves older blocks to the archive, and compacts etcd.

Blocks are moved in segments, each of which becomes one file. The file of a segment is written, read
back and verified, block by block. Then one transaction removes the segment's blocks from etcd and
creates the key that names the file. If several programs move a segment at the same time, only one
transaction succeeds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from quorate.adapters.etcd.etcd_client import EtcdClient, MemberStatus
from quorate.adapters.etcd.etcd_requests import (
    Delete,
    Get,
    ModifiedAt,
    Put,
    Txn,
    after_prefix,
)
from quorate.adapters.stores.etcd_reading import SEGMENTS_ROOM, EtcdReader
from quorate.adapters.stores.etcd_records import EtcdKeys, head_of, segment_value
from quorate.ledger.chain import Block
from quorate.ledger.segment import Segment, check, pack
from quorate.ports.archive_port import FileArchive
from quorate.ports.errors import StoreError

_LOG = logging.getLogger(__name__)

SEGMENT_BYTES: Final = 16 << 20
"""A segment is closed when its blocks have this size, before compression."""
SNAPSHOTS_ROOM: Final = "snapshots"
SNAPSHOTS_KEPT: Final = 2
"""The number of published snapshots in the archive; a reader may be copying the older snapshot."""
DEFRAGMENT_BYTES: Final = 512 << 20
DEFRAGMENT_FREE: Final = 0.75
_SPACE_ALARM: Final = "NOSPACE"


class EtcdUpkeep:
    """Maintains one ledger in etcd. Only one thread at a time may use this object."""

    def __init__(
        self,
        client: EtcdClient,
        archive: FileArchive,
        keys: EtcdKeys,
        place: str,
        *,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self._client = client
        self._archive = archive
        self._keys = keys
        self._place = place
        self._segment_bytes = segment_bytes
        # A separate reader, because this object runs on another thread than the store.
        self._reader = EtcdReader(client, archive, keys, place)

    def close_segments(self, upto_height: int) -> int:
        """Move complete segments, up to ``upto_height``, to the archive; return their number.

        Raises ``StoreError`` and ``CorruptLedgerError``; the segments that were already moved stay
        valid.
        """
        closed = 0
        segments = self._reader.segments()
        first = segments[-1].last_height + 1 if segments else 1
        for blocks in self._full(self._reader.blocks(first, upto_height)):
            revision = self._move(blocks)
            if revision is None:
                break
            closed += 1
            self._client.compact(revision)
        if closed:
            self._forget_writers(self._reader.segments()[-1].last_height)
            self.defragment_where_worthwhile()
        return closed

    def _forget_writers(self, upto_height: int) -> None:
        """Remove the marks of writers that have appended nothing after ``upto_height``.

        Most of these writers have ended. If such a writer still runs, and its next append gets no
        answer, the writer cannot always tell whether the append succeeded.
        """
        marks = self._keys.writers
        for row in self._client.get(Get(marks, after_prefix(marks))):
            if head_of(row, self._place).height <= upto_height:
                unmoved = (ModifiedAt(row.key, row.mod_revision),)
                self._client.commit(Txn(compare=unmoved, then=(Delete(row.key),)))

    def publish_snapshot(self, height: int, file: Path) -> None:
        """Store a copy of ``file``, the snapshot at ``height``, for programs without a snapshot."""
        self._archive.put_file(f"{SNAPSHOTS_ROOM}/{height:012d}.archive", file)
        for name in self._archive.names(SNAPSHOTS_ROOM)[:-SNAPSHOTS_KEPT]:
            self._archive.remove(name)

    def published_snapshots(self) -> list[tuple[int, str]]:
        """Return height and name of the published snapshots, newest first."""
        names = self._archive.names(SNAPSHOTS_ROOM)
        found = [(Path(name).stem, name) for name in names]
        return sorted(((int(stem), name) for stem, name in found if stem.isdigit()), reverse=True)

    def fetch_snapshot(self, name: str, target: Path) -> None:
        """Write the published snapshot ``name`` to the new file ``target``."""
        self._archive.get_file(name, target)

    def defragment_where_worthwhile(self) -> None:
        """Defragment the members whose files are large and mostly empty, one after another."""
        self._defragment(each for each in self._client.status() if is_worth_defragmenting(each))

    def recover_space(self) -> bool:
        """Return whether etcd was out of space; if so, free space, so that etcd accepts writes.

        To free space, the history is compacted, every member that answers is defragmented, and the
        alarm is disarmed. If the keys themselves take too much space, or a member without space was
        down, the alarm returns with a later write. A failure is logged: reads still work, and a
        write raises ``StoreFullError``.
        """
        members = self._client.status()
        if not any(_SPACE_ALARM in trouble for each in members for trouble in each.troubles):
            return False
        try:
            self._client.compact(max(each.revision for each in members))
            freed = self._defragment(members)
            self._client.disarm_space_alarms()
        except StoreError as error:
            _LOG.warning("%s has no space left in etcd, and none was freed: %s", self._place, error)
            return True
        _LOG.warning(
            "%s had no space left in etcd; etcd was compacted, and %d of %d members defragmented",
            self._place,
            freed,
            len(self._client.address.endpoints),
        )
        return True

    def _defragment(self, members: Iterable[MemberStatus]) -> int:
        """Defragment ``members`` one by one; return the number of successes, and log failures."""
        done = 0
        for each in members:
            _LOG.info("defragmenting etcd at %s", each.endpoint)
            try:
                self._client.defragment(each.endpoint)
            except StoreError as error:
                _LOG.warning("a member of etcd was not defragmented: %s", error)
            else:
                done += 1
        return done

    def _full(self, blocks: Iterator[Block]) -> Iterator[list[Block]]:
        """Yield the blocks of each full segment in turn; the remaining blocks are left out."""
        waiting: list[Block] = []
        size = 0
        for block in blocks:
            waiting.append(block)
            size += len(block.body)
            if size >= self._segment_bytes:
                yield waiting
                waiting, size = [], 0

    def _move(self, blocks: list[Block]) -> int | None:
        """Move ``blocks`` to the archive; return etcd's revision, or None if others moved them."""
        segment, data = pack(blocks)
        name = f"{SEGMENTS_ROOM}/{segment.name}"
        self._archive.put(name, data)
        check(segment, self._archive.get(name))
        keys = self._keys
        first, end = segment.first_height, segment.last_height + 1
        txn = Txn(
            compare=(ModifiedAt(keys.segment(first), 0),),
            then=(
                Put(keys.segment(first), segment_value(segment)),
                Delete(keys.block(first), keys.block(end)),
                Delete(keys.parts_from(first), keys.parts_from(end)),
            ),
        )
        answer = self._client.commit(txn)
        if answer.held:
            _LOG.info("%s: blocks %d to %d moved to the archive", self._place, first, end - 1)
            return answer.revision
        self._drop_unless_named(segment, name)
        return None

    def _drop_unless_named(self, segment: Segment, name: str) -> None:
        """Remove the file of ``segment``, unless the program that moved the segment uses it."""
        if segment not in self._reader.segments():
            self._archive.remove(name)


def is_worth_defragmenting(status: MemberStatus) -> bool:
    """Return whether a member's file is large, and most of it is free."""
    free = status.bytes_taken - status.bytes_used
    return status.bytes_taken >= DEFRAGMENT_BYTES and free >= DEFRAGMENT_FREE * status.bytes_taken
