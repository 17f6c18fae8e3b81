"""The store port: an append-only log of blocks, with a cached snapshot and an archive of runs.

``testing/store_contract.py`` tests these rules, and every adapter passes the tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from quorate.ledger.archive import ArchivedRow, RowQuery
from quorate.ledger.chain import Block, Head
from quorate.ledger.checkpoint import Checkpoint


class EventStore(Protocol):
    """The store of a ledger. Methods raise no errors but ``StoreError`` and ``CorruptLedgerError``.

    Only methods about archived runs also raise ``ArchiveError``.
    """

    @property
    def is_shared(self) -> bool:
        """Whether other programs may append while this store is open for writing.

        If so, an engine decides on an overlay, so that it loses little work if another program
        appends first. The engine then also reads the blocks that other programs append.
        """
        ...

    def head(self) -> Head:
        """Return the end of the log; ``GENESIS`` if the log is empty."""
        ...

    def kept_end(self) -> Checkpoint | None:
        """Return the last record of the log's end; the record is stored apart from the log.

        Return None if there is no such record. The record shows whether the last blocks of the log
        are missing: if the log ends before the recorded end, opening the store raises
        ``CorruptLedgerError``. Without a record, a log whose last blocks are missing looks
        complete.
        """
        ...

    def verified_head(self) -> Head:
        """Return the head up to which this store has verified the chain; ``GENESIS`` if none of it.

        The store has compared the bytes of these blocks with a hash that it keeps elsewhere. So a
        program can open the ledger without reading these blocks.
        """
        ...

    def append(self, block: Block, *, expected: Head) -> None:
        """Append ``block``, completely or not at all; on return the block is durable.

        ``block`` was sealed after the head ``expected``; if the log is not at this head, the method
        raises ``StaleHeadError``. A body may have up to ``BLOCK_BYTES_MAX`` bytes, even if a server
        takes fewer in one request. After ``UnsureAppendError``, ``block`` may be recorded already,
        be recorded later, or never be recorded. After any other error the log is unchanged, and the
        store is usable. The running time does not grow with the length of the log.
        """
        ...

    def append_all(self, blocks: Iterable[Block]) -> Head:
        """Append all of ``blocks``, a sound chain from the head on, or none; return the new head.

        If an error occurs while ``blocks`` are read, the log is unchanged.
        """
        ...

    def blocks(self, *, from_height: int = 1) -> Iterator[Block]:
        """Yield the blocks from ``from_height`` to the present head, in order.

        Appends are allowed meanwhile, and do not change which blocks are yielded. Blocks are
        yielded as they are stored; ``ledger/chain.py`` verifies them. The method raises
        ``CorruptLedgerError`` if a block cannot be read.
        """
        ...

    def height_at(self, seq: int) -> int:
        """Return the height of the block that has event ``seq``, which must be in the log.

        Only few blocks are read, however long the log is. The method raises ``CorruptLedgerError``
        if one of them cannot be read.
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

        Either all changes are made or none. The runs ``ended`` are added to the archive of the
        snapshot at ``base_seq``. If ``base_seq`` is 0, they are the whole archive. If the stored
        snapshot is not the one at ``base_seq``, the method changes nothing and raises
        ``StoreError``. It may run on another thread than the other methods, but only one call at a
        time. No append waits for it.
        """
        ...

    def load_snapshot(self) -> tuple[Head, bytes] | None:
        """Return the stored snapshot, or None if there is none that can be trusted.

        A snapshot is only a cache. If a snapshot is damaged or belongs to another ledger, this is
        written to the program's log, and the result is None; no error is raised.
        """
        ...

    def archived_run(self, name: str, upto_seq: int) -> ArchivedRow | None:
        """Return the row of the run ``name`` if it was archived up to ``upto_seq``, else None."""
        ...

    def archived_names(self, query: RowQuery) -> list[tuple[int, str]]:
        """Return (sequence number of the submission, name) of the rows for ``query``, in order."""
        ...

    def archived_rows(self, query: RowQuery) -> list[ArchivedRow]:
        """Return the rows of archived runs that match ``query``, in order."""
        ...

    def archived_count(self, owner: str, upto_seq: int) -> int:
        """Return how many runs of ``owner`` were archived up to ``upto_seq``."""
        ...

    def close(self) -> None:
        """Release all resources; no other call may follow. A second call does nothing.

        If another thread is saving a snapshot and has not stored it yet, the snapshot is abandoned.
        After this call the store changes nothing more, because another program may then be the
        writer.
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


@runtime_checkable
class TurnStore(Protocol):
    """The methods of a store for several writers by which a delayed writer gets a turn."""

    def take_turn(self) -> None:
        """Wait for this writer's turn, in which no other program can append before it.

        Writers get their turns in the order in which they ask. A turn ends with the writer's next
        append, with ``end_turn``, or after some seconds. A writer calls this method if others have
        repeatedly appended first, and again if that happens even during its turn. If the servers of
        the store do not answer, or if turns do not help, the call may return without a turn. If
        only the leader may append and this writer no longer leads, the method raises
        ``NotLeaderError``.
        """
        ...

    def end_turn(self) -> None:
        """Let other programs append again, if this writer has the turn or waits for it."""
        ...
