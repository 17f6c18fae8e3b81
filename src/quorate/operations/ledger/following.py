"""Follows a ledger: reads the events that a caller may see, from a cursor on."""

from __future__ import annotations

from typing import Final

from quorate.ledger.codec import event_to_json
from quorate.operations.caller import Caller
from quorate.operations.cursor import Cursor, Shown, cursor_at
from quorate.operations.ledger.ledger_operations import WatchEvents
from quorate.operations.ledger.watch_handlers import Watched, watched_of
from quorate.operations.operation import Operation
from quorate.operations.request_context import RequestContext
from quorate.operations.visible_events import Sight

LOOKED_AT_MAX: Final = 10_000
"""The most events that one read examines. Without this limit, a read that skips many hidden events
would delay other callers."""


class Follower:
    """Reads events for ``caller``, from a cursor on."""

    def __init__(self, place: Cursor, caller: Caller, watched: Watched) -> None:
        self._place = place
        self._caller = caller
        self._watched = watched

    @property
    def cursor(self) -> int:
        """The sequence number of the last event that was read."""
        return self._place.seq

    @property
    def is_behind(self) -> bool:
        """Whether more events can be read now; if not, wait for the next commit."""
        return self._place.is_behind

    def read(self, limit: int) -> list[Shown]:
        """Return the next events that the caller may see, at most ``limit``.

        The list may be empty before the end of the ledger is reached, because a read may find only
        hidden events. ``is_behind`` says whether there is more to read.
        """
        assert limit > 0, limit
        found: list[Shown] = []
        place, view = self._place, self._place.view()
        sight = Sight(view, self._caller)
        last = min(place.end(), place.seq + LOOKED_AT_MAX)
        while place.seq < last and len(found) < limit:
            page = place.page()
            for seq in range(place.seq + 1, min(page.head.seq, last) + 1):
                event = page.events[seq - page.first_seq]
                place.seq = seq
                if sight.sees(event) and self._watched.concerns(event, view):
                    told = sight.told(event)
                    # A tree from which no names are removed is made only once, and all watchers
                    # share it.
                    found.append(
                        Shown(seq, page.told(seq))
                        if told is event
                        else Shown(seq, event_to_json(seq, told), sight.redaction.seen)
                    )
                    if len(found) == limit:
                        break
        return found


def watch_events(context: RequestContext, asked: WatchEvents, operation: Operation) -> Follower:
    """Return a follower that begins with the requested event, or with the next event."""
    del operation
    watched = watched_of(asked)
    watched.check(context.recorded, context.caller)
    return Follower(cursor_at(context, asked.first), context.caller, watched)
