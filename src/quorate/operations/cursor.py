"""A cursor: the number of the last event that a follower of the ledger has read.

No events are queued for a follower. The cursor is all that a follower remembers. So after any
pause, even another process can continue from the cursor, and no event is lost or repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from quorate.model.state.state_view import StateView
from quorate.operations.recent_blocks import Page, Recent
from quorate.operations.request_context import RequestContext
from quorate.views.exits import CommandError, Exit


class Shown(NamedTuple):
    """One event or notice as a watcher receives it.

    If names were removed from ``tree``, ``seen`` has the owners whose names are shown, and only
    watchers that see exactly these owners get this ``tree``. If no names were removed, ``seen`` is
    None, and all watchers share ``tree``, so it must not be changed. If ``is_common`` is false, the
    item is for one watcher only: for example, a part of a run's output that begins at the line
    where this watcher continues.
    """

    seq: int
    tree: dict[str, Any]
    seen: frozenset[str] | None = None
    is_common: bool = True


class Cursor:
    """The position of a follower: ``seq`` is the number of the last event that it read.

    ``view`` returns the state, which must be at least as new as the blocks that are read.
    """

    def __init__(self, recent: Recent, view: Callable[[], StateView], seq: int) -> None:
        self._recent = recent
        self.view = view
        self.seq = seq
        # The height of the block with the next event; the first read finds it.
        self._height = 0

    @property
    def is_behind(self) -> bool:
        """Whether more events can be read now; if not, wait for the next commit."""
        return self.seq < self.end()

    def end(self) -> int:
        """Return the number of the last event that can be read now.

        An event can be read only if the state includes it, because the state tells which names to
        hide.
        """
        return min(self._recent.head().seq, self.view().seq)

    def page(self) -> Page:
        """Return the block that has the next event. This event must exist."""
        if self._height == 0:
            self._height = self._recent.height_of(self.seq + 1)
        page = self._recent.page(self._height)
        if page.head.seq <= self.seq:
            self._height += 1
            page = self._recent.page(self._height)
        return page


def cursor_at(context: RequestContext, first: int | None) -> Cursor:
    """Return the cursor directly before event ``first``; without ``first``, at the ledger's end.

    Raises ``CommandError`` if the ledger ends before event ``first`` - 1.
    """
    end = context.engine.head.seq
    if first is not None and first > end + 1:
        raise CommandError(
            Exit.REFUSED,
            f"from: the ledger ends at sequence {end}, so there is no event {first} yet; use "
            f"{end + 1} or less, or leave from out to begin with the next event",
            fault="stale-cursor",
        )
    recent = Recent(context.store) if context.recent is None else context.recent
    engine = context.engine
    return Cursor(recent, lambda: engine.view, end if first is None else first - 1)
