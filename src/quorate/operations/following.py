"""Following a ledger: a cursor, which is a sequence, and reading on from there.

Nothing waits anywhere for whoever follows. The cursor alone says where they are, so it can be taken
up again later, by another process, after any pause: no event is left out and none is told twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from quorate.answers.exits import CommandError, Exit
from quorate.ledger.codec import event_to_json
from quorate.model.view import StateView
from quorate.operations.answering import check_role
from quorate.operations.asked_ledger import WatchEvents
from quorate.operations.caller import Caller
from quorate.operations.desk import Desk
from quorate.operations.operation import Effect, Operation
from quorate.operations.recent import Page, Recent
from quorate.operations.visible_events import Sight
from quorate.operations.watching import Watched, watched_of

LOOKED_AT_MAX: Final = 10_000
"""How many events are looked at for one reading, so that hidden ones cannot hold up the others."""


class Follower:
    """Reads on from ``cursor``, the sequence of the last event that was looked at.

    ``view`` returns the state, which must be at least as new as the blocks that are read.
    """

    def __init__(
        self,
        recent: Recent,
        view: Callable[[], StateView],
        caller: Caller,
        watched: Watched,
        cursor: int,
    ) -> None:
        self._recent = recent
        self._view = view
        self._caller = caller
        self._watched = watched
        self.cursor = cursor
        # Where the next event is or will be; found on the first reading.
        self._height = 0

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read at once; otherwise wait until something is recorded."""
        return self.cursor < self._end()

    def read(self, limit: int) -> list[tuple[int, dict[str, Any]]]:
        """Return the next events that are theirs to see, with their sequences, ``limit`` at most.

        An empty list does not mean the end, which ``is_behind`` tells: what is hidden moves the
        cursor, too. All share what is returned, so it is not to be changed.
        """
        assert limit > 0, limit
        found: list[tuple[int, dict[str, Any]]] = []
        view = self._view()
        sight = Sight(view, self._caller)
        last = min(self._end(), self.cursor + LOOKED_AT_MAX)
        while self.cursor < last and len(found) < limit:
            page = self._page()
            for seq in range(self.cursor + 1, min(page.head.seq, last) + 1):
                event = page.events[seq - page.first_seq]
                self.cursor = seq
                if sight.sees(event) and self._watched.concerns(event, view):
                    told = sight.told(event)
                    # What everybody may be told is made once, and shared.
                    tree = page.told(seq) if told is event else event_to_json(seq, told)
                    found.append((seq, tree))
                    if len(found) == limit:
                        break
        return found

    def _end(self) -> int:
        """Return how far can be read: what the state does not know yet cannot be judged."""
        return min(self._recent.head().seq, self._view().seq)

    def _page(self) -> Page:
        """Return the block that holds the next event, which is there."""
        if self._height == 0:
            self._height = self._recent.height_of(self.cursor + 1)
        page = self._recent.page(self._height)
        if page.head.seq <= self.cursor:
            self._height += 1
            page = self._recent.page(self._height)
        return page


def follow(desk: Desk, operation: Operation, asked: Struct) -> Follower:
    """Return what reads on for somebody who watches; raises ``CommandError`` when it is refused."""
    assert operation.effect is Effect.STREAM, operation
    check_role(desk.caller, operation)
    found = operation.handle()(desk, asked, operation)
    assert isinstance(found, Follower), operation
    return found


def watch_events(desk: Desk, asked: WatchEvents, operation: Operation) -> Follower:
    """Return what reads on from the event that was asked for, or from now on."""
    del operation
    watched = watched_of(asked)
    watched.check(desk.recorded, desk.caller)
    end = desk.engine.head.seq
    if asked.first is not None and asked.first > end + 1:
        raise CommandError(
            Exit.REFUSED,
            f"from: the ledger ends at sequence {end}, so {asked.first} is not next; "
            f"ask from {end + 1} at most, or without it for what is recorded from now on",
            fault="stale-cursor",
        )
    cursor = end if asked.first is None else asked.first - 1
    recent = Recent(desk.store) if desk.recent is None else desk.recent
    engine = desk.engine
    return Follower(recent, lambda: engine.view, desk.caller, watched, cursor)
