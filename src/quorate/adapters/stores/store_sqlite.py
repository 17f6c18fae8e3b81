"""The store in one SQLite file, in WAL mode with every commit synced to disk.

One writer holds the lock beside the file (``writer_lock.py``); readers neither take the lock nor
wait for it. The head is stored twice, as a separate row and as the last block. Otherwise damage to
SQLite's pages could remove the last blocks without a trace. This module checks that blocks are
readable; ``ledger/chain.py`` checks their hashes.

A third copy of the head is in a separate file (``head_record.py``), which is written after each
commit. Every opening compares the log with this copy: a log that ends earlier has lost acknowledged
blocks. Snapshots and archived runs are in another file (``archive_file.py``).
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from msgspec.structs import astuple

from quorate.adapters.file_errors import damaged, translated
from quorate.adapters.stores.archive_file import ArchiveFile, remove_archive
from quorate.adapters.stores.head_file import check_absent, read_head
from quorate.adapters.stores.head_record import HeadRecord, check_log
from quorate.adapters.stores.head_signing import EndSigner
from quorate.adapters.stores.sqlite_file import (
    check_directory,
    check_free,
    check_identity,
    configure,
    connected,
    connected_to_read,
    create_file,
    existing,
    identity,
    lay_out,
    remove_file,
    resolved,
)
from quorate.adapters.stores.writer_lock import WriterLock, check_only_link
from quorate.ledger.archive import ArchivedRow, RowQuery
from quorate.ledger.chain import GENESIS, HASH_BYTES, Block, Head
from quorate.ledger.checkpoint import Checkpoint
from quorate.ports.errors import (
    QuorateError,
    StaleHeadError,
    StoreError,
    StoreReadOnlyError,
)

_LOG = logging.getLogger(__name__)

BLOCKS_PER_PAGE: Final = 32
_COLUMNS: Final = ", ".join(Block.__struct_fields__)
_COLUMN_TYPES: Final = (int, int, int, bytes, bytes, bytes)


class SqliteStore:
    """A ledger file. Made by ``create``, ``open`` (for writing) or ``read``."""

    is_shared = False
    """The writer's lock keeps other programs from appending."""

    def __init__(self, path: Path, db: sqlite3.Connection, lock: WriterLock | None = None) -> None:
        self._path = path
        self._db = db
        self._lock = lock
        self._file = identity(path)
        self._record = HeadRecord(path, self._first_block)
        self._archive = ArchiveFile(path, is_kept_open=True)

    @classmethod
    def create(cls, path: Path) -> Self:
        """Return the store of a new, empty ledger file that only its owner may read.

        If a file exists at ``path``, raises ``LedgerExistsError`` and changes nothing. Any other
        failure leaves no file.
        """
        real = resolved(path)
        with translated(real), ExitStack() as undo:
            check_directory(real.parent)
            lock = WriterLock(real)
            undo.callback(lock.release)
            check_free(real)
            check_absent(real)
            # An archive of an earlier ledger at this path does not belong to the new ledger.
            remove_archive(real)
            create_file(real)
            undo.callback(remove_file, real)
            db = undo.enter_context(closing(connected(real, "mode=rw")))
            lay_out(db)
            store = cls(real, db, lock)
            store._record.create(store._head())
            undo.pop_all()
            return store

    @classmethod
    def open(cls, path: Path, *, wait_s: float = 0.0) -> Self:
        """Return the store of an existing ledger, for reading and writing.

        Raises ``LedgerHeldError`` if another process still has the ledger open for writing after
        ``wait_s``. Raises ``StoreError`` if the file has a second name (a hard link), and
        ``CorruptLedgerError`` if the log ends before its recorded end. An error changes nothing. A
        ledger without a head file gets one.
        """
        real = existing(path)
        with translated(real), ExitStack() as undo:
            lock = WriterLock(real, wait_s=wait_s)
            undo.callback(lock.release)
            check_only_link(real)
            # When a writable connection closes, it checkpoints the write-ahead log into the file,
            # which would destroy the rest of a damaged log. So a read-only connection checks the
            # log first.
            with cls.read(real) as looked:
                looked.check_signature()
            db = undo.enter_context(closing(connected(real, "mode=rw")))
            check_identity(db, real)
            configure(db)
            store = cls(real, db, lock)
            undo.callback(store._record.close)
            store._check_head()
            store._record.open(store._head())
            # Older versions had no archive file, and kept snapshots in this table.
            db.execute("DROP TABLE IF EXISTS snapshot")
            undo.pop_all()
            return store

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the store of an existing ledger, for reading only; writers are not blocked.

        Raises ``CorruptLedgerError`` if the log ends before its recorded end.
        """
        real = existing(path)
        with translated(real), ExitStack() as undo:
            # The record is read before the log: a writer records the end after each commit, so the
            # log has at least the recorded blocks.
            end = read_head(real)
            db = undo.enter_context(closing(connected_to_read(real)))
            store = cls(real, db)
            store._record.last = end
            store._check_head()
            check_log(real, end, store._head(), store._head_at)
            undo.pop_all()
            return store

    @property
    def path(self) -> Path:
        """The path of the ledger file, with symbolic links resolved."""
        return self._path

    def head(self) -> Head:
        """Return the head of the log."""
        with translated(self._path):
            return self._head()

    def kept_end(self) -> Checkpoint | None:
        """Return the record of the head file; None if there is no such file. See ``EventStore``."""
        return self._record.last

    def verified_head(self) -> Head:
        """Return ``GENESIS``: a program that opens the ledger verifies all blocks of it."""
        return GENESIS

    def check_signature(self) -> None:
        """Raise ``CorruptLedgerError`` if the head file was not signed by the ledger's key.

        ``read`` does not check the signature, because the check needs a slow import.
        """
        end = self._record.last
        if end is not None and end.signature:
            with translated(self._path):
                EndSigner(self._path, self._first_block()).check(self._path, end)

    def append(self, block: Block, *, expected: Head) -> None:
        """Append ``block`` in one transaction; see ``EventStore``."""
        self._check_writable()
        with translated(self._path), self._transaction():
            actual = self._head()
            if actual != expected:
                raise StaleHeadError(expected=expected, actual=actual)
            self._insert(block, after=expected)
        self._record.note(block.head)

    def append_all(self, blocks: Iterable[Block]) -> Head:
        """Append ``blocks`` in one transaction, and return the head; see ``EventStore``."""
        self._check_writable()
        with translated(self._path), self._transaction():
            head = self._head()
            for block in blocks:
                self._insert(block, after=head)
                head = block.head
        self._record.note(head)
        return head

    def blocks(self, *, from_height: int = 1) -> Iterator[Block]:
        """Yield the blocks from ``from_height`` on; see ``EventStore``.

        Blocks never change, so pages that are read one after another, up to the present head, are
        consistent. No transaction stays open, so SQLite can checkpoint the write-ahead log.
        """
        assert from_height >= 1, from_height
        return self._pages(from_height, self.head().height)

    def height_at(self, seq: int) -> int:
        """Return the height of the block that holds event ``seq``; see ``EventStore``.

        The search is by height, the primary key of the table, so it needs no other index.
        """
        with translated(self._path):
            head = self._head()
            assert 1 <= seq <= head.seq, (seq, head.seq)
            low, high = 1, head.height
            while low < high:
                middle = (low + high) // 2
                found = self._head_at(middle)
                if found is None:
                    what = f"block {middle} is missing or its row is unreadable"
                    raise damaged(self._path, what, height=middle)
                low, high = (low, middle) if seq <= found.seq else (middle + 1, high)
        return low

    def save_snapshot(
        self,
        head: Head,
        payload: bytes,
        ended: Iterable[ArchivedRow] = (),
        *,
        base_seq: int = 0,
    ) -> None:
        """Store ``payload`` as the state at ``head``, and the archived runs ``ended``.

        See ``EventStore``.
        """
        if self._lock is None:
            raise StoreReadOnlyError(f"{self._path} was opened for reading")
        self._archive.save(head, payload, ended, base_seq=base_seq)

    def load_snapshot(self) -> tuple[Head, bytes] | None:
        """Return the stored snapshot if it is complete and belongs to this log, else None."""
        try:
            with translated(self._path):
                kept = self._archive.load()
                if kept is not None and kept[0] not in (GENESIS, self._head_at(kept[0].height)):
                    raise StoreError("it belongs to another ledger")
        except QuorateError as error:
            _LOG.warning(
                ("the snapshot was ignored, and the whole ledger is read instead: %s"), error
            )
            return None
        return kept

    def archived_run(self, name: str, upto_seq: int) -> ArchivedRow | None:
        """Return the row of the run ``name``; see ``EventStore``."""
        return self._archive.run(name, upto_seq)

    def archived_names(self, query: RowQuery) -> list[tuple[int, str]]:
        """Return (sequence number of the submission, name) of archived runs; see ``EventStore``."""
        return self._archive.names(query)

    def archived_rows(self, query: RowQuery) -> list[ArchivedRow]:
        """Return rows of archived runs; see ``EventStore``."""
        return self._archive.rows(query)

    def archived_count(self, owner: str, upto_seq: int) -> int:
        """Return how many runs of ``owner`` were archived; see ``EventStore``."""
        return self._archive.count(owner, upto_seq)

    def close(self) -> None:
        """Close the file and release the writer's lock."""
        with translated(self._path):
            try:
                self._archive.close()
                self._db.close()
            finally:
                self._record.close()
                if self._lock is not None:
                    self._lock.release()

    def __enter__(self) -> Self:
        """Return the store itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the store."""
        self.close()

    def _check_writable(self) -> None:
        """Raise unless this store may write, and its path still leads to the file it opened."""
        if self._lock is None:
            raise StoreReadOnlyError(f"{self._path} was opened for reading")
        # Otherwise SQLite would keep writing to a file that was removed.
        with translated(self._path):
            if identity(self._path) != self._file:
                raise StoreError(
                    f"{self._path} was replaced by another file while open; nothing was recorded"
                )
            self._record.catch_up(self._head)

    def _first_block(self) -> Block | None:
        """Return the first block; None if it does not exist or cannot be read."""
        row = self._db.execute(f"SELECT {_COLUMNS} FROM block WHERE height = 1").fetchone()  # noqa: S608 - our own columns
        if row is None or tuple(map(type, row)) != _COLUMN_TYPES:
            return None
        return self._block(row, 1)

    # --- Rows ---

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit the changes made in the ``with`` block; roll all of them back if it raises."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            # SQLite itself rolls back on some errors, such as a full disk.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _insert(self, block: Block, *, after: Head) -> None:
        """Write ``block`` and the new head."""
        assert block.prev_hash == after.hash, "the block was sealed at another head"
        self._db.execute(
            f"INSERT INTO block ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",  # noqa: S608 - our own columns
            astuple(block),
        )
        head = block.head
        self._db.execute(
            "UPDATE head SET height = ?, seq = ?, hash = ? WHERE id = 1",
            (head.height, head.seq, head.hash),
        )

    def _head(self) -> Head:
        """Return the head row."""
        match self._db.execute("SELECT height, seq, hash FROM head WHERE id = 1").fetchone():
            case (int(height), int(seq), bytes(digest)) if len(digest) == HASH_BYTES:
                return Head(height=height, seq=seq, hash=digest)
            case _:
                raise damaged(self._path, "its record of the last block is missing or unreadable")

    def _check_head(self) -> None:
        """Raise unless the head row and the last block agree."""
        # Both reads are in one transaction, because a writer's commit between them would look like
        # damage.
        self._db.execute("BEGIN")
        try:
            recorded = self._head()
            (last,) = self._db.execute("SELECT max(height) FROM block").fetchone()
            found = GENESIS if last is None else self._head_at(last)
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        if found != recorded:
            where = "no block" if found is None else f"block {found.height}, sequence {found.seq}"
            what = (
                f"the last block recorded is {recorded.height}, sequence {recorded.seq}, "
                f"but the last one found is {where}, or has another hash"
            )
            raise damaged(self._path, what, height=recorded.height)

    def _head_at(self, height: int) -> Head | None:
        """Return the head at ``height`` from the block's own row; None if it cannot be read."""
        found = self._db.execute(
            "SELECT height, first_seq, count, hash FROM block WHERE height = ?", (height,)
        ).fetchone()
        match found:
            case (int(at), int(first_seq), int(count), bytes(digest)):
                return Head(height=at, seq=first_seq + count - 1, hash=digest)
            case _:
                return None

    def _pages(self, height: int, last: int) -> Iterator[Block]:
        """Yield the blocks ``height`` to ``last``, a page at a time; a gap is an error."""
        while height <= last:
            with translated(self._path):
                rows = self._db.execute(
                    f"SELECT {_COLUMNS} FROM block "  # noqa: S608 - our own names
                    "WHERE height BETWEEN ? AND ? ORDER BY height",
                    (height, min(last, height + BLOCKS_PER_PAGE - 1)),
                ).fetchall()
            for row in rows:
                yield self._block(row, height)
                height += 1
            if not rows:
                raise damaged(self._path, f"block {height} is missing", height=height)

    def _block(self, row: tuple[Any, ...], height: int) -> Block:
        """Return the block in ``row``, which must have the height ``height``."""
        if tuple(map(type, row)) != _COLUMN_TYPES or row[0] != height:
            what = f"block {height} is missing or its row is unreadable"
            raise damaged(self._path, what, height=height)
        at, first_seq, count, prev_hash, digest, body = row
        return Block(
            height=at,
            first_seq=first_seq,
            count=count,
            prev_hash=prev_hash,
            hash=digest,
            body=body,
        )
