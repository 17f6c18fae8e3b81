"""The keys of a ledger in etcd, and the codecs of their values.

    NAME/head                   where the log ends; an append compares its revision
    NAME/block/HEIGHT           a block; the body of a large block is stored in parts
    NAME/part/HEIGHT/HASH/PART  a part of the body of the block with that hash
    NAME/segment/HEIGHT         the archived segment that begins at that height
    NAME/leader                 the leader, while its lease lasts (``etcd/election.py``)
    NAME/term                   how often a leader was elected
    NAME/outbox/SINK            how far a sink has delivered everything (``outbox_etcd.py``)
    NAME/writer/WRITER          the last head to which a writer moved the log (``etcd_append.py``)
    NAME/turn/ENTRY             an entry in the queue of writers (``etcd_turns.py``)
    NAME/moved                  the place to which the ledger was moved (``etcd_moved.py``)
    NAME/member/SERVICE         a service of the ledger, while it runs (``etcd/membership.py``)

Numbers are in hexadecimal and of fixed length, so that keys sort by number. A block above the head
is not part of the ledger: a writer has staged the block, and has not moved the head yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from quorate.adapters.etcd.etcd_requests import Row
from quorate.ledger.chain import HASH_BYTES, Block, Head
from quorate.ledger.segment import Segment
from quorate.ports.errors import CorruptLedgerError, LedgerVersionError

S = TypeVar("S", bound=Struct)

LAYOUT: Final = 1
INLINE_BYTES_MAX: Final = 1 << 20
"""The largest body, or part of a body, in one key: etcd accepts 1.5 MiB in a request by default."""


class EtcdKeys:
    """The keys of the ledger ``name``."""

    def __init__(self, name: str) -> None:
        self._prefix = f"{name}/".encode()
        self.head = self._prefix + b"head"
        self.leader = self._prefix + b"leader"
        self.term = self._prefix + b"term"
        self.moved = self._prefix + b"moved"
        self.segments = self._prefix + b"segment/"
        self.members = self._prefix + b"member/"
        self.writers = self._prefix + b"writer/"
        self.turns = self._prefix + b"turn/"

    @property
    def prefix(self) -> bytes:
        """The prefix of every key of the ledger."""
        return self._prefix

    def block(self, height: int) -> bytes:
        """Return the key of the block at ``height``."""
        return self._prefix + b"block/%016x" % height

    def parts_from(self, height: int) -> bytes:
        """Return the key just before all parts of block ``height``."""
        return self._prefix + b"part/%016x" % height

    def part(self, height: int, digest: bytes, number: int) -> bytes:
        """Return the key of one part of the body of the block with the hash ``digest``."""
        return self.parts_from(height) + b"/%s/%04x" % (digest.hex().encode(), number)

    def outbox(self, sink: str) -> bytes:
        """Return the key with the position of ``sink``."""
        return self._prefix + b"outbox/" + sink.encode()

    def writer(self, name: str) -> bytes:
        """Return the key with the last head to which the writer ``name`` moved the log."""
        return self.writers + name.encode()

    def segment(self, first_height: int) -> bytes:
        """Return the key of the segment that begins at ``first_height``."""
        return self.segments + b"%016x" % first_height


class _HeadValue(Struct, array_like=True, forbid_unknown_fields=True):
    layout: int
    height: int
    seq: int
    hash: bytes


class _BlockValue(Struct, array_like=True, forbid_unknown_fields=True):
    first_seq: int
    count: int
    prev_hash: bytes
    hash: bytes
    parts: int
    body: bytes


class _PositionValue(Struct, array_like=True, forbid_unknown_fields=True):
    seq: int
    hash: bytes


class _SegmentValue(Struct, array_like=True, forbid_unknown_fields=True):
    segment: Segment


_ENCODER: Final = Encoder()
_HEADS: Final = Decoder(_HeadValue)
_BLOCKS: Final = Decoder(_BlockValue)
_SEGMENTS: Final = Decoder(_SegmentValue)
_POSITIONS: Final = Decoder(_PositionValue)


def head_value(head: Head) -> bytes:
    """Return the value of the head key."""
    return _ENCODER.encode(_HeadValue(LAYOUT, head.height, head.seq, head.hash))


def head_of(row: Row, place: str) -> Head:
    """Return the head in ``row``; raises ``LedgerVersionError`` for another layout."""
    value = _decoded(_HEADS, row, place)
    if value.layout != LAYOUT:
        raise LedgerVersionError(place, found=value.layout, known=LAYOUT)
    if len(value.hash) != HASH_BYTES:
        raise _unreadable(row, place)
    return Head(height=value.height, seq=value.seq, hash=value.hash)


def part_count(block: Block) -> int:
    """Return the number of parts of a block's body; 0 if the body is stored with the block."""
    size = len(block.body)
    return 0 if size <= INLINE_BYTES_MAX else -(-size // INLINE_BYTES_MAX)


def block_value(block: Block) -> bytes:
    """Return the value of the key of ``block``."""
    parts = part_count(block)
    body = b"" if parts else block.body
    return _ENCODER.encode(
        _BlockValue(block.first_seq, block.count, block.prev_hash, block.hash, parts, body)
    )


def block_of(row: Row, height: int, place: str) -> tuple[Block, int]:
    """Return the block at ``height`` from ``row``, and the number of its parts.

    A block with parts does not have its body yet.
    """
    value = _decoded(_BLOCKS, row, place)
    block = Block(
        height=height,
        first_seq=value.first_seq,
        count=value.count,
        prev_hash=value.prev_hash,
        hash=value.hash,
        body=value.body,
    )
    return block, value.parts


def whole_blocks(
    rows: Iterable[Row], keys: EtcdKeys, height: int, last: int, place: str
) -> Iterator[Block]:
    """Yield the blocks ``height`` to ``last`` from ``rows``, which are in key order.

    The result ends before the first block that is missing or has its body in parts.
    """
    for at, row in zip(range(height, last + 1), rows, strict=False):
        if row.key != keys.block(at):
            return
        block, parts = block_of(row, at, place)
        if parts:
            return
        yield block


def segment_value(segment: Segment) -> bytes:
    """Return the value of the key of ``segment``."""
    return _ENCODER.encode(_SegmentValue(segment))


def segment_of(row: Row, place: str) -> Segment:
    """Return the archived segment in ``row``."""
    return _decoded(_SEGMENTS, row, place).segment


def position_value(seq: int, digest: bytes) -> bytes:
    """Return the value for a sink's position: an event's number, and the ledger's hash after it."""
    return _ENCODER.encode(_PositionValue(seq, digest))


def position_of(row: Row, place: str) -> tuple[int, bytes]:
    """Return a sink's position from ``row``: an event's number, and the ledger's hash after it."""
    value = _decoded(_POSITIONS, row, place)
    return value.seq, value.hash


def _decoded(decoder: Decoder[S], row: Row, place: str) -> S:
    try:
        return decoder.decode(row.value)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _unreadable(row, place) from error


def _unreadable(row: Row, place: str) -> CorruptLedgerError:
    return CorruptLedgerError(
        f"the value of the key {row.key.decode()} is unreadable", source=place
    )
