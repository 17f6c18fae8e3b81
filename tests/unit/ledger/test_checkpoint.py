"""Checkpoints: signing, reading, and changes that the chain alone does not show."""

from __future__ import annotations

import msgspec
import pytest

from quorate.ledger.chain import GENESIS, Block, Verified, seal, verify_blocks
from quorate.ledger.checkpoint import (
    Agrees,
    Checkpoint,
    Disagreement,
    Disagrees,
    compare,
    public_key_of,
    read_checkpoint,
    sign_checkpoint,
    verify_signature,
    write_checkpoint,
)
from quorate.ledger.errors import CheckpointError
from quorate.model.events import Event, LedgerOpened, Outcome, RunEnded

KEY = bytes(range(32))
OTHER_KEY = bytes(32)


def ledger(
    blocks: int,
    *,
    ledger_id: str = "L1",
    key: bytes = KEY,
    rewritten_from: int | None = None,
) -> list[Block]:
    """Return a ledger of that many blocks; from ``rewritten_from`` on its events differ."""
    made: list[Block] = []
    head = GENESIS
    for height in range(1, blocks + 1):
        lying = rewritten_from is not None and height >= rewritten_from
        outcome = Outcome.FAILED if lying else Outcome.COMPLETED
        events: list[Event] = [RunEnded(height, "a", f"run-{height}", outcome)]
        if height == 1:
            events.insert(0, LedgerOpened(1, "a", ledger_id, public_key_of(key).hex()))
        made.append(seal(head, events))
        head = made[-1].head
    return made


def checkpoint_of(
    blocks: list[Block], *, ledger_id: str = "L1", key: bytes = KEY, at_ms: int = 99
) -> Checkpoint:
    return sign_checkpoint(ledger_id=ledger_id, head=blocks[-1].head, at_ms=at_ms, private_key=key)


CHECKPOINT = checkpoint_of(ledger(5))


def disagreement(checkpoint: Checkpoint, blocks: list[Block]) -> Disagrees:
    found = compare(checkpoint, blocks)
    assert isinstance(found, Disagrees)
    return found


def test_signature_fits_what_was_signed() -> None:
    assert verify_signature(CHECKPOINT)
    assert CHECKPOINT.public_key == public_key_of(KEY)


@pytest.mark.parametrize(
    "changed",
    [
        msgspec.structs.replace(CHECKPOINT, ledger_id="L2"),
        msgspec.structs.replace(CHECKPOINT, height=4),
        msgspec.structs.replace(CHECKPOINT, seq=5),
        msgspec.structs.replace(CHECKPOINT, hash=bytes(32)),
        msgspec.structs.replace(CHECKPOINT, at_ms=98),
        msgspec.structs.replace(CHECKPOINT, public_key=public_key_of(OTHER_KEY)),
        msgspec.structs.replace(CHECKPOINT, public_key=b"short"),
        msgspec.structs.replace(CHECKPOINT, signature=bytes(64)),
        msgspec.structs.replace(CHECKPOINT, signature=b""),
    ],
)
def test_any_changed_field_spoils_the_signature(changed: Checkpoint) -> None:
    assert not verify_signature(changed)
    assert disagreement(changed, ledger(5)).kind is Disagreement.BAD_SIGNATURE


def test_ledger_agrees_with_its_own_checkpoint_and_when_it_has_grown() -> None:
    for length in (5, 6, 50):
        blocks = ledger(length)
        expected = verify_blocks(blocks)
        assert isinstance(expected, Verified)
        assert compare(CHECKPOINT, blocks) == Agrees(verified=expected)
        assert compare(CHECKPOINT, iter(blocks), deep=True) == Agrees(verified=expected)


@pytest.mark.parametrize("length", [0, 1, 4])
def test_truncation_that_the_chain_cannot_see_is_found(length: int) -> None:
    blocks = ledger(length)
    assert isinstance(verify_blocks(blocks, deep=True), Verified)
    found = disagreement(CHECKPOINT, blocks)
    assert found.kind is Disagreement.TRUNCATED
    assert "6" in found.detail  # the height of the checkpoint


@pytest.mark.parametrize("rewritten_from", [1, 2, 5])
@pytest.mark.parametrize("length", [5, 9])
def test_rewritten_tail_that_the_chain_cannot_see_is_found(
    rewritten_from: int, length: int
) -> None:
    blocks = ledger(length, rewritten_from=rewritten_from)
    assert isinstance(verify_blocks(blocks, deep=True), Verified)
    assert disagreement(CHECKPOINT, blocks).kind is Disagreement.REWRITTEN


def test_other_ledger_is_told_from_a_rewritten_one() -> None:
    found = disagreement(CHECKPOINT, ledger(5, ledger_id="L2"))
    assert found.kind is Disagreement.OTHER_LEDGER
    assert "L1" in found.detail
    assert "L2" in found.detail


def test_ledger_that_does_not_begin_with_its_opening_is_another_ledger() -> None:
    blocks = [seal(GENESIS, [RunEnded(1, "a", "r", Outcome.COMPLETED)])]
    assert disagreement(CHECKPOINT, blocks).kind is Disagreement.OTHER_LEDGER


def test_checkpoint_signed_with_another_key_is_found() -> None:
    forged = checkpoint_of(ledger(5), key=OTHER_KEY)
    assert verify_signature(forged)
    found = disagreement(forged, ledger(5))
    assert found.kind is Disagreement.OTHER_KEY
    assert public_key_of(KEY).hex() in found.detail


def test_broken_chain_is_told_with_its_place() -> None:
    blocks = ledger(5)
    blocks[2] = msgspec.structs.replace(blocks[2], body=blocks[2].body[:-1] + b"\0")
    found = disagreement(CHECKPOINT, blocks)
    assert found.kind is Disagreement.CHAIN_BROKEN
    assert "block 3" in found.detail


def test_text_form_comes_back_whole() -> None:
    text = write_checkpoint(CHECKPOINT)
    assert read_checkpoint(text) == CHECKPOINT
    assert read_checkpoint(text.encode()) == CHECKPOINT
    assert text.endswith("}\n")
    assert '"kind": "quorate-checkpoint/1"' in text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("quorate-checkpoint/1", "quorate-checkpoint/2", "kind"),
        ('"height": 5', '"height": "5"', "height"),
        ('"height": 5', '"height": 0', "height"),
        ('"seq": 6', '"seq": -1', "seq"),
        ('"seq": 6', '"sequence": 6', "sequence"),
        ('"at_ms": 99,', "", "at_ms"),
        ('"hash": "', '"hash": "zz', "hash"),
        ('"public_key": "', '"public_key": "00', "public_key has 33 bytes"),
        ('"signature": "', '"signature": "00', "signature has 65 bytes"),
        ("{", "", "not a checkpoint"),
    ],
)
def test_text_that_was_spoiled_is_refused_by_field(old: str, new: str, said: str) -> None:
    text = write_checkpoint(CHECKPOINT)
    assert old in text
    with pytest.raises(CheckpointError, match=said):
        read_checkpoint(text.replace(old, new, 1))


@pytest.mark.parametrize("text", ["", "null", "[]", "\x00", b"\xff\xfe", "[" * 100_000])
def test_anything_else_is_no_checkpoint(text: str | bytes) -> None:
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        read_checkpoint(text)


def test_empty_ledger_has_no_checkpoint() -> None:
    with pytest.raises(AssertionError):
        sign_checkpoint(ledger_id="L1", head=GENESIS, at_ms=1, private_key=KEY)
