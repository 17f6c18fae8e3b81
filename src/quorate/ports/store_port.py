"""The store port: an append-only log of blocks, a cached snapshot, an archive.

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
    """A ledger's blocks. Methods raise ``StoreError`` and ``CorruptLedgerError`` only.

    Methods about archived runs also raise ``ArchiveError``.
    """

    @property
    def is_shared(self) -> bool:
        """Whether other programs may append while this store is open for writing.

        If true, an engine decides on an overlay, so that it loses little work if another program
        appends first. The engine then also reads the blocks of other programs.
        """
        ...

    def head(self) -> Head:
        """Return the end of the log; ``GENESIS`` when it is empty."""
        ...

    def kept_end(self) -> Checkpoint | None:
        """Return the last record of the log's end; the record is stored apart from the log.

        Returns None if there is no such record. Without one, a log whose last blocks are missing
        looks whole. If the log ends before the recorded end, opening the store raises
        ``CorruptLedgerError``.
        """
        ...

    def verified_head(self) -> Head:
        """Return the head up to which this store has verified the chain; ``GENESIS`` if no block.

        The store compares the bytes of these blocks with a hash that it keeps elsewhere. So a
        program can open the ledger without reading these blocks.
        """
        ...

    def append(self, block: Block, *, expected: Head) -> None:
        """Append ``block``, sealed at ``expected``, completely or not at all; durable on return.

        A body has up to ``BLOCK_BYTES_MAX`` bytes, even if a server takes fewer in one request.
        Raises ``StaleHeadError`` if the log is not at ``expected``. After any error but
        ``UnsureAppendError`` the log is unchanged, and the store is usable. After
        ``UnsureAppendError``, ``block`` may be recorded already, be recorded later, or never be
        recorded. The work does not grow with the log.
        """
        ...

    def append_all(self, blocks: Iterable[Block]) -> Head:
        """Append ``blocks``, a sound chain from the head on, all or none; return the head.

        An error while iterating over ``blocks`` leaves the log unchanged.
        """
        ...

    def blocks(self, *, from_height: int = 1) -> Iterator[Block]:
        """Yield the blocks from ``from_height`` to the present head, in order.

        An append is allowed meanwhile and does not change the yielded blocks. Blocks are yielded as
        stored, and ``ledger/chain.py`` verifies them. Raises ``CorruptLedgerError`` if a block
        cannot be read.
        """
        ...

    def height_at(self, seq: int) -> int:
        """Return the height of the block that has event ``seq``, which must be in the log.

        Few blocks are read, however long the log is. Raises ``CorruptLedgerError`` if one of them
        cannot be read.
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

        Either both changes are made or none. The runs ``ended`` are added to the archive of the
        snapshot at ``base_seq``. If ``base_seq`` is 0, they are the whole archive. If the stored
        snapshot is not the one at ``base_seq``, raises ``StoreError`` and changes nothing. This
        method may run on another thread than the other methods, one call at a time, and no append
        waits for it.
        """
        ...

    def load_snapshot(self) -> tuple[Head, bytes] | None:
        """Return the stored snapshot, or None if there is none that can be trusted.

        A snapshot is a cache. A snapshot that is damaged or from another log is reported in the
        program's log and ignored; it is never an error.
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
        """Release all resources; no other call may follow. A second call does nothing.

        If another thread is saving a snapshot that is not stored yet, the snapshot is abandoned.
        After this call the store changes nothing more, because another program may be the writer.
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
    """The methods by which a store for several writers gives a delayed writer its turn."""

    def take_turn(self) -> None:
        """Wait for this writer's turn: then no other program can append before this one.

        Writers get their turns in the order in which they ask. The turn ends with the next append,
        with ``end_turn``, or after some seconds. A writer calls this method if others keep
        appending first, and again if that happens during its turn. The call may return without a
        turn if the servers of the store do not answer, or turns do not help. Raises
        ``NotLeaderError`` if only the leader appends, and this writer leads no longer.
        """
        ...

    def end_turn(self) -> None:
        """Let other programs append again, if this writer has the turn or waits for it."""
        ...
