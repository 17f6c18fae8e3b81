"""Reads the blocks of a ledger in etcd: older blocks from the archive, newer blocks from etcd.

The archive has blocks in files that are called segments, and etcd has a key for each segment. The
transaction that creates the key of a segment removes the segment's blocks from etcd. So a block
that is in neither place was moved between two reads, or is lost.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from quorate.adapters.etcd.etcd_requests import Get, KeyValues, Row, after_prefix
from quorate.adapters.stores.etcd_records import EtcdKeys, block_of, head_of, segment_of
from quorate.ledger.chain import GENESIS, Block, Head
from quorate.ledger.segment import Segment, unpack
from quorate.ports.archive_port import FileArchive
from quorate.ports.errors import CorruptLedgerError, LedgerNotFoundError, SegmentError

SEGMENTS_ROOM: Final = "segments"
PAGE_BLOCKS_MIN: Final = 4
PAGE_BLOCKS_MAX: Final = 1_024
PAGE_BYTES: Final = 2 << 20
"""The size that one read (a page) should have. After a much smaller page, the next page may have
more blocks; after a larger page, fewer."""


class EtcdReader:
    """The blocks of one ledger. Several threads may use this object."""

    def __init__(self, etcd: KeyValues, archive: FileArchive, keys: EtcdKeys, place: str) -> None:
        self._etcd = etcd
        self._archive = archive
        self._keys = keys
        self._place = place
        self._segments: tuple[Segment, ...] = ()
        self._unpacked: tuple[Segment, list[Block]] | None = None

    def head(self) -> Head:
        """Return the present head of the log; raises ``LedgerNotFoundError`` if there is no log."""
        rows = self._etcd.get(Get(self._keys.head))
        if not rows:
            raise LedgerNotFoundError(self._place)
        return head_of(rows[0], self._place)

    def segments(self) -> tuple[Segment, ...]:
        """Return the segments that are in the archive now, in order."""
        prefix = self._keys.segments
        rows = self._etcd.get(Get(prefix, after_prefix(prefix)))
        found = tuple(segment_of(row, self._place) for row in rows)
        before = GENESIS
        for each in found:
            if each.before != before:
                what = f"no segment of the archive follows block {before.height}"
                raise CorruptLedgerError(what, height=before.height + 1, source=self._place)
            before = each.head
        self._segments = found
        return found

    def blocks(self, height: int, last: int) -> Iterator[Block]:
        """Yield the blocks ``height`` to ``last``, a page or a segment at a time."""
        limit = PAGE_BLOCKS_MIN
        while height <= last:
            segment = self._segment_with(height)
            if segment is not None:
                blocks = self.unpacked(segment)[height - segment.first_height :]
                blocks = blocks[: last - height + 1]
            else:
                blocks = self._page(height, min(last, height + limit - 1))
                limit = _next_limit(limit, blocks)
            if not blocks and self._is_hot(height):
                raise self._missing(height)
            yield from blocks
            height += len(blocks)

    def block(self, height: int) -> Block:
        """Return the block at ``height``."""
        return next(self.blocks(height, height))

    def is_at(self, head: Head) -> bool:
        """Return whether ``head`` is the present or an earlier head of this log."""
        return head == GENESIS or self.block(head.height).head == head

    def height_at(self, seq: int, last: int) -> int:
        """Return the height of the block that holds event ``seq``; ``last`` is the last height."""
        segment = next((each for each in self.segments() if seq <= each.last_seq), None)
        if segment is not None:
            blocks = self.unpacked(segment)
            at = bisect_right(blocks, seq, key=lambda block: block.first_seq)
            return segment.first_height + at - 1
        low, high = self._hot_from(), last
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if seq <= self.block(middle).head.seq else (middle + 1, high)
        return low

    def unpacked(self, segment: Segment) -> list[Block]:
        """Return the blocks of ``segment``; its file must have the hash recorded in etcd."""
        kept = self._unpacked
        if kept is not None and kept[0] == segment:
            return kept[1]
        try:
            blocks = unpack(segment, self._archive.get(f"{SEGMENTS_ROOM}/{segment.name}"))
        except CorruptLedgerError as error:
            raise SegmentError(
                f"{self._place}: {error}; put the segment back from a copy of the archive"
            ) from error
        self._unpacked = (segment, blocks)
        return blocks

    def _hot_from(self) -> int:
        """Return the height of the first block in etcd, according to the segments last read."""
        return self._segments[-1].last_height + 1 if self._segments else 1

    def _segment_with(self, height: int) -> Segment | None:
        """Return the segment with the block at ``height``; None if no segment has this block.

        The function searches only the list of segments that was read last.
        """
        segments = self._segments
        if not segments or height > segments[-1].last_height:
            return None
        at = bisect_right(segments, height, key=lambda each: each.first_height)
        return segments[at - 1]

    def _is_hot(self, height: int) -> bool:
        """Read the list of segments again; return whether block ``height`` should be in etcd."""
        self.segments()
        return height >= self._hot_from()

    def _page(self, height: int, last: int) -> list[Block]:
        """Return the blocks from ``height`` on that are in etcd, up to the first missing block."""
        keys = self._keys
        found: list[Block] = []
        for row in self._etcd.get(Get(keys.block(height), keys.block(last + 1))):
            block = self._whole(row, height) if row.key == keys.block(height) else None
            if block is None:
                break
            found.append(block)
            height += 1
        return found

    def _whole(self, row: Row, height: int) -> Block | None:
        """Return the block in ``row``, with its body; None if parts of the body are missing."""
        block, parts = block_of(row, height, self._place)
        if not parts:
            return block
        rows = [
            each
            for number in range(parts)
            for each in self._etcd.get(Get(self._keys.part(height, block.hash, number)))
        ]
        if len(rows) != parts:
            return None
        return replace(block, body=b"".join(each.value for each in rows))

    def _missing(self, height: int) -> CorruptLedgerError:
        what = f"block {height}, or a part of it, is neither in etcd nor in the archive"
        return CorruptLedgerError(what, height=height, source=self._place)


def _next_limit(limit: int, blocks: list[Block]) -> int:
    """Return how many blocks the next page may have, given the size of the last page."""
    size = sum(len(block.body) for block in blocks)
    wanted = limit * 2 if 2 * size < PAGE_BYTES else limit // 2 if size > PAGE_BYTES else limit
    return min(max(wanted, PAGE_BLOCKS_MIN), PAGE_BLOCKS_MAX)
