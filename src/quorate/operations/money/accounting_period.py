"""The input of usage and statements: a ledger's events up to an instant, and the state then.

As for every read, holds that have run out are settled first, even if no event records it yet. So
amounts are exact to the millisecond.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, islice

from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.settle import settle_holds
from quorate.documents.times import time_text
from quorate.ledger.fold import replay_until
from quorate.model.events import Event
from quorate.model.state.state_view import StateView
from quorate.operations.request_context import RequestContext
from quorate.ports.store_port import EventStore
from quorate.views.exits import CommandError, Exit
from quorate.views.runs.event_text import entries


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """``events`` has the events before ``end_ms``, and ``view`` the state after these events.

    ``events`` can be read only once. If ``end_ms`` is the present, events at ``end_ms`` itself are
    included.
    """

    view: StateView
    end_ms: int
    events: Iterable[Event]


def accounts(context: RequestContext, *, end_ms: int | None = None) -> Accounts:
    """Return the accounts as of ``end_ms``; if that is None or in the future, as of now.

    For accounts as of now, a note is added to the context if the money of a run has ended and no
    event records it yet. The cost grows with the length of the ledger.
    """
    now_ms = context.now_ms
    if end_ms is None or end_ms > now_ms:
        _ = context.moment  # This adds the note.
        return _settled(context.store, context.recorded, now_ms=now_ms, end_ms=now_ms)
    state, _ = replay_until(context.store.blocks(), at_ms=end_ms - 1)
    if state.seq == 0:
        raise CommandError(
            Exit.REFUSED,
            f"the ledger had not begun before {time_text(end_ms)}; ask for a later time",
            fault="invalid",
        )
    return _settled(context.store, state, now_ms=end_ms - 1, end_ms=end_ms)


def _settled(store: EventStore, recorded: StateView, *, now_ms: int, end_ms: int) -> Accounts:
    log = DecisionLog(recorded, now_ms=now_ms, actor="reader")
    settle_holds(log)
    # Another process may have appended to the ledger after it was read.
    known = (entry.event for entry in islice(entries(store.blocks()), recorded.seq))
    return Accounts(view=log.view, end_ms=end_ms, events=chain(known, log.events))
