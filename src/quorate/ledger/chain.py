"""Blocks: events sealed together and joined by SHA-256.

A block's body is MessagePack ``[format, height, first_seq, [events...]]``. The hash of a block
covers the hash of the previous block and the whole body. So if any bit of an event changes, or an
event moves, the hash no longer matches. The holder of a ledger can still remove its last blocks, or
rewrite it from some block on with new hashes. Only a checkpoint that another party keeps can prove
that this happened.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.msgpack import Decoder, Encoder

from quorate.ledger.codec import decode_events, encode_events, event_shapes
from quorate.ledger.errors import CorruptLedgerError, NewerLedgerError
from quorate.model.events import Event, Fact

FORMAT: Final = 1
HASH_BYTES: Final = 32
EVENTS_PER_BLOCK_MAX: Final = 1_000_000
BLOCK_BYTES_MAX: Final = 32 * 1024 * 1024
"""How many bytes the events of a new block may have at most; old blocks may have more."""
_DOMAIN: Final = b"quorate-block/1\0"


class Head(Struct, frozen=True, kw_only=True):
    """The end of a ledger: the height and hash of its last block, and its last sequence number.

    The hash covers the whole ledger up to this block.
    """

    height: int
    seq: int
    hash: bytes


GENESIS: Final = Head(height=0, seq=0, hash=bytes(HASH_BYTES))
"""The head of an empty ledger."""


class Block(Struct, frozen=True, kw_only=True):
    """Events sealed together.

    ``height``, ``first_seq`` and ``count`` repeat what ``body`` says.
    """

    height: int
    first_seq: int
    count: int
    prev_hash: bytes
    hash: bytes
    body: bytes

    @property
    def head(self) -> Head:
        """The head of a ledger that ends with this block."""
        return Head(height=self.height, seq=self.first_seq + self.count - 1, hash=self.hash)


class Verified(Struct, frozen=True, kw_only=True):
    """The result for a sound chain: its head, and the number of its blocks and events."""

    head: Head
    events: int
    blocks: int


class Broken(Struct, frozen=True, kw_only=True):
    """The first fault of a chain, in block ``height``; the events before ``seq`` are sound."""

    height: int
    seq: int
    what: str


class _Body(Struct, array_like=True, forbid_unknown_fields=True):
    """The body of a block; the block's hash covers it and the hash of the previous block."""

    format: int
    height: int
    first_seq: int
    events: Raw


class _BodyParts(Struct, array_like=True, forbid_unknown_fields=True):
    """A block's body with its events separated but not decoded, to count the events."""

    format: int
    height: int
    first_seq: int
    events: list[Raw]


class _BodyWhole(Struct, array_like=True, forbid_unknown_fields=True):
    """A block's body decoded in one pass; all its events must have current versions."""

    format: int
    height: int
    first_seq: int
    events: list[Event]


_ENCODER: Final = Encoder()
_BODY_WHOLE: Final = Decoder(_BodyWhole)
_BODY: Final = Decoder(_Body)
_BODY_PARTS: Final = Decoder(_BodyParts)


def seal(head: Head, events: Sequence[Event], encoded: bytes = b"") -> Block:
    """Return the block that follows ``head`` and has ``events``, in their order.

    ``encoded`` is the result of ``encode_events`` for these events, if the caller has it already.
    The caller makes sure that the times of events never decrease; ``open_block`` checks this.
    """
    assert 0 < len(events) <= EVENTS_PER_BLOCK_MAX, len(events)
    height, first_seq = head.height + 1, head.seq + 1
    body = _ENCODER.encode(_Body(FORMAT, height, first_seq, Raw(encoded or encode_events(events))))
    return Block(
        height=height,
        first_seq=first_seq,
        count=len(events),
        prev_hash=head.hash,
        hash=_hash(head.hash, body),
        body=body,
    )


def open_block(block: Block, *, after: Head, not_before_ms: int = 0) -> list[Event]:
    """Return the events of ``block``, which must follow the head ``after``.

    ``not_before_ms`` is the time of the last event before the block. The function raises
    ``CorruptLedgerError`` if the block does not follow ``after``, if its hash does not match, or if
    time goes back. It raises ``NewerLedgerError`` if the block is sound but was written by a newer
    Quorate.
    """
    fault = _fault(block, after)
    if fault is not None:
        raise CorruptLedgerError(fault, height=block.height, seq=after.seq + 1)
    body = _body(block)
    fault = _disagreement(block, body.height, body.first_seq, len(body.events))
    if fault is not None:
        raise CorruptLedgerError(fault, height=block.height, seq=block.first_seq)
    _check_times(block, body.events, not_before_ms)
    return body.events


def shapes_of(block: Block) -> list[tuple[Fact, ...]]:
    """Return the events of the sound ``block``, each in its stored version and every later one."""
    return event_shapes(_BODY.decode(block.body).events, first_seq=block.first_seq)


def _body(block: Block) -> _BodyWhole:
    """Return the parsed body of ``block``, in one pass if all its events have current versions.

    Otherwise a second pass decodes older versions of events. If an event cannot be read, the second
    pass raises an error that names the event and says whether a newer Quorate wrote it.
    """
    try:
        whole = _BODY_WHOLE.decode(block.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _body_closely(block)
    _check_format(whole.format)
    return whole


def _body_closely(block: Block) -> _BodyWhole:
    try:
        body = _BODY.decode(block.body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CorruptLedgerError(
            f"the block's body is not readable: {error}", height=block.height, seq=block.first_seq
        ) from error
    _check_format(body.format)
    try:
        events = decode_events(body.events, first_seq=block.first_seq)
    except CorruptLedgerError as error:
        raise CorruptLedgerError(error.what, height=block.height, seq=error.seq) from error
    return _BodyWhole(body.format, body.height, body.first_seq, events)


def open_blocks(
    blocks: Iterable[Block], *, after: Head = GENESIS, not_before_ms: int = 0
) -> Iterator[tuple[Head, list[Event]]]:
    """Check each block, and yield (head after the block, its events).

    The first wrong block raises an error of ``open_block``.
    """
    for block in blocks:
        events = open_block(block, after=after, not_before_ms=not_before_ms)
        after, not_before_ms = block.head, events[-1].at_ms
        yield after, events


def open_blocks_naming(
    blocks: Iterable[Block], names: Collection[str], *, after: Head
) -> Iterator[tuple[Head, list[Event]]]:
    """Yield the head and the events of each of ``blocks`` whose bytes contain one of ``names``.

    The bodies of other blocks are hashed but not decoded. Text is stored as plain UTF-8, so a block
    with a name contains the bytes of this name. The caller may add names to ``names`` between two
    blocks. The function raises the errors of ``open_block``, but it does not check whether time
    goes back from one block to the next.
    """
    for block in blocks:
        body = block.body
        if any(name.encode() in body for name in names):
            yield block.head, open_block(block, after=after)
        else:
            fault = _fault(block, after)
            if fault is not None:
                raise CorruptLedgerError(fault, height=block.height, seq=after.seq + 1)
        after = block.head


def verify_blocks(
    blocks: Iterable[Block], *, after: Head = GENESIS, deep: bool = False
) -> Verified | Broken:
    """Return whether ``blocks`` are a sound chain from the head ``after`` on.

    Each block is read once, and only one block is in memory at a time. Hashes, order and counts are
    checked. If ``deep`` is true, every event is also decoded, and the times of events must never go
    back. If the store raises ``CorruptLedgerError`` while it reads, this fault is returned as
    ``Broken``. Other errors of the store, and ``NewerLedgerError``, are raised.
    """
    head, at_ms, blocks_read = after, 0, 0
    try:
        for block in blocks:
            if deep:
                at_ms = open_block(block, after=head, not_before_ms=at_ms)[-1].at_ms
            else:
                _check_sealed(block, head)
            head = block.head
            blocks_read += 1
    except CorruptLedgerError as error:
        seq = head.seq + 1 if error.seq is None else error.seq
        return Broken(height=head.height + 1, seq=seq, what=error.what)
    return Verified(head=head, events=head.seq - after.seq, blocks=blocks_read)


def sound_end(blocks: Iterable[Block]) -> Head:
    """Return the head of the longest sound chain at the beginning of ``blocks``."""
    head = GENESIS
    try:
        for block in blocks:
            _check_sealed(block, head)
            head = block.head
    except CorruptLedgerError:
        return head
    return head


def _check_sealed(block: Block, after: Head) -> None:
    """Raise an error if ``block`` does not follow ``after``, or if its fields or hash are wrong."""
    fault = _fault(block, after)
    if fault is None:
        try:
            body = _BODY_PARTS.decode(block.body)
        except (msgspec.DecodeError, RecursionError) as error:
            fault = f"the block's body is not readable: {error}"
        else:
            _check_format(body.format)
            fault = _disagreement(block, body.height, body.first_seq, len(body.events))
    if fault is not None:
        raise CorruptLedgerError(fault, height=block.height, seq=after.seq + 1)


def _fault(block: Block, after: Head) -> str | None:
    """Return why ``block`` cannot follow ``after``, or None; the body is hashed but not decoded."""
    if block.height != after.height + 1:
        return f"block {after.height + 1} is missing: block {block.height} is in its place"
    if block.first_seq != after.seq + 1:
        return f"the block begins at sequence {block.first_seq}, not {after.seq + 1}"
    if block.prev_hash != after.hash:
        return "the block does not name the hash of the block before it"
    if block.hash != _hash(block.prev_hash, block.body):
        return "the block's contents do not match its hash"
    return None


def _disagreement(block: Block, height: int, first_seq: int, count: int) -> str | None:
    """Return how the fields of ``block`` differ from its body, or None if they agree."""
    if count == 0:
        return "the block holds no event"
    if (block.height, block.first_seq, block.count) == (height, first_seq, count):
        return None
    return (
        f"the block is filed as height {block.height}, sequence {block.first_seq}, "
        f"{block.count} events, but its body says height {height}, sequence {first_seq}, "
        f"{count} events"
    )


def _check_format(found: int) -> None:
    """Raise ``NewerLedgerError`` if this program cannot read a body of format ``found``."""
    if found != FORMAT:
        raise NewerLedgerError(f"block format {found}")


def _check_times(block: Block, events: Sequence[Event], not_before_ms: int) -> None:
    """Raise ``CorruptLedgerError`` at the first event that is earlier than the one before it."""
    times = [not_before_ms, *[event.at_ms for event in events]]
    if times == sorted(times):
        return
    for seq, event in enumerate(events, start=block.first_seq):
        if event.at_ms < not_before_ms:
            raise CorruptLedgerError(
                f"the time goes back from {not_before_ms} to {event.at_ms}",
                height=block.height,
                seq=seq,
            )
        not_before_ms = event.at_ms


def _hash(prev_hash: bytes, body: bytes) -> bytes:
    """Return the hash of a block.

    The hashed bytes begin with a fixed name, so the hash never equals a hash for another purpose.
    """
    return sha256(_DOMAIN + prev_hash + body).digest()
