"""A ledger up to the head that its engine has read, while other writers append to the ledger.

Code that reads blocks together with the state must not read blocks that are newer than the state:
their runs, nodes and owners would be unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import Self

from quorate.ledger.archive import ArchivedRow, RowQuery
from quorate.ledger.chain import Block, Head
from quorate.ledger.checkpoint import Checkpoint
from quorate.ports.errors import StoreReadOnlyError
from quorate.ports.store_port import EventStore


class SeenStore:
    """Reads ``store`` up to the head that ``seen`` returns, and writes nothing."""

    def __init__(self, store: EventStore, seen: Callable[[], Head]) -> None:
        self._store = store
        self._seen = seen

    @property
    def is_shared(self) -> bool:
        """Whether other programs may append."""
        return self._store.is_shared

    def head(self) -> Head:
        """Return the head up to which the ledger was read."""
        return self._seen()

    def kept_end(self) -> Checkpoint | None:
        """Return the last record of where the log ends, which is stored apart from the log."""
        return self._store.kept_end()

    def verified_head(self) -> Head:
        """Return the head up to which the store has verified the chain; at most ``head``."""
        return min(self._store.verified_head(), self._seen(), key=lambda head: head.height)

    def blocks(self, *, from_height: int = 1) -> Iterator[Block]:
        """Yield the blocks from ``from_height`` on, up to the head that was read."""
        most = max(0, self._seen().height - from_height + 1)
        return islice(self._store.blocks(from_height=from_height), most)

    def height_at(self, seq: int) -> int:
        """Return the height of the block that holds event ``seq``, which was read."""
        assert 1 <= seq <= self._seen().seq, (seq, self._seen())
        return self._store.height_at(seq)

    def load_snapshot(self) -> tuple[Head, bytes] | None:
        """Return the last snapshot."""
        return self._store.load_snapshot()

    def archived_run(self, name: str, upto_seq: int) -> ArchivedRow | None:
        """Return the row of the archived run ``name``."""
        return self._store.archived_run(name, upto_seq)

    def archived_names(self, query: RowQuery) -> list[tuple[int, str]]:
        """Return (sequence number of the submission, name) of runs that match ``query``."""
        return self._store.archived_names(query)

    def archived_rows(self, query: RowQuery) -> list[ArchivedRow]:
        """Return rows of archived runs."""
        return self._store.archived_rows(query)

    def archived_count(self, owner: str, upto_seq: int) -> int:
        """Return how many runs of ``owner`` were archived."""
        return self._store.archived_count(owner, upto_seq)

    def append(self, block: Block, *, expected: Head) -> None:
        """Raise ``StoreReadOnlyError``: the engine appends to the store itself."""
        del block, expected
        raise _read_only()

    def append_all(self, blocks: Iterable[Block]) -> Head:
        """Raise ``StoreReadOnlyError``."""
        del blocks
        raise _read_only()

    def save_snapshot(
        self,
        head: Head,
        payload: bytes,
        ended: Iterable[ArchivedRow] = (),
        *,
        base_seq: int = 0,
    ) -> None:
        """Raise ``StoreReadOnlyError``."""
        del head, payload, ended, base_seq
        raise _read_only()

    def close(self) -> None:
        """Do nothing: the engine closes the store."""

    def __enter__(self) -> Self:
        """Return the store itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Do nothing."""


def _read_only() -> StoreReadOnlyError:
    return StoreReadOnlyError("the blocks that an engine has read are read-only")
