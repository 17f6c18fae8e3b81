"""A ledger's events up to an instant, with the state they add up to: what accounts are made from.

Holds that time has run out of and that nobody has recorded yet are settled first, as every reader
does, so that amounts are right to the millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice

from quorate.answers.exits import CommandError, Exit
from quorate.answers.timeline import entries
from quorate.cli.session import as_of, clock_of, open_to_read
from quorate.cli.settings import Settings
from quorate.core.scribe import Scribe
from quorate.core.settle import settle_holds
from quorate.documents.times import time_text
from quorate.ledger.fold import replay_until
from quorate.loop.engine import Engine
from quorate.model.events import Event
from quorate.model.view import StateView
from quorate.ports.store import EventStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """``events`` can be gone through once, and ``view`` is what they add up to, up to ``end_ms``.

    An event at ``end_ms`` itself is among them only where that is now.
    """

    view: StateView
    end_ms: int
    events: Iterable[Event]


@contextmanager
def accounts(
    settings: Settings, *, end_at: Callable[[int], int | None] = lambda _: None
) -> Iterator[Accounts]:
    """Open the ledger for reading as of now or, where that is earlier, of what ``end_at`` says.

    It is told what time it is now. Stderr says what is shown as of now and not yet recorded.
    """
    with open_to_read(settings) as store:
        engine = Engine.open(store, clock_of(settings))
        now_ms = engine.now_ms()
        end_ms = end_at(now_ms)
        if end_ms is None or end_ms > now_ms:
            as_of(engine.view, now_ms, notify=True)
            yield _settled(store, engine.view, now_ms=now_ms, end_ms=now_ms)
            return
        state, _ = replay_until(store.blocks(), at_ms=end_ms - 1)
        if state.seq == 0:
            raise CommandError(
                Exit.REFUSED,
                f"the ledger had not begun before {time_text(end_ms)}; ask for a later time",
            )
        yield _settled(store, state, now_ms=end_ms - 1, end_ms=end_ms)


def _settled(store: EventStore, recorded: StateView, *, now_ms: int, end_ms: int) -> Accounts:
    scribe = Scribe(recorded, now_ms=now_ms, actor="reader")
    settle_holds(scribe)
    # Another process may have added to the ledger since it was read.
    known = (entry.event for entry in islice(entries(store.blocks()), recorded.seq))
    return Accounts(view=scribe.view, end_ms=end_ms, events=chain(known, scribe.events))
