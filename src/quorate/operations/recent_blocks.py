"""The last decoded blocks of a ledger, which all followers of the ledger share.

No events are queued for followers: a follower that is late reads the store again (docs/adr/0019).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from quorate.ledger.chain import Block, Head, open_block
from quorate.ledger.codec import event_to_json
from quorate.model.events import Event
from quorate.model.state.state_view import StateView
from quorate.ports.errors import CorruptLedgerError
from quorate.ports.store_port import EventStore
from quorate.views.notices.notice import KnownView, Notice
from quorate.views.notices.notice_feed import notices_of

RECENT_EVENTS_MAX: Final = 20_000
"""The most events that are kept decoded. Whole blocks are kept, and the newest block is always
kept."""


class Page:
    """One decoded block. The tree of an event is made when it is first needed, and kept."""

    __slots__ = ("_notices", "_told", "events", "first_seq", "head")

    def __init__(self, block: Block) -> None:
        # This checks the hash of the block. Its link to the previous block was checked when the
        # ledger was opened.
        before = Head(height=block.height - 1, seq=block.first_seq - 1, hash=block.prev_hash)
        self.events: Sequence[Event] = open_block(block, after=before)
        self.first_seq = block.first_seq
        self.head = block.head
        self._told: list[dict[str, Any] | None] = [None] * block.count
        self._notices: list[Notice] | None = None

    def told(self, seq: int) -> dict[str, Any]:
        """Return the tree of event ``seq`` for programs. It is shared and must not be changed."""
        index = seq - self.first_seq
        found = self._told[index]
        if found is None:
            found = self._told[index] = event_to_json(seq, self.events[index])
        return found

    def notices(self, view: StateView) -> Sequence[Notice]:
        """Return the notices of the block, which all callers share.

        The state ``view`` must include the block's events.
        """
        if self._notices is None:
            self._notices = notices_of(self.first_seq, self.events, KnownView(view))
        return self._notices


class Recent:
    """The decoded blocks of one ledger, by height. Not thread-safe."""

    def __init__(self, store: EventStore, events_max: int = RECENT_EVENTS_MAX) -> None:
        self._store = store
        self._events_max = events_max
        self._events = 0
        self._pages: OrderedDict[int, Page] = OrderedDict()
        self._ahead: Iterator[Block] = iter(())
        self._ahead_height = 0

    def head(self) -> Head:
        """Return the end of the ledger."""
        return self._store.head()

    def page(self, height: int) -> Page:
        """Return the block at ``height``, which must exist."""
        found = self._pages.get(height)
        if found is not None:
            self._pages.move_to_end(height)
            return found
        found = Page(self._block(height))
        self._keep(height, found)
        return found

    def height_of(self, seq: int) -> int:
        """Return the height of the block that has the event ``seq``, which must exist.

        The block is found by bisection, without decoding blocks.
        """
        low, high = 1, self.head().height
        while low < high:
            middle = (low + high + 1) // 2
            if self._block(middle).first_seq <= seq:
                low = middle
            else:
                high = middle - 1
        return low

    def _block(self, height: int) -> Block:
        # A store reads several blocks at a time. A reader that continues uses the blocks that were
        # read ahead.
        block = next(self._ahead, None) if height == self._ahead_height else None
        if block is None:
            self._ahead = self._store.blocks(from_height=height)
            block = next(self._ahead, None)
        self._ahead_height = height + 1
        if block is None or block.height != height:
            raise CorruptLedgerError("the block is missing", height=height)
        return block

    def _keep(self, height: int, page: Page) -> None:
        self._pages[height] = page
        self._events += len(page.events)
        while self._events > self._events_max and len(self._pages) > 1:
            _, gone = self._pages.popitem(last=False)
            self._events -= len(gone.events)
