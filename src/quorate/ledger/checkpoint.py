"""Checkpoints: a ledger's head, signed, and small enough to keep elsewhere.

The holder of a ledger can remove its last blocks, or rewrite it with new hashes, and the chain of
the result is still sound. A checkpoint that another party keeps shows the ledger's head at some
time. The checkpoint's Ed25519 signature proves that the holder of the ledger's key made it. The
package ``cryptography`` takes tens of milliseconds to import, so only the functions that need it
import it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from quorate.ledger.chain import (
    GENESIS,
    HASH_BYTES,
    Block,
    Broken,
    Head,
    Verified,
    open_block,
    verify_blocks,
)
from quorate.ledger.errors import CheckpointError
from quorate.model.events import LedgerOpened

KIND: Final = "quorate-checkpoint/1"
KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64


class Checkpoint(Struct, frozen=True, kw_only=True):
    """The head of a ledger at ``at_ms``, signed by the holder of the ledger's key."""

    ledger_id: str
    height: int
    seq: int
    hash: bytes
    at_ms: int
    public_key: bytes
    signature: bytes


class Disagreement(StrEnum):
    """How a ledger and a checkpoint differ. These values are stable for programs that read them."""

    BAD_SIGNATURE = "bad-signature"
    CHAIN_BROKEN = "chain-broken"
    OTHER_LEDGER = "other-ledger"
    OTHER_KEY = "other-key"
    TRUNCATED = "truncated"
    REWRITTEN = "rewritten"


class Agrees(Struct, frozen=True, kw_only=True):
    """The result for a sound ledger that contains the head of the checkpoint."""

    verified: Verified


class Disagrees(Struct, frozen=True, kw_only=True):
    """The result for a ledger that does not match the checkpoint; ``detail`` has the numbers."""

    kind: Disagreement
    detail: str


def public_key_of(private_key: bytes) -> bytes:
    """Return the public key of a raw Ed25519 ``private_key``, also as raw bytes."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - slow import
        Ed25519PrivateKey,
    )

    return Ed25519PrivateKey.from_private_bytes(private_key).public_key().public_bytes_raw()


class CheckpointSigner:
    """Signs checkpoints of one ledger with the ledger's raw Ed25519 ``private_key``."""

    __slots__ = ("_key", "_ledger_id", "public_key")

    def __init__(self, ledger_id: str, private_key: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - slow import
            Ed25519PrivateKey,
        )

        self._ledger_id = ledger_id
        self._key = Ed25519PrivateKey.from_private_bytes(private_key)
        self.public_key = self._key.public_key().public_bytes_raw()

    def sign(self, head: Head, at_ms: int) -> Checkpoint:
        """Return a signed checkpoint of the ledger that ends at ``head``.

        The ledger must not be empty.
        """
        assert head.height > 0, head
        unsigned = unsigned_checkpoint(self._ledger_id, head, at_ms, self.public_key)
        return msgspec.structs.replace(unsigned, signature=self._key.sign(signed_bytes(unsigned)))


def unsigned_checkpoint(
    ledger_id: str, head: Head, at_ms: int, public_key: bytes = b""
) -> Checkpoint:
    """Return the checkpoint of a ledger that ends at ``head``, without a signature."""
    return Checkpoint(
        ledger_id=ledger_id,
        height=head.height,
        seq=head.seq,
        hash=head.hash,
        at_ms=at_ms,
        public_key=public_key,
        signature=b"",
    )


def sign_checkpoint(*, ledger_id: str, head: Head, at_ms: int, private_key: bytes) -> Checkpoint:
    """Return a signed checkpoint of a ledger that ends at ``head``.

    The ledger must not be empty.
    """
    return CheckpointSigner(ledger_id, private_key).sign(head, at_ms)


def signed_bytes(checkpoint: Checkpoint) -> bytes:
    """Return the bytes that are signed.

    The bytes contain all fields except the signature, in a fixed order and encoding.
    """
    fields = (
        checkpoint.ledger_id,
        checkpoint.height,
        checkpoint.seq,
        checkpoint.hash,
        checkpoint.at_ms,
        checkpoint.public_key,
    )
    return KIND.encode() + b"\0" + msgspec.msgpack.encode(fields)


def verify_signature(checkpoint: Checkpoint) -> bool:
    """Return whether ``checkpoint`` was signed with the key that it names, whatever this key is."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - slow import
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - slow import
        Ed25519PublicKey,
    )

    try:
        key = Ed25519PublicKey.from_public_bytes(checkpoint.public_key)
        key.verify(checkpoint.signature, signed_bytes(checkpoint))
    except (InvalidSignature, ValueError):
        return False
    return True


def compare(
    checkpoint: Checkpoint, blocks: Iterable[Block], *, deep: bool = False
) -> Agrees | Disagrees:
    """Return whether ``blocks``, a whole ledger, contain the head that ``checkpoint`` signs.

    Each block is read once, and the chain is verified at the same time; ``deep`` has the same
    meaning as in ``verify_blocks``. If there are several faults, the first of these is reported:

    1. The signature is not valid.
    2. The chain is not sound.
    3. The checkpoint is of another ledger, or was signed with another key.
    4. The ledger ends before the checkpoint.
    5. The ledger has another history.
    """
    if not verify_signature(checkpoint):
        detail = "the checkpoint's signature is not valid: it was changed after it was signed"
        return Disagrees(kind=Disagreement.BAD_SIGNATURE, detail=detail)
    witness = _Witness(checkpoint.height)
    match verify_blocks(witness.watch(blocks), deep=deep):
        case Broken() as broken:
            detail = f"block {broken.height}, sequence {broken.seq}: {broken.what}"
            return Disagrees(kind=Disagreement.CHAIN_BROKEN, detail=detail)
        case Verified() as verified:
            difference = _origin_difference(checkpoint, witness.first)
            if difference is None:
                difference = _history_difference(checkpoint, witness.there, verified.head)
            return Agrees(verified=verified) if difference is None else difference


class _Witness:
    """Keeps the two blocks that a comparison needs, while all blocks are read once."""

    def __init__(self, height: int) -> None:
        self._height = height
        self.first: Block | None = None
        self.there: Head | None = None

    def watch(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield ``blocks``, and keep the first block and the head at the checkpoint's height."""
        for block in blocks:
            if block.height == 1:
                self.first = block
            if block.height == self._height:
                self.there = block.head
            yield block


def _origin_difference(checkpoint: Checkpoint, first: Block | None) -> Disagrees | None:
    """Return how the ledger's first block, which is sound, contradicts the checkpoint, or None."""
    if first is None:
        detail = f"the ledger is empty; the checkpoint covers {checkpoint.seq} events"
        return Disagrees(kind=Disagreement.TRUNCATED, detail=detail)
    opened = open_block(first, after=GENESIS)[0]
    if not isinstance(opened, LedgerOpened) or opened.ledger_id != checkpoint.ledger_id:
        ledger_id = opened.ledger_id if isinstance(opened, LedgerOpened) else "without an id"
        detail = f"the checkpoint is of ledger {checkpoint.ledger_id}, this ledger is {ledger_id}"
        return Disagrees(kind=Disagreement.OTHER_LEDGER, detail=detail)
    if opened.public_key != checkpoint.public_key.hex():
        detail = (
            f"the checkpoint was signed with key {checkpoint.public_key.hex()}, "
            f"the ledger names key {opened.public_key}"
        )
        return Disagrees(kind=Disagreement.OTHER_KEY, detail=detail)
    return None


def _history_difference(checkpoint: Checkpoint, there: Head | None, end: Head) -> Disagrees | None:
    """Return how the ledger at the checkpoint's height differs from the checkpoint, or None."""
    if there is None:
        detail = (
            f"the ledger ends at block {end.height}, sequence {end.seq}; the checkpoint covers "
            f"block {checkpoint.height}, sequence {checkpoint.seq}"
        )
        return Disagrees(kind=Disagreement.TRUNCATED, detail=detail)
    if (there.seq, there.hash) != (checkpoint.seq, checkpoint.hash):
        detail = (
            f"at block {checkpoint.height} the ledger has sequence {there.seq}, hash "
            f"{there.hash.hex()}; the checkpoint has sequence {checkpoint.seq}, hash "
            f"{checkpoint.hash.hex()}"
        )
        return Disagrees(kind=Disagreement.REWRITTEN, detail=detail)
    return None


class _Text(Struct, kw_only=True, forbid_unknown_fields=True):
    """A checkpoint as it is written in JSON; bytes are hexadecimal text."""

    kind: str
    ledger_id: str
    height: int
    seq: int
    hash: str
    at_ms: int
    public_key: str
    signature: str


_TEXT: Final = msgspec.json.Decoder(_Text)


def write_checkpoint(checkpoint: Checkpoint) -> str:
    """Return ``checkpoint`` as indented JSON that ends in a newline."""
    text = _Text(
        kind=KIND,
        ledger_id=checkpoint.ledger_id,
        height=checkpoint.height,
        seq=checkpoint.seq,
        hash=checkpoint.hash.hex(),
        at_ms=checkpoint.at_ms,
        public_key=checkpoint.public_key.hex(),
        signature=checkpoint.signature.hex(),
    )
    return msgspec.json.format(msgspec.json.encode(text), indent=2).decode() + "\n"


def read_checkpoint(text: str | bytes) -> Checkpoint:
    """Return the checkpoint that ``write_checkpoint`` wrote; its signature is not verified.

    If the text is not a checkpoint, the function raises a ``CheckpointError`` that names the wrong
    field.
    """
    try:
        fields = _TEXT.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(str(error)) from error
    if fields.kind != KIND:
        raise _unreadable(f"kind is {fields.kind!r}, not {KIND!r}")
    if fields.height < 1 or fields.seq < 1:
        raise _unreadable("height and seq must be at least 1")
    return Checkpoint(
        ledger_id=fields.ledger_id,
        height=fields.height,
        seq=fields.seq,
        hash=_unhex("hash", fields.hash, HASH_BYTES),
        at_ms=fields.at_ms,
        public_key=_unhex("public_key", fields.public_key, KEY_BYTES),
        signature=_unhex("signature", fields.signature, SIGNATURE_BYTES),
    )


def _unhex(field: str, text: str, length: int) -> bytes:
    """Return the ``length`` bytes of the hexadecimal ``text``, or raise ``CheckpointError``."""
    try:
        found = bytes.fromhex(text)
    except ValueError as error:
        raise _unreadable(f"{field} is not hexadecimal") from error
    if len(found) != length:
        raise _unreadable(f"{field} has {len(found)} bytes, not {length}")
    return found


def _unreadable(what: str) -> CheckpointError:
    """Return the error for a text that is not a checkpoint because of ``what``."""
    return CheckpointError(f"not a checkpoint: {what}; `quorate ledger checkpoint` writes one")
