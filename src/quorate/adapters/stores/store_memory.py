"""The store in memory: for the simulator, tests and experiments."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

from quorate.ledger.archive import ArchivedRow, RowQuery
from quorate.ledger.chain import GENESIS, Block, Head
from quorate.ledger.checkpoint import Checkpoint
from quorate.ports.errors import StaleHeadError, StoreError

_LOG = logging.getLogger(__name__)


class MemoryStore:
    """A log that exists as long as this object; ``blocks`` are its first blocks.

    If ``is_shared``, several engines append to the log.
    """

    def __init__(self, blocks: Iterable[Block] = (), *, is_shared: bool = False) -> None:
        self.is_shared = is_shared
        self._blocks = list(blocks)
        self._snapshot: tuple[Head, bytes] | None = None
        # For each run by name: its row, and the snapshot that archived it.
        self._archive: dict[str, tuple[int, ArchivedRow]] = {}

    def head(self) -> Head:
        """Return the head of the log."""
        return self._blocks[-1].head if self._blocks else GENESIS

    def kept_end(self) -> Checkpoint | None:
        """Return None: only the blocks themselves show where the log ends."""
        return None

    def verified_head(self) -> Head:
        """Return ``GENESIS``: a program that opens the ledger verifies all blocks of it."""
        return GENESIS

    def append(self, block: Block, *, expected: Head) -> None:
        """Append ``block``; see ``EventStore``."""
        actual = self.head()
        if actual != expected:
            raise StaleHeadError(expected=expected, actual=actual)
        assert block.prev_hash == expected.hash, "the block was sealed at another head"
        self._blocks.append(block)

    def append_all(self, blocks: Iterable[Block]) -> Head:
        """Append ``blocks`` and return the head; see ``EventStore``."""
        self._blocks.extend(list(blocks))
        return self.head()

    def blocks(self, *, from_height: int = 1) -> Iterator[Block]:
        """Yield the blocks from ``from_height`` on; see ``EventStore``."""
        assert from_height >= 1, from_height
        # The end is fixed by the call, not by the first step of the iteration.
        return self._between(from_height - 1, len(self._blocks))

    def _between(self, start: int, end: int) -> Iterator[Block]:
        for index in range(start, end):
            yield self._blocks[index]

    def height_at(self, seq: int) -> int:
        """Return the height of the block that holds event ``seq``; see ``EventStore``."""
        assert 1 <= seq <= self.head().seq, seq
        return bisect_right(self._blocks, seq, key=lambda block: block.first_seq)

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
        known = None if self._snapshot is None else self._snapshot[0].seq
        if base_seq and known != base_seq:
            raise StoreError(f"the stored snapshot is not the one at sequence {base_seq}")
        added = {row.name: (head.seq, row) for row in ended}
        # The mapping is replaced and not changed, because another thread may be reading it.
        self._archive = {**self._archive, **added} if base_seq else added
        self._snapshot = (head, payload)

    def load_snapshot(self) -> tuple[Head, bytes] | None:
        """Return the stored snapshot if it belongs to this log, else None."""
        if self._snapshot is None:
            return None
        head, _ = self._snapshot
        there = [GENESIS, *(block.head for block in self._blocks[head.height - 1 : head.height])]
        if head not in there:
            _LOG.warning("the snapshot belongs to another ledger and was ignored")
            return None
        return self._snapshot

    def archived_run(self, name: str, upto_seq: int) -> ArchivedRow | None:
        """Return the row of the run ``name``; see ``EventStore``."""
        archived_seq, row = self._archive.get(name, (0, None))
        return row if archived_seq <= upto_seq else None

    def archived_names(self, query: RowQuery) -> list[tuple[int, str]]:
        """Return (sequence number of the submission, name) of archived runs; see ``EventStore``."""
        return [(row.seq, row.name) for row in self.archived_rows(query)]

    def archived_rows(self, query: RowQuery) -> list[ArchivedRow]:
        """Return rows of archived runs; see ``EventStore``."""
        found = [
            row
            for archived_seq, row in self._archive.values()
            if archived_seq <= query.upto_seq
            and row.seq > query.after_seq
            and (query.before_seq is None or row.seq < query.before_seq)
            and query.owner in (None, row.owner)
            and query.phase in (None, row.phase)
            and query.is_claim in (None, row.is_claim)
        ]
        found.sort(reverse=query.is_newest_first)
        return found[: query.limit]

    def archived_count(self, owner: str, upto_seq: int) -> int:
        """Return how many runs of ``owner`` were archived; see ``EventStore``."""
        rows = self._archive.values()
        return sum(row.owner == owner and seq <= upto_seq for seq, row in rows)

    def close(self) -> None:
        """Do nothing: a store in memory has nothing to close."""

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
