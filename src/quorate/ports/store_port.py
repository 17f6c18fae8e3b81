"""The store port: an append-only log of blocks, a cached snapshot, an archive.

``testing/store_contract.py`` has this text as tests; every adapter passes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Protocol, Self

from quorate.ledger.archive import ArchivedRow, RowQuery
from quorate.ledger.chain import Block, Head
from quorate.ledger.checkpoint import Checkpoint


class EventStore(Protocol):
    """A ledger's blocks. Methods raise ``StoreError`` and ``CorruptLedgerError`` only.

    Those about archived runs also raise ``ArchiveError``.
    """

    @property
    def is_shared(self) -> bool:
        """Whether others may append while this store is open for writing.

        An engine then decides so that losing a race costs little, and follows the blocks of others.
        """
        ...

    def head(self) -> Head:
        """Return the end of the log; ``GENESIS`` when it is empty."""
        ...

    def kept_end(self) -> Checkpoint | None:
        """Return the last record of the log's end that is kept apart from the log.

        None if none is kept: then a log whose end is missing looks whole. A store with a record
        raises ``CorruptLedgerError`` when it is opened and ends before it.
        """
        ...

    def verified_head(self) -> Head:
        """Return the head up to which this store vouches for the chain; ``GENESIS`` for nothing.

        The store has verified those blocks, and compares the bytes it reads of them with a hash
        that it keeps elsewhere. So a program that opens the ledger does not have to read them to
        trust them.
        """
        ...

    def append(self, block: Block, *, expected: Head) -> None:
        """Append ``block``, sealed at ``expected``, all or nothing; durable on return.

        A body has up to ``BLOCK_BYTES_MAX`` bytes, however little a server takes in one request.
        Raises ``StaleHeadError`` if the log is not at ``expected``. After any error the log is
        unchanged, and the store is usable; except after ``UnsureAppendError``: then ``block`` may
        be the next one, become it, or never be recorded. The work does not grow with the log.
        """
        ...

    def append_all(self, blocks: Iterable[Block]) -> Head:
        """Append ``blocks``, a sound chain from the head on, all or nothing; return the head.

        An error while iterating over ``blocks`` leaves the log unchanged.
        """
        ...

    def blocks(self, *, from_height: int = 1) -> Iterator[Block]:
        """Yield the blocks from ``from_height`` to the present head, in order.

        Appending meanwhile is allowed and does not change the yielded blocks. Blocks come as
        stored: ``ledger/chain.py`` verifies them. Raises ``CorruptLedgerError`` if one cannot be
        read.
        """
        ...

    def height_at(self, seq: int) -> int:
        """Return the height of the block that holds event ``seq``, which must be in the log.

        Raises ``CorruptLedgerError`` if a block on the way cannot be read. Reads few blocks,
        however long the log is.
        """
        ...

    def save_snapshot(
        self,
        head: Head,
        payload: bytes,
        ended: Iterable[ArchivedRow] = (),
        *,
        base_seq: int = 0,
    ) -> None:
        """Store ``payload``, the state at ``head``, and drop the previous snapshot.

        Either both happen or neither. The runs ``ended`` are added to the archive of the snapshot
        at ``base_seq``; at 0 they are all of it. Raises ``StoreError`` if the stored snapshot is
        another one, and then changes nothing. May be called on another thread than the other
        methods, one call at a time: no append waits for it.
        """
        ...

    def load_snapshot(self) -> tuple[Head, bytes] | None:
        """Return the stored snapshot, or None if there is none that can be trusted.

        A snapshot is a cache: one that is damaged or not of this log is reported in the program's
        log and ignored, never an error.
        """
        ...

    def archived_run(self, name: str, upto_seq: int) -> ArchivedRow | None:
        """Return the row of the run ``name``, unless it was archived after ``upto_seq``."""
        ...

    def archived_names(self, query: RowQuery) -> list[tuple[int, str]]:
        """Return (sequence of the submission, name) of archived runs, in order."""
        ...

    def archived_rows(self, query: RowQuery) -> list[ArchivedRow]:
        """Return rows of archived runs, in order."""
        ...

    def archived_count(self, owner: str, upto_seq: int) -> int:
        """Return how many runs of ``owner`` were archived up to ``upto_seq``."""
        ...

    def close(self) -> None:
        """Release everything; further calls are bugs. Closing twice is allowed.

        A snapshot that another thread is saving is abandoned, unless it is stored by then: after
        this returns nothing changes, because another program may be the writer.
        """
        ...

    def __enter__(self) -> Self:
        """Return the store itself."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the store."""
        ...
