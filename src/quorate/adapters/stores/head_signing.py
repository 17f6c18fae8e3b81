"""The records in a head file: the end of the ledger as a checkpoint, signed if there is a key."""

from __future__ import annotations

import logging
from pathlib import Path

from quorate.adapters.clock_system import SystemClock
from quorate.adapters.key_file import key_path, load_key
from quorate.adapters.stores.head_file import head_path
from quorate.documents.times import time_text
from quorate.ledger.chain import GENESIS, Block, Head, open_block
from quorate.ledger.checkpoint import (
    Checkpoint,
    CheckpointSigner,
    public_key_of,
    unsigned_checkpoint,
    verify_signature,
)
from quorate.ledger.errors import CorruptLedgerError, QuorateError
from quorate.model.closed_words import counted
from quorate.model.events import LedgerOpened
from quorate.ports.errors import KeyFileError

_LOG = logging.getLogger(__name__)


class EndSigner:
    """Makes the records of one ledger; ``first`` is the ledger's first block.

    The key is in a file beside the ledger and is read once. If there is no key, or the key belongs
    to another ledger, the records have no signature.
    """

    def __init__(self, ledger: Path, first: Block | None) -> None:
        self._clock = SystemClock()
        self._opened = _opening(first)
        self._signer = None if self._opened is None else _signer(ledger, self._opened)

    def record(self, head: Head) -> Checkpoint:
        """Return the record of a log that ends at ``head``."""
        if self._signer is not None and head.height > 0:
            return self._signer.sign(head, self._clock.now_ms())
        ledger_id = "" if self._opened is None else self._opened.ledger_id
        return unsigned_checkpoint(ledger_id, head, self._clock.now_ms())

    def check(self, ledger: Path, record: Checkpoint) -> None:
        """Raise ``CorruptLedgerError`` if ``record`` has a signature that is not the ledger's."""
        if not record.signature or self._opened is None:
            return
        if record.public_key.hex() == self._opened.public_key and verify_signature(record):
            return
        name = head_path(ledger).name
        raise CorruptLedgerError(
            f"the signature in {name} was not made by this ledger's key, so {name} was changed or "
            f"belongs to another ledger",
            remedy=(
                f"restore the right {name}; if you do not have it, compare the ledger with a "
                f"checkpoint kept elsewhere (quorate ledger verify --against CHECKPOINT), then "
                f"move {name} away"
            ),
            source=str(ledger),
        )


def lost_end(ledger: Path, record: Checkpoint, found: Head) -> CorruptLedgerError:
    """Return the error for a log that ends at ``found``, before its recorded end."""
    name = head_path(ledger).name
    blocks = counted(record.height - found.height, "block")
    events = counted(record.seq - found.seq, "event")
    return CorruptLedgerError(
        f"its end is missing: {name} recorded block {record.height}, sequence {record.seq}, at "
        f"{time_text(record.at_ms)}, but the log ends at block {found.height}, sequence "
        f"{found.seq}: {blocks} with {events} that were acknowledged are lost",
        remedy=(
            f"if {ledger.name}-wal was moved or replaced, put it back as it was; else restore a "
            f"backup: quorate ledger restore BACKUP.db --out NEW.db, or an export: quorate ledger "
            f"import FILE --out NEW.db. To continue with the shorter ledger nevertheless, move "
            f"{name} away"
        ),
        source=str(ledger),
    )


def other_history(ledger: Path, record: Checkpoint) -> CorruptLedgerError:
    """Return the error for a log with another block at the height of ``record``."""
    name = head_path(ledger).name
    return CorruptLedgerError(
        f"{name} recorded that block {record.height} ends at sequence {record.seq} with hash "
        f"{record.hash.hex()}, but the log has another block there: the log was rewritten, or one "
        "of "
        f"the two files belongs to another ledger",
        remedy=(
            f"put back the ledger and the {name} that belongs to it, or restore a backup: quorate "
            f"ledger restore BACKUP.db --out NEW.db. To continue with this ledger nevertheless, "
            f"move {name} away"
        ),
        source=str(ledger),
    )


def _opening(first: Block | None) -> LedgerOpened | None:
    """Return the first event of a ledger; None if it cannot be read."""
    if first is None:
        return None
    try:
        opened = open_block(first, after=GENESIS)[0]
    except QuorateError:
        # The reader of the blocks reports a fault of the first block.
        return None
    return opened if isinstance(opened, LedgerOpened) else None


def _signer(ledger: Path, opened: LedgerOpened) -> CheckpointSigner | None:
    path = key_path(ledger)
    if not path.exists():
        return None
    try:
        key = load_key(path)
    except KeyFileError as error:
        _LOG.warning("%s is not signed: %s", head_path(ledger), error)
        return None
    if public_key_of(key).hex() != opened.public_key:
        _LOG.warning(
            "%s is not signed: %s is not the key of this ledger, whose public key is %s",
            head_path(ledger),
            path,
            opened.public_key,
        )
        return None
    return CheckpointSigner(opened.ledger_id, key)
