"""Records the head of an SQLite ledger in its head file, and refuses a log without that head.

The writer records the new head after each durable commit. If a log does not have the recorded
block, acknowledged blocks were lost, or the log was rewritten. Then ``check_log`` raises an error.
The format of the file is in ``head_file.py``, the signature in ``head_signing.py``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from quorate.adapters.stores.head_file import HeadFile, head_path
from quorate.adapters.stores.head_signing import EndSigner, lost_end, other_history
from quorate.ledger.chain import GENESIS, Block, Head
from quorate.ledger.checkpoint import Checkpoint

_LOG = logging.getLogger(__name__)


class HeadRecord:
    """The recorded head of one ledger; ``first_block`` returns the ledger's first block, if any."""

    def __init__(self, ledger: Path, first_block: Callable[[], Block | None]) -> None:
        self._ledger = ledger
        self._first_block = first_block
        self._file: HeadFile | None = None
        self._signer: EndSigner | None = None
        self._is_behind = False
        self.last: Checkpoint | None = None
        """The last record; None if the ledger has no head file."""

    def create(self, head: Head) -> None:
        """Create the head file, with ``head`` in it."""
        # Later records get another signer: a new ledger has no first block and no key yet, but will
        # have them.
        self.last = EndSigner(self._ledger, self._first_block()).record(head)
        self._file = HeadFile.create(self._ledger, self.last)

    def open(self, head: Head) -> None:
        """Open the head file of a log that ends at ``head``; create it if there is none."""
        self._file = HeadFile.open(self._ledger)
        if self._file is None:
            self.create(head)
            if head != GENESIS:
                _LOG.warning(
                    "%s had no head file %s, so a truncation of the ledger could not be detected; "
                    "created one at block %d, sequence %d",
                    self._ledger,
                    head_path(self._ledger).name,
                    head.height,
                    head.seq,
                )
            return
        self.last = self._file.record
        if self.last.height < head.height:
            _LOG.info(
                "%s recorded block %d, but the log has %d; updated the record",
                head_path(self._ledger),
                self.last.height,
                head.height,
            )
            self._write(head)

    def note(self, head: Head) -> None:
        """Record ``head`` after a durable commit.

        If the write fails, the commit remains valid. The failure is logged, and ``catch_up`` tries
        again before the next commit.
        """
        self._is_behind = True
        try:
            self._write(head)
        except OSError as error:
            _LOG.warning("%s could not be written: %s", head_path(self._ledger), error)

    def catch_up(self, head: Callable[[], Head]) -> None:
        """Record ``head()`` if the last write failed; raises OSError if this write fails, too."""
        if self._is_behind:
            self._write(head())

    def close(self) -> None:
        """Close the head file, if it is open."""
        if self._file is not None:
            self._file.close()

    def _write(self, head: Head) -> None:
        assert self._file is not None, "only a writer may record the head"
        if self._signer is None:
            self._signer = EndSigner(self._ledger, self._first_block())
        record = self._signer.record(head)
        self._file.write(record)
        self.last, self._is_behind = record, False


def check_log(
    ledger: Path, record: Checkpoint | None, head: Head, head_at: Callable[[int], Head | None]
) -> None:
    """Raise ``CorruptLedgerError`` unless the log that ends at ``head`` has the recorded block.

    ``head_at`` returns the head after the block at a height; None if the log has no such block.
    """
    if record is None or record.height == 0:
        return
    there = head_at(record.height)
    if there is not None and (there.seq, there.hash) == (record.seq, record.hash):
        return
    if head.height < record.height:
        raise lost_end(ledger, record, head)
    raise other_history(ledger, record)
