"""Reads a ledger's file page by page, with a separate connection for each page.

No file is open between two pages. So a caller may read each page on another thread, or stop
half-way, and never keeps SQLite from checkpointing the write-ahead log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Final, NoReturn, Self

from quorate.adapters.stores.archive_file import ArchiveFile
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.ledger.archive import ArchivedRow, RowQuery
from quorate.ledger.chain import GENESIS, Block, Head
from quorate.ledger.checkpoint import Checkpoint
from quorate.ports.errors import StoreError, StoreReadOnlyError

PAGE_BLOCKS: Final = 128
"""The most blocks in a page. One connection reads a page, and the whole page is in memory."""


class PagedReader:
    """A read-only ``EventStore`` that ends where the ledger ended when the reader was created.

    If ``is_archive_kept``, the first look-up of an archived run opens a connection to the archive,
    which stays open until ``close``. Only the thread of the first look-up may use this connection.
    If not ``is_archive_kept``, each look-up opens and closes a connection.
    """

    is_shared = False
    """No program appends through this store."""

    def __init__(self, path: Path, *, is_archive_kept: bool = False) -> None:
        self._path = path
        with SqliteStore.read(path) as store:
            self._head = store.head()
            self._end = store.kept_end()
        self._archive = ArchiveFile(path, is_kept_open=is_archive_kept)

    def head(self) -> Head:
        """Return the head of the ledger when this reader was created."""
        return self._head

    def kept_end(self) -> Checkpoint | None:
        """Return the recorded end of the ledger; see ``EventStore``."""
        return self._end

    def verified_head(self) -> Head:
        """Return ``GENESIS``: a program that opens the ledger verifies all blocks of it."""
        return GENESIS

    def blocks(self, *, from_height: int = 1) -> Iterator[Block]:
        """Yield the blocks from ``from_height`` to the end of this reader; see ``EventStore``."""
        assert from_height >= 1, from_height
        height, last = from_height, self._head.height
        while height <= last:
            count = min(PAGE_BLOCKS, last - height + 1)
            with SqliteStore.read(self._path) as store:
                page = list(islice(store.blocks(from_height=height), count))
            yield from page
            height += len(page)
            # A shorter file has replaced this one; without this check the loop would not end.
            if len(page) < count:
                raise StoreError(
                    f"{self._path} ends at block {height - 1} now, but ended at block {last} "
                    "before; was it replaced?"
                )

    def height_at(self, seq: int) -> int:
        """Return the height of the block that holds event ``seq``; see ``EventStore``."""
        assert 1 <= seq <= self._head.seq, (seq, self._head.seq)
        with SqliteStore.read(self._path) as store:
            return store.height_at(seq)

    def load_snapshot(self) -> tuple[Head, bytes] | None:
        """Return the stored snapshot, unless it is from after the end of this reader."""
        with SqliteStore.read(self._path) as store:
            kept = store.load_snapshot()
        return None if kept is None or kept[0].height > self._head.height else kept

    def append(self, block: Block, *, expected: Head) -> None:
        """Raise: this store is read-only."""
        del block, expected
        self._refuse()

    def append_all(self, blocks: Iterable[Block]) -> Head:
        """Raise: this store is read-only."""
        del blocks
        self._refuse()

    def save_snapshot(
        self,
        head: Head,
        payload: bytes,
        ended: Iterable[ArchivedRow] = (),
        *,
        base_seq: int = 0,
    ) -> None:
        """Raise: this store is read-only."""
        del head, payload, ended, base_seq
        self._refuse()

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
        """Close the archive; nothing else is open."""
        self._archive.close()

    def __enter__(self) -> Self:
        """Return the store itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the archive."""
        self.close()

    def _refuse(self) -> NoReturn:
        raise StoreReadOnlyError(f"{self._path} was opened for reading")
