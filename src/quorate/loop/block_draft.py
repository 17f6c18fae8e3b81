"""The block that an engine is making: decisions in order, and the state after these decisions.

The state after the decisions is an overlay if the engine's state must not change before the block
is in the store. Otherwise the state after the decisions is the engine's own state. Events are
always applied before they are recorded, so that no block has an event that cannot be applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quorate.core.commands import Decision
from quorate.ledger.chain import Head
from quorate.ledger.codec import encode_events
from quorate.loop.commit_types import Receipt
from quorate.model.events import Event
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.ports.errors import BlockTooLargeError

GROUP_BYTES_MAX: Final = 1_000_000
"""How many bytes of events a block of several commands may have.

etcd, as a store of the ledger, accepts a request of this size.
"""


class BlockDraft:
    """Decisions that begin at ``state``; ``ahead`` is the state after these decisions.

    The events of several commands may have up to ``group_bytes_max`` bytes. The events of one
    command alone may have up to ``block_bytes_max`` bytes.
    """

    __slots__ = (
        "_block_bytes_max",
        "_group_bytes_max",
        "_size",
        "_state",
        "ahead",
        "decided",
        "encoded",
        "events",
    )

    def __init__(self, state: State, group_bytes_max: int, block_bytes_max: int) -> None:
        self._state = self.ahead = state
        self._group_bytes_max, self._block_bytes_max = group_bytes_max, block_bytes_max
        self._size = 0
        self.events: list[Event] = []
        self.encoded = b""
        """The block's events as bytes if all of them are from one decision, else empty."""
        self.decided: list[tuple[Decision, int, Exception | None]] = []

    def deny(self, error: Exception) -> None:
        """Add a command that is forbidden, with the ``error`` that forbids it."""
        self.decided.append((Decision(), self.ahead.seq + 1, error))

    def room_for(self, events: Sequence[Event]) -> bytes | None:
        """Return ``events`` as bytes; None if the block has no room for them.

        Raises ``BlockTooLargeError`` if the events do not fit even into an empty block.
        """
        encoded = encode_events(events) if events else b""
        size = len(encoded)
        if self.events:
            return encoded if self._size + size <= self._group_bytes_max else None
        if size > self._block_bytes_max:
            raise BlockTooLargeError(events=len(events), size=size, size_max=self._block_bytes_max)
        return encoded

    def add(self, decision: Decision, encoded: bytes, *, is_apart: bool) -> None:
        """Add ``decision``, whose events ``room_for`` has returned as ``encoded``.

        If ``is_apart`` is true, the events change only an overlay. Otherwise they change the
        engine's own state.
        """
        self.decided.append((decision, self.ahead.seq + 1, None))
        if not decision.events:
            return
        if is_apart and self.ahead is self._state:
            self.ahead = self._state.overlay()
        apply_all(self.ahead, decision.events)
        self.encoded = b"" if self.events else encoded
        self.events.extend(decision.events)
        self._size += len(encoded)

    def receipts(self, head: Head) -> list[Receipt]:
        """Return the receipts of all commands, recorded at ``head``."""
        return [Receipt(decision, head, first, denied) for decision, first, denied in self.decided]
