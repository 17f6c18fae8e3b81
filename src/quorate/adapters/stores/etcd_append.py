"""Appends to a ledger in etcd: one transaction, which compares the revision of the head key.

Every append writes the head key, so the key's revision changes each time, and etcd refuses a writer
that compares an older revision. If the services elect a leader, the transaction also compares the
leader's key, so a deposed leader cannot append. A refused transaction returns the head and the
first blocks of other writers, so that a writer that is a few blocks behind needs no further read.

An answer may be lost when etcd's leader changes or a deadline passes. etcd may then have carried
out the transaction, or may carry it out a moment later, so the writer does not simply send it
again. The writer reads the head, and if the head has not moved, writes the head again with the same
value. Afterwards the lost transaction compares an old revision, so it can no longer succeed.

Each writer has a key that it writes together with each of its blocks. If the head has moved, this
key shows whether the writer's own append moved it. The log cannot show this. If two writers make
the same decision at one head, at the same instant of their clocks, they make the same block, and
only one of them appends the block.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from quorate.adapters.etcd.etcd_requests import (
    Action,
    Comparison,
    CreatedAt,
    Delete,
    Get,
    KeyValues,
    ModifiedAt,
    Put,
    Row,
    Txn,
)
from quorate.adapters.etcd.leadership import Leading, Standing
from quorate.adapters.stores.etcd_moved import moved_error
from quorate.adapters.stores.etcd_records import (
    INLINE_BYTES_MAX,
    EtcdKeys,
    block_value,
    head_of,
    head_value,
    part_count,
    whole_blocks,
)
from quorate.adapters.stores.etcd_turns import EtcdTurns
from quorate.ledger.chain import GENESIS, Block, Head
from quorate.ports.errors import (
    LedgerExistsError,
    LedgerNotFoundError,
    NotLeaderError,
    StaleHeadError,
    StoreDownError,
    StoreError,
    UnsureAppendError,
)

_LOG = logging.getLogger(__name__)

APPEND_S: Final = 15.0
"""How long an append is tried if answers of etcd are lost."""
REFUSED_BLOCKS_MAX: Final = 4
"""The most blocks of other writers that a refusal returns; a later read returns the rest."""
SETTLE_S: Final = 2.0
"""The time limit of one read of the head that determines the result of an append."""
STAGED_BLOCKS_MAX: Final = 64
"""The most blocks that one transaction stages. By default, etcd refuses a transaction with more
than 128 operations."""


_NO_REVISION: Final = -1
"""A revision that no key has; a fence with this revision refuses every append."""


@dataclass(frozen=True, slots=True)
class KnownHead:
    """The head of a log, and the revision of the head key."""

    head: Head
    revision: int


@dataclass(frozen=True, slots=True)
class Fence:
    """The leader's key with the revision at which the leader created it.

    The key exists while the leader's lease lasts.
    """

    key: bytes
    revision: int


def fence_of(key: bytes, standing: Standing) -> Fence:
    """Return the fence for ``standing``; the fence of a follower refuses every append."""
    return Fence(key, standing.revision if isinstance(standing, Leading) else _NO_REVISION)


class EtcdAppender:
    """Appends to one log, and so moves the log's head. Only one thread may use this object."""

    def __init__(
        self,
        etcd: KeyValues,
        keys: EtcdKeys,
        place: str,
        turns: EtcdTurns,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._etcd = etcd
        self._keys = keys
        self._place = place
        self._turns = turns
        self._own_key = keys.writer(uuid4().hex)
        self._clock_s = clock_s
        self._known: KnownHead | None = None
        self.fence: Fence | None = None

    def create(self) -> None:
        """Create an empty log; raises ``LedgerExistsError``."""
        key = self._keys.head
        # Read first: a read tries members until one answers; a transaction asks one member once.
        if self._etcd.get(Get(key)):
            raise LedgerExistsError(self._place)
        made = self._etcd.commit(
            Txn(compare=(ModifiedAt(key, 0),), then=(Put(key, head_value(GENESIS)),))
        )
        if not made.held:
            raise LedgerExistsError(self._place)

    def read_head(self, *, within_s: float | None = None) -> KnownHead:
        """Return the present head of the log; raises ``LedgerNotFoundError`` if there is no log."""
        self._known = self._parsed(self._etcd.get(Get(self._keys.head), within_s=within_s))
        return self._known

    def append(self, block: Block, expected: Head) -> None:
        """Append ``block``; see ``EventStore``."""
        assert block.prev_hash == expected.hash, "the block was sealed at another head"
        known = self._known
        if known is None or known.head != expected:
            known = self.read_head()
        self._check_at(expected, known)
        self._stage_parts(block)
        end_s = self._clock_s() + APPEND_S
        is_sent = False
        after: tuple[Row, ...] = ()
        while True:
            if is_sent and known.head != expected and self._is_recorded(block.head):
                self._turns.appended()
                return
            self._check_at(expected, known, after)
            fence = self.fence
            try:
                answer = self._etcd.commit(self._txn(block, known.revision, fence))
            except StoreDownError as error:
                is_sent, after = True, ()
                known = self._settled(block.head, known, error, end_s)
                if known.head == expected and self._clock_s() >= end_s:
                    raise StoreDownError(f"{error}; nothing was recorded") from error
                continue
            if answer.held:
                self._known = KnownHead(block.head, answer.revision)
                self._turns.appended()
                return
            *found, queue, after = answer.rows
            known = self._moved(found, fence)
            if self._turns.refused(queue, has_moved=known.head != expected):
                if known.head == expected:
                    self._turns.wait_for_others(known.revision, queue)
                    known, after = self.read_head(), ()
                end_s = self._clock_s() + APPEND_S

    def append_all(self, blocks: Iterable[Block]) -> Head:
        """Append ``blocks``, which need not fit into one transaction; see ``EventStore``.

        The blocks are staged above the head, and become valid when the head moves at the end. The
        first transaction writes the head unchanged, so that two writers that stage at the same time
        cannot mix their blocks.
        """
        known = self.read_head()
        head = known.head
        revision = self._put_head(known)
        waiting: list[Action] = []
        size = 0
        try:
            for block in blocks:
                _check_follows(block, head)
                self._stage_parts(block)
                value = block_value(block)
                if len(waiting) == STAGED_BLOCKS_MAX or size + len(value) > INLINE_BYTES_MAX:
                    self._stage(waiting, revision)
                    waiting, size = [], 0
                waiting.append(Put(self._keys.block(block.height), value))
                size += len(value)
                head = block.head
            self._stage(waiting, revision)
        except BaseException:
            self._unstage(known.head, revision)
            raise
        if head == known.head:
            return head
        self._finish(head, KnownHead(known.head, revision))
        return head

    def take_turn(self) -> None:
        """Wait until no other writer can append before this one; see ``TurnStore``."""
        self._turns.take(0 if self._known is None else self._known.revision)

    def end_turn(self) -> None:
        """Let other writers append; see ``TurnStore``."""
        self._turns.end()

    # --- One block ---

    def _txn(self, block: Block, revision: int, fence: Fence | None) -> Txn:
        """Return the transaction that appends ``block``.

        If etcd refuses the transaction, the answer has the queue of writers, and later blocks. The
        later blocks may include blocks above the head, which another writer has staged.
        """
        first = self._keys.block(block.height)
        puts = (Put(first, block_value(block)), self._mark(block.head))
        moved = self._move_head(block.head, revision, fence, *puts)
        end = self._keys.block(block.height + REFUSED_BLOCKS_MAX)
        return replace(
            moved,
            compare=(*moved.compare, self._turns.comparison()),
            then=(*moved.then, *self._turns.leaving()),
            otherwise=(*moved.otherwise, self._turns.queue, Get(first, end)),
        )

    def _move_head(self, head: Head, revision: int, fence: Fence | None, *puts: Put) -> Txn:
        """Return the transaction that moves the head if neither head nor leader has changed.

        The transaction is refused if the ledger was moved to another store (``etcd_moved.py``).
        """
        key = self._keys.head
        fenced = () if fence is None else (CreatedAt(fence.key, fence.revision),)
        return Txn(
            compare=(ModifiedAt(key, revision), ModifiedAt(self._keys.moved, 0), *fenced),
            then=(*puts, Put(key, head_value(head))),
            otherwise=(Get(key), Get(self._keys.moved), *(Get(each.key) for each in fenced)),
        )

    def _moved(self, rows: Sequence[tuple[Row, ...]], fence: Fence | None) -> KnownHead:
        """Return the head that a refused append found.

        Raises ``LedgerMovedError`` if the ledger was moved, and ``NotLeaderError`` if this leader
        was deposed.
        """
        if rows[1]:
            raise moved_error(rows[1][0], self._place)
        if fence is not None:
            leaders = rows[2]
            if not leaders or leaders[0].create_revision != fence.revision:
                raise NotLeaderError(
                    f"{self._place}: another program leads now, or this leader's lease has "
                    f"expired; nothing was recorded. Send the request to the leader"
                )
        self._known = self._parsed(rows[0])
        return self._known

    def _check_at(self, expected: Head, known: KnownHead, after: tuple[Row, ...] = ()) -> None:
        """Raise ``StaleHeadError`` unless the log ends at ``expected``.

        ``after`` has the rows of later blocks, read together with ``known``.
        """
        if known.head == expected:
            return
        first, last = expected.height + 1, known.head.height
        blocks = tuple(whole_blocks(after, self._keys, first, last, self._place))
        raise StaleHeadError(expected=expected, actual=known.head, blocks=blocks)

    def _mark(self, head: Head) -> Put:
        """Return the write that names this writer as the one that moved the head."""
        return Put(self._own_key, head_value(head))

    def _is_recorded(self, sent: Head) -> bool:
        """Return whether this writer's append, whose answer was lost, moved the head to ``sent``.

        Raises ``UnsureAppendError`` if the writer's mark cannot be read or does not exist. A writer
        has no mark if it has not appended yet, or if its old mark was removed.
        """
        try:
            rows = self._etcd.get(Get(self._own_key))
        except StoreError as error:
            raise UnsureAppendError(sent, str(error)) from error
        if not rows:
            raise UnsureAppendError(sent, "this program's mark is not in etcd")
        return rows[0].value == head_value(sent)

    def _settled(
        self, sent: Head, sent_at: KnownHead, error: StoreDownError, end_s: float
    ) -> KnownHead:
        """Wait until the append of ``sent`` has succeeded or cannot succeed; return the head.

        Raises ``UnsureAppendError`` if the result is still unknown at ``end_s``. If this program no
        longer leads, the error is raised earlier, so that callers need not wait until ``end_s``.
        """
        while True:
            try:
                known = self.read_head(within_s=SETTLE_S)
                if known.revision != sent_at.revision:
                    return known
                answer = self._etcd.commit(
                    Txn(
                        compare=(ModifiedAt(self._keys.head, sent_at.revision),),
                        then=(Put(self._keys.head, head_value(sent_at.head)),),
                        otherwise=(Get(self._keys.head),),
                    )
                )
            except StoreError as again:
                is_over = self._clock_s() >= end_s or self._is_deposed()
                if not isinstance(again, StoreDownError) or is_over:
                    self._known = None
                    raise UnsureAppendError(sent, str(again)) from error
                continue
            if answer.held:
                self._known = KnownHead(sent_at.head, answer.revision)
            else:
                self._known = self._parsed(answer.rows[0])
            return self._known

    def _is_deposed(self) -> bool:
        return self.fence is not None and self.fence.revision == _NO_REVISION

    def _stage_parts(self, block: Block) -> None:
        """Write the block's body in parts if it is too large for one key.

        The keys of the parts contain the block's hash, so parts of different blocks never mix.
        """
        for number in range(part_count(block)):
            part = block.body[number * INLINE_BYTES_MAX : (number + 1) * INLINE_BYTES_MAX]
            key = self._keys.part(block.height, block.hash, number)
            self._etcd.commit(Txn(compare=(), then=(Put(key, part),)))

    # --- Many blocks ---

    def _stage(self, puts: list[Action], revision: int) -> None:
        """Write blocks above the head, if the head key still has the revision ``revision``."""
        if puts:
            self._held(Txn(compare=self._unmoved(revision), then=tuple(puts)))

    def _unstage(self, head: Head, revision: int) -> None:
        """Remove the blocks staged above ``head``, unless another writer has moved the head.

        If the removal fails, later blocks overwrite these blocks.
        """
        keys, first, end = self._keys, head.height + 1, (1 << 64) - 1
        then = (
            Delete(keys.block(first), keys.block(end)),
            Delete(keys.parts_from(first), keys.parts_from(end)),
        )
        try:
            self._etcd.commit(Txn(compare=self._unmoved(revision), then=then))
        except StoreError as error:
            _LOG.warning("%s: abandoned blocks could not be deleted: %s", self._place, error)

    def _finish(self, head: Head, staged_at: KnownHead) -> None:
        """Move the head to the end of the staged blocks."""
        fence = self.fence
        try:
            moved = self._move_head(head, staged_at.revision, fence, self._mark(head))
            answer = self._etcd.commit(moved)
        except StoreDownError as error:
            known = self._settled(head, staged_at, error, self._clock_s() + APPEND_S)
            if known.head != staged_at.head and self._is_recorded(head):
                return
            raise StoreDownError(f"{error}; nothing was recorded") from error
        if not answer.held:
            raise StaleHeadError(
                expected=staged_at.head, actual=self._moved(answer.rows, fence).head
            )
        self._known = KnownHead(head, answer.revision)

    def _put_head(self, known: KnownHead) -> int:
        """Write the head unchanged; return the new revision of the head key."""
        fence = self.fence
        answer = self._etcd.commit(self._move_head(known.head, known.revision, fence))
        if not answer.held:
            self._moved(answer.rows, fence)
            raise self._came_between()
        return answer.revision

    def _held(self, txn: Txn) -> int:
        """Send ``txn``, and return etcd's revision after it; raises if a comparison was false."""
        answer = self._etcd.commit(txn)
        if not answer.held:
            raise self._came_between()
        return answer.revision

    def _came_between(self) -> StoreError:
        return StoreError(
            f"{self._place}: another writer interfered; nothing was recorded. Try again when no "
            f"other program writes to this ledger"
        )

    def _unmoved(self, revision: int) -> tuple[Comparison, ...]:
        return (ModifiedAt(self._keys.head, revision),)

    def _parsed(self, rows: tuple[Row, ...]) -> KnownHead:
        if not rows:
            raise LedgerNotFoundError(self._place)
        return KnownHead(head_of(rows[0], self._place), rows[0].mod_revision)


def _check_follows(block: Block, head: Head) -> None:
    before = Head(height=block.height - 1, seq=block.first_seq - 1, hash=block.prev_hash)
    if before != head:
        raise StaleHeadError(expected=before, actual=head)
