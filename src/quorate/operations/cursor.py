"""A cursor: the sequence in the ledger after which a follower reads on.

Nothing is queued for a follower. The cursor is the follower's whole state, so another process can
resume from it after any pause, without losing or repeating an event.
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

    If names were redacted, ``seen`` are the owners whose names are shown, and only watchers that
    see the same owners get this ``tree``. If nothing was redacted, ``seen`` is None and all
    watchers share the tree, so it must not be changed. If ``is_common`` is false, the item is for
    one watcher only, such as a part of a run's output that begins where this watcher reads on.
    """

    seq: int
    tree: dict[str, Any]
    seen: frozenset[str] | None = None
    is_common: bool = True


class Cursor:
    """The position of a follower: ``seq`` is the sequence of the last event that it read.

    ``view`` returns the state, which must be at least as new as the blocks that are read.
    """

    def __init__(self, recent: Recent, view: Callable[[], StateView], seq: int) -> None:
        self._recent = recent
        self.view = view
        self.seq = seq
        # The position of the next event, found by the first read.
        self._height = 0

    @property
    def is_behind(self) -> bool:
        """Whether more events can be read now; if not, wait for the next commit."""
        return self.seq < self.end()

    def end(self) -> int:
        """Return the last sequence that can be read: redaction needs the state after the event."""
        return min(self._recent.head().seq, self.view().seq)

    def page(self) -> Page:
        """Return the block that has the next event, which must exist."""
        if self._height == 0:
            self._height = self._recent.height_of(self.seq + 1)
        page = self._recent.page(self._height)
        if page.head.seq <= self.seq:
            self._height += 1
            page = self._recent.page(self._height)
        return page


def cursor_at(context: RequestContext, first: int | None) -> Cursor:
    """Return the cursor before event ``first``, or at the end of the ledger.

    Raises ``CommandError`` if the ledger is shorter.
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
