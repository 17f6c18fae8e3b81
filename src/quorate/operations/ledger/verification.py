"""Verifies that a ledger is unchanged: its chain, checkpoints, receipts and invariants.

A ledger file and an export are verified in the same way: both consist of blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Final

import msgspec

from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.documents.times import time_text
from quorate.ledger.chain import (
    GENESIS,
    Block,
    Broken,
    Verified,
    open_block,
    open_blocks,
    verify_blocks,
)
from quorate.ledger.checkpoint import (
    Checkpoint,
    Disagrees,
    compare,
    read_checkpoint,
    verify_signature,
)
from quorate.ledger.errors import RESTORE
from quorate.ledger.fold import replay
from quorate.ledger.snapshot import fingerprint, restore
from quorate.model.closed_words import counted
from quorate.model.events import Event, LedgerOpened
from quorate.operations.answer_types import Answer
from quorate.operations.ledger.ledger_operations import KeptCheckpoint, VerifyAgainst, VerifyLedger
from quorate.operations.operation import Operation
from quorate.operations.request_context import AnyContext
from quorate.ports.errors import ArchiveError, CheckpointError
from quorate.ports.store_port import EventStore
from quorate.views.exits import CommandError, Exit

TITLE: Final = "the ledger"
FAULTS_SHOWN_MAX: Final = 20
_RECEIPT: Final = re.compile(r"([1-9][0-9]{0,17}):([0-9a-fA-F]{64})")


@dataclass(frozen=True, slots=True)
class Receipt:
    """The receipt that a writing command printed: the end of the ledger after the command."""

    height: int
    hash: bytes

    def __str__(self) -> str:
        return f"{self.height}:{self.hash.hex()}"


def read_receipt(text: str) -> Receipt:
    """Parse ``text`` as a receipt; raise ``CommandError`` if it is not a receipt."""
    found = _RECEIPT.fullmatch(text.strip())
    if found is None:
        raise CommandError(
            Exit.USAGE,
            f"--receipt {text}: is not BLOCK:HASH; paste the text after `receipt` in the output of "
            "the command that recorded it",
        )
    return Receipt(int(found[1]), bytes.fromhex(found[2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """The checks that are made in addition to the check of the chain."""

    deep: bool = False
    checkpoints: tuple[tuple[str, Checkpoint], ...] = ()
    receipts: tuple[Receipt, ...] = ()

    @classmethod
    def of(cls, asked: VerifyLedger) -> Checks:
        """Return the requested checks; raise ``CommandError`` if they cannot be read."""
        kept = asked.checkpoints if isinstance(asked, VerifyAgainst) else ()
        return cls(
            deep=asked.deep,
            checkpoints=tuple((each.file, _checkpoint(each)) for each in kept),
            receipts=tuple(map(read_receipt, asked.receipts)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """The result for a ledger that passed every check."""

    name: str
    verified: Verified
    deep: bool
    checkpoints: tuple[tuple[str, Checkpoint], ...]
    receipts: tuple[Receipt, ...]
    is_end_known: bool
    is_shared: bool = False

    def lines(self) -> list[str]:
        """Return the checks that were made, as text."""
        head = self.verified.head
        events = counted(self.verified.events, "event")
        blocks = counted(self.verified.blocks, "block")
        lines = [f"{self.name} verifies: {events} in {blocks}, hash {head.hash.hex()}"]
        if self.deep:
            lines.append("every event decodes and every invariant held after each of them")
        for name, checkpoint in self.checkpoints:
            more = head.seq - checkpoint.seq
            lines.append(
                f"{name} agrees: signed at sequence {checkpoint.seq}, "
                f"{time_text(checkpoint.at_ms)}; {counted(more, 'event')} since"
            )
        for receipt in self.receipts:
            since = counted(head.height - receipt.height, "block")
            lines.append(f"receipt {receipt} matches: block {receipt.height}, {since} ago")
        if not self.is_end_known:
            lines.append(self._doubt())
        return lines

    def _doubt(self) -> str:
        """Return a text: which events at the end may be missing, and how to find out."""
        if self.is_shared:
            return (
                "the servers that store the ledger agree on its end; only a checkpoint kept "
                "elsewhere shows whether they were reset to an earlier one: quorate ledger verify "
                "--against CHECKPOINT"
            )
        seqs = [checkpoint.seq for _, checkpoint in self.checkpoints]
        what = (
            f"events after sequence {max(seqs)}, which is signed, may be missing"
            if seqs
            else "a missing end cannot be detected"
        )
        return (
            f"{what}: there is no record of its end (LEDGER.head) beside it; compare it with a "
            "checkpoint kept elsewhere: quorate ledger verify --against CHECKPOINT"
        )

    def tree(self) -> dict[str, Any]:
        """Return the checks that were made, as a tree."""
        head = self.verified.head
        return {
            "verifies": True,
            "deep": self.deep,
            "events": self.verified.events,
            "blocks": self.verified.blocks,
            "head": {"height": head.height, "sequence": head.seq, "hash": head.hash.hex()},
            "checkpoints": [
                {"file": name, "sequence": checkpoint.seq, "hash": checkpoint.hash.hex()}
                for name, checkpoint in self.checkpoints
            ],
            "receipts": [str(receipt) for receipt in self.receipts],
            "endKnown": self.is_end_known,
        }

    def answer(self) -> Answer:
        """Return the checks that were made, as an answer."""
        return Answer(tree=self.tree, lines=lambda _: self.lines())


def verify_ledger(context: AnyContext, asked: VerifyLedger, operation: Operation) -> Answer:
    """Return the result of the verification; raise ``CommandError`` with every found fault."""
    del operation
    checks = Checks.of(asked)
    end = context.store.kept_end()
    store = context.store
    sound = verify(TITLE, store.blocks, checks, context.name, is_end_known=end is not None)
    sound = replace(sound, is_shared=store.is_shared)
    if end is not None and end.signature:
        _check_signature(end, context)
    if asked.deep:
        _check_snapshot(context.store, context.name)
    return sound.answer()


def _check_signature(end: Checkpoint, context: AnyContext) -> None:
    """Raise ``CommandError`` unless the ledger's key signed the record of the ledger's end."""
    first = next(iter(context.store.blocks()))
    opened = open_block(first, after=GENESIS)[0]
    is_ours = isinstance(opened, LedgerOpened) and opened.public_key == end.public_key.hex()
    if not (is_ours and verify_signature(end)):
        raise CommandError(
            Exit.UNSOUND,
            f"{context.name}: the events verify, but the record of the end beside it (LEDGER.head) "
            "is not signed by this ledger's key; compare the ledger with a checkpoint kept "
            "elsewhere: quorate ledger verify --against CHECKPOINT",
        )


def verify(
    title: str,
    blocks: Callable[[], Iterable[Block]],
    checks: Checks,
    name: str | None = None,
    *,
    is_end_known: bool = False,
) -> Sound:
    """Verify ``blocks``, which are called ``title`` in the answer, and ``name`` in faults.

    ``is_end_known`` means that the end of the ledger was also recorded separately, and that
    ``blocks`` reach this end. Raises ``CommandError`` with every fault that was found.
    """
    name = title if name is None else name
    hashes: dict[int, bytes] = {}
    wanted = {receipt.height for receipt in checks.receipts}
    verified = verify_blocks(_watched(blocks(), wanted, hashes), deep=checks.deep)
    if isinstance(verified, Broken):
        raise CommandError(
            Exit.UNSOUND,
            f"{name} does not verify: block {verified.height}, sequence {verified.seq}: "
            f"{verified.what}; events before sequence {verified.seq} are sound; {RESTORE}",
        )
    faults = [
        _receipt_fault(name, receipt, hashes.get(receipt.height), verified)
        for receipt in checks.receipts
        if hashes.get(receipt.height) != receipt.hash
    ]
    for file, checkpoint in checks.checkpoints:
        answer = compare(checkpoint, blocks())
        if isinstance(answer, Disagrees):
            faults.append(
                f"{name} does not match the checkpoint in {file} ({answer.kind}): {answer.detail}"
            )
    if checks.deep:
        faults += _invariant_faults(blocks)
    if faults:
        raise CommandError(Exit.UNSOUND, *faults)
    return Sound(
        name=title,
        verified=verified,
        deep=checks.deep,
        checkpoints=checks.checkpoints,
        receipts=checks.receipts,
        is_end_known=is_end_known,
    )


def _check_snapshot(store: EventStore, name: str) -> None:
    """Raise ``CommandError`` if the stored snapshot differs from the state that its events give.

    Archived runs are a part of the snapshot. The snapshot is only a cache. But commands start from
    it, so a wrong snapshot would give wrong results.
    """
    kept = store.load_snapshot()
    if kept is None:
        return
    head, payload = kept
    state = restore(payload, store)
    if state is None:
        return
    before = takewhile(lambda block: block.height <= head.height, store.blocks())
    try:
        is_same = fingerprint(state) == fingerprint(replay(before)[0])
    except ArchiveError as error:
        raise CommandError(Exit.UNSOUND, f"{name}: the events verify, but {error}") from None
    if not is_same:
        raise CommandError(
            Exit.UNSOUND,
            f"{name}: the events verify, but the snapshot kept at sequence {head.seq}, or a run "
            "archived with it, does not match them; stop every program that has the ledger open "
            "for writing, remove LEDGER.archive, and start one again: it derives the file from the "
            "ledger",
        )


def _watched(
    blocks: Iterable[Block], wanted: Container[int], hashes: dict[int, bytes]
) -> Iterator[Block]:
    """Yield ``blocks`` unchanged, and put the hashes of the ``wanted`` heights in ``hashes``."""
    for block in blocks:
        if block.height in wanted:
            hashes[block.height] = block.hash
        yield block


def _receipt_fault(name: str, receipt: Receipt, found: bytes | None, verified: Verified) -> str:
    """Return why ``receipt`` does not match the ledger."""
    if found is None:
        return (
            f"receipt {receipt} does not match {name}, which ends at block {verified.head.height}: "
            "the ledger was cut short, or the receipt is of another ledger"
        )
    return (
        f"receipt {receipt} does not match {name}: block {receipt.height} has hash {found.hex()}, "
        "so it was rewritten, or the receipt is of another ledger"
    )


def _checkpoint(kept: KeptCheckpoint) -> Checkpoint:
    try:
        return read_checkpoint(msgspec.json.encode(kept.checkpoint))
    except CheckpointError as error:
        raise CommandError(Exit.INVALID, f"{kept.file}: {error}") from None


def events_of(blocks: Iterable[Block]) -> Iterator[Event]:
    """Yield the events of ``blocks``; each block is verified before its events are yielded."""
    for _, events in open_blocks(blocks):
        yield from events


def _invariant_faults(blocks: Callable[[], Iterable[Block]]) -> list[str]:
    """Return every violation of an invariant anywhere in the history, oldest first."""
    violations = audit(events_of(blocks()))
    if not violations:
        # Folding a history that has a fault can fail, so the history is audited first. It is read
        # twice, because this takes less memory than keeping all of it.
        state, _ = replay(blocks())
        violations = [*audit(events_of(blocks()), view=state), *sweep(state)]
    lines = [f"invariant {each}" for each in violations]
    if len(lines) > FAULTS_SHOWN_MAX:
        lines = [*lines[:FAULTS_SHOWN_MAX], f"and {len(lines) - FAULTS_SHOWN_MAX} more"]
    return lines
