"""A place in the ledger from which a follower reads on: a cursor, which is a sequence.

Nothing is queued for a follower. The cursor alone is its position, so another process can resume it
later, after any pause: no event is left out and none is repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from quorate.model.state.state_view import StateView
from quorate.operations.recent_blocks import Page, Recent
from quorate.operations.request_context import RequestContext
from quorate.views.exits import CommandError, Exit


class Shown(NamedTuple):
    """One event or notice as a watcher gets it.

    ``seen`` are the owners whose names are in it where others' are not: only a watcher that sees
    the same owners gets the same ``tree``. None where nothing was redacted: then every watcher that
    may see it gets this tree, so it must not be changed. Unless ``is_common`` it is for one watcher
    alone, such as lines of output, which are cut for each one.
    """

    seq: int
    tree: dict[str, Any]
    seen: frozenset[str] | None = None
    is_common: bool = True


class Cursor:
    """``seq`` is the sequence of the last event that was read.

    ``view`` returns the state, which must be at least as new as the blocks that are read.
    """

    def __init__(self, recent: Recent, view: Callable[[], StateView], seq: int) -> None:
        self._recent = recent
        self.view = view
        self.seq = seq
        # The position of the next event; found on the first reading.
        self._height = 0

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read at once; otherwise wait until something is recorded."""
        return self.seq < self.end()

    def end(self) -> int:
        """Return how far can be read: visibility needs a state that has the events."""
        return min(self._recent.head().seq, self.view().seq)

    def page(self) -> Page:
        """Return the block that holds the next event, which must exist."""
        if self._height == 0:
            self._height = self._recent.height_of(self.seq + 1)
        page = self._recent.page(self._height)
        if page.head.seq <= self.seq:
            self._height += 1
            page = self._recent.page(self._height)
        return page


def cursor_at(context: RequestContext, first: int | None) -> Cursor:
    """Return the place before event ``first``, or the end of the ledger.

    Raises ``CommandError`` when the ledger is not that long.
    """
    end = context.engine.head.seq
    if first is not None and first > end + 1:
        raise CommandError(
            Exit.REFUSED,
            f"from: the ledger ends at sequence {end}, so {first} is not next; "
            f"ask from {end + 1} at most, or without it for what is recorded from now on",
            fault="stale-cursor",
        )
    recent = Recent(context.store) if context.recent is None else context.recent
    engine = context.engine
    return Cursor(recent, lambda: engine.view, end if first is None else first - 1)
