"""Segments: consecutive blocks, packed into one file for an archive.

The name of a segment contains its first and last height, and the first half of the SHA-256 of its
file. Blocks never change, so a segment never changes either. The chain of hashes continues from
segment to segment (docs/adr/0045).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from quorate.ledger.chain import Block, Broken, Head, verify_blocks
from quorate.ledger.errors import CorruptLedgerError

_MAGIC: Final = b"quorate-segment/1\n"
_LEVEL: Final = 1
"""The zlib level. It reduces events to a fifth of their size; higher levels gain little."""


class Segment(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The blocks ``first_height`` to ``last_height``, and ``size`` and ``sha256`` of their file."""

    first_height: int
    last_height: int
    first_seq: int
    last_seq: int
    first_prev_hash: bytes
    last_hash: bytes
    sha256: bytes
    size: int

    @property
    def name(self) -> str:
        """The name of the segment's file."""
        return f"{self.first_height:012d}-{self.last_height:012d}-{self.sha256.hex()[:32]}.segment"

    @property
    def before(self) -> Head:
        """The head before the segment's first block."""
        return Head(height=self.first_height - 1, seq=self.first_seq - 1, hash=self.first_prev_hash)

    @property
    def head(self) -> Head:
        """The head after the segment's last block."""
        return Head(height=self.last_height, seq=self.last_seq, hash=self.last_hash)


class _StoredBlock(Struct, array_like=True, forbid_unknown_fields=True):
    height: int
    first_seq: int
    count: int
    prev_hash: bytes
    hash: bytes
    body: bytes


_ENCODER: Final = Encoder()
_DECODER: Final = Decoder(list[_StoredBlock])


def pack(blocks: Sequence[Block]) -> tuple[Segment, bytes]:
    """Return the segment of ``blocks`` and the bytes of its file; at least one block is needed."""
    first, last = blocks[0], blocks[-1]
    stored = [
        _StoredBlock(b.height, b.first_seq, b.count, b.prev_hash, b.hash, b.body) for b in blocks
    ]
    data = _MAGIC + zlib.compress(_ENCODER.encode(stored), _LEVEL)
    segment = Segment(
        first.height,
        last.height,
        first.first_seq,
        last.head.seq,
        first.prev_hash,
        last.hash,
        sha256(data).digest(),
        len(data),
    )
    return segment, data


def unpack(segment: Segment, data: bytes) -> list[Block]:
    """Return the blocks of ``segment``, whose file is ``data``.

    The function raises ``CorruptLedgerError`` if the file does not have the segment's hash, or has
    other blocks than the segment. The hashes of the blocks are not checked here, but by
    ``chain.py`` or by ``check``.
    """
    if sha256(data).digest() != segment.sha256:
        raise _damaged(segment, "its contents do not match its hash")
    try:
        stored = _DECODER.decode(zlib.decompress(data.removeprefix(_MAGIC)))
    except (msgspec.DecodeError, zlib.error) as error:
        raise _damaged(segment, f"it cannot be unpacked: {error}") from error
    blocks = [
        Block(
            height=each.height,
            first_seq=each.first_seq,
            count=each.count,
            prev_hash=each.prev_hash,
            hash=each.hash,
            body=each.body,
        )
        for each in stored
    ]
    heights = [block.height for block in blocks]
    if heights != list(range(segment.first_height, segment.last_height + 1)):
        raise _damaged(segment, "it contains other blocks than those in its name")
    return blocks


def check(segment: Segment, data: bytes) -> None:
    """Raise ``CorruptLedgerError`` if ``data`` is not ``segment``, or if its chain is not sound."""
    found = verify_blocks(unpack(segment, data), after=segment.before)
    if isinstance(found, Broken):
        raise _damaged(segment, f"block {found.height}: {found.what}")
    if found.head != segment.head:
        raise _damaged(segment, "its last block is not the expected one")


def _damaged(segment: Segment, what: str) -> CorruptLedgerError:
    return CorruptLedgerError(
        f"segment {segment.name}: {what}", height=segment.first_height, seq=segment.first_seq
    )
