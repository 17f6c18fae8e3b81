"""Appends to a ledger in etcd: one transaction, which compares the revision of the head.

The head's key is put with every block, so its revision is new each time, and a writer that compares
an older one is refused. With a leader the transaction compares the leader's key, too: one that was
deposed cannot append, whatever it believes. One that is refused returns the head and the first
blocks that others have appended, so that a writer who is a few blocks behind asks for nothing more.

An answer may be lost when etcd's leader changes, or a deadline passes. The transaction may then
have been carried out, or may be carried out a moment later. It is never sent again blindly: the
head is read, and where it has not moved it is put again with the same value. From then on the
transaction that is lost compares an old revision, so that nothing can come of it any more.

Where the head has moved, a key that only this writer puts, with each of its blocks, says whether it
was its own append. The log does not say it: of two writers who decide the same at one head, at the
same instant of their clocks, both have made the same block, and only one of them has appended it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
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
from quorate.adapters.stores.etcd_records import (
    INLINE_BYTES_MAX,
    EtcdKeys,
    block_value,
    head_of,
    head_value,
    part_count,
    whole_blocks,
)
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
"""How long an append is tried, when answers of etcd are lost."""
REFUSED_BLOCKS_MAX: Final = 4
"""How many blocks of others come with a refusal; the rest is read as a follower reads."""
SETTLE_S: Final = 2.0
"""How long one look waits for what became of an append."""
STAGED_BLOCKS_MAX: Final = 64
"""How many blocks are staged by one transaction: etcd takes 128 operations by default."""


_NO_REVISION: Final = -1
"""The revision of no key: nothing passes a fence with it."""


@dataclass(frozen=True, slots=True)
class KnownHead:
    """The head of a log, and the revision of its key."""

    head: Head
    revision: int


@dataclass(frozen=True, slots=True)
class Fence:
    """The leader's key as the leader made it: it is there while the leader's lease lasts."""

    key: bytes
    revision: int


def fence_of(key: bytes, standing: Standing) -> Fence:
    """Return the fence of one with ``standing``; of a follower, one that nothing passes."""
    return Fence(key, standing.revision if isinstance(standing, Leading) else _NO_REVISION)


class EtcdAppender:
    """Moves the head of one log; for one thread."""

    def __init__(
        self,
        etcd: KeyValues,
        keys: EtcdKeys,
        place: str,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._etcd = etcd
        self._keys = keys
        self._place = place
        self._own_key = keys.writer(uuid4().hex)
        self._clock_s = clock_s
        self._known: KnownHead | None = None
        self.fence: Fence | None = None

    def create(self) -> None:
        """Make the log, with nothing in it; raises ``LedgerExistsError``."""
        key = self._keys.head
        # A read finds a member that answers; a transaction is sent to one member, once.
        if self._etcd.get(Get(key)):
            raise LedgerExistsError(self._place)
        made = self._etcd.commit(
            Txn(compare=(ModifiedAt(key, 0),), then=(Put(key, head_value(GENESIS)),))
        )
        if not made.held:
            raise LedgerExistsError(self._place)

    def read_head(self, *, within_s: float | None = None) -> KnownHead:
        """Return where the log ends now; raises ``LedgerNotFoundError`` where there is none."""
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
                return
            known, after = self._moved(answer.rows, fence), answer.rows[-1]

    def append_all(self, blocks: Iterable[Block]) -> Head:
        """Append ``blocks``, which need not fit into a transaction; see ``EventStore``.

        They are staged above the head, and count when the head is moved at the end. The first
        transaction puts the head as it is, so that two who stage at once cannot mix their blocks.
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

    # --- One block ---

    def _txn(self, block: Block, revision: int, fence: Fence | None) -> Txn:
        """Return the transaction that appends ``block``; the last of ``otherwise`` is in its place.

        Blocks above the head, which another writer has staged, may be among what that returns.
        """
        first = self._keys.block(block.height)
        puts = (Put(first, block_value(block)), self._mark(block.head))
        moved = self._move_head(block.head, revision, fence, *puts)
        end = self._keys.block(block.height + REFUSED_BLOCKS_MAX)
        return replace(moved, otherwise=(*moved.otherwise, Get(first, end)))

    def _move_head(self, head: Head, revision: int, fence: Fence | None, *puts: Put) -> Txn:
        """Return the transaction that moves the head, if it and the leader are as they were."""
        key = self._keys.head
        fenced = () if fence is None else (CreatedAt(fence.key, fence.revision),)
        return Txn(
            compare=(ModifiedAt(key, revision), *fenced),
            then=(*puts, Put(key, head_value(head))),
            otherwise=(Get(key), *(Get(each.key) for each in fenced)),
        )

    def _moved(self, rows: tuple[tuple[Row, ...], ...], fence: Fence | None) -> KnownHead:
        """Return the head that a refused append found; raises ``NotLeaderError`` if deposed."""
        if fence is not None:
            leaders = rows[1]
            if not leaders or leaders[0].create_revision != fence.revision:
                raise NotLeaderError(
                    f"{self._place}: another program leads now, or this one's lease has run out; "
                    "nothing was recorded. Send the request to the leader"
                )
        self._known = self._parsed(rows[0])
        return self._known

    def _check_at(self, expected: Head, known: KnownHead, after: tuple[Row, ...] = ()) -> None:
        """Raise ``StaleHeadError`` unless the log ends at ``expected``.

        ``after`` are rows from the block after that on, read together with ``known``.
        """
        if known.head == expected:
            return
        first, last = expected.height + 1, known.head.height
        blocks = tuple(whole_blocks(after, self._keys, first, last, self._place))
        raise StaleHeadError(expected=expected, actual=known.head, blocks=blocks)

    def _mark(self, head: Head) -> Put:
        """Return what notes, together with the head, that this writer has moved it."""
        return Put(self._own_key, head_value(head))

    def _is_recorded(self, sent: Head) -> bool:
        """Return whether this writer has moved the head to ``sent``, whose answer was lost.

        Raises ``UnsureAppendError`` when its mark cannot be read, or there is none: it has not
        appended anything yet, or the mark was removed as an old one.
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
        """Return the head once the transaction to ``sent`` is done or can no longer be done.

        Raises ``UnsureAppendError`` when that cannot be found out in time, or for as long as this
        program leads: its callers need not wait longer.
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
        """Put the parts of a body that is too large; their keys name the block by its hash."""
        for number in range(part_count(block)):
            part = block.body[number * INLINE_BYTES_MAX : (number + 1) * INLINE_BYTES_MAX]
            key = self._keys.part(block.height, block.hash, number)
            self._etcd.commit(Txn(compare=(), then=(Put(key, part),)))

    # --- Many blocks ---

    def _stage(self, puts: list[Action], revision: int) -> None:
        """Put blocks above the head, whose revision must be the one that this program made."""
        if puts:
            self._held(Txn(compare=self._unmoved(revision), then=tuple(puts)))

    def _unstage(self, head: Head, revision: int) -> None:
        """Remove what was staged above ``head``, unless another writer has moved the head.

        What is left where that fails is overwritten by later blocks.
        """
        keys, first, end = self._keys, head.height + 1, (1 << 64) - 1
        then = (
            Delete(keys.block(first), keys.block(end)),
            Delete(keys.parts_from(first), keys.parts_from(end)),
        )
        try:
            self._etcd.commit(Txn(compare=self._unmoved(revision), then=then))
        except StoreError as error:
            _LOG.warning("%s: blocks that were given up are left there: %s", self._place, error)

    def _finish(self, head: Head, staged_at: KnownHead) -> None:
        """Move the head to the end of what was staged."""
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
        """Put the head as it is; return its new revision."""
        fence = self.fence
        answer = self._etcd.commit(self._move_head(known.head, known.revision, fence))
        if not answer.held:
            self._moved(answer.rows, fence)
            raise self._came_between()
        return answer.revision

    def _held(self, txn: Txn) -> int:
        """Return etcd's revision after ``txn``; raises when its comparisons did not hold."""
        answer = self._etcd.commit(txn)
        if not answer.held:
            raise self._came_between()
        return answer.revision

    def _came_between(self) -> StoreError:
        return StoreError(
            f"{self._place}: another writer came between; nothing was recorded. Try again when "
            "nothing else writes to this ledger"
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
