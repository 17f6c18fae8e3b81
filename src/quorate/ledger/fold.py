"""Fold: compute the state from the events.

A replay checks the chain while it reads, so no state is ever computed from damaged blocks.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from quorate.ledger.chain import GENESIS, Block, Head, open_blocks
from quorate.ledger.errors import CorruptLedgerError
from quorate.model.events import Event
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State

LONG_EVENTS: Final = 10_000
"""The least number of events for which a replayed state is excluded from garbage collection."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's cyclic garbage collector during a replay.

    The collector would examine the many objects of a replay again and again. A replay makes no
    reference cycles, so the collector would find nothing. Without the collector a replay is more
    than twice as fast.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def fold(events: Iterable[Event]) -> State:
    """Return the state after ``events``, which must begin with the first event of a ledger."""
    state = State()
    apply_all(state, events)
    return state


def replay(
    blocks: Iterable[Block], *, state: State | None = None, after: Head = GENESIS
) -> tuple[State, Head]:
    """Fold ``blocks``, which follow the head ``after``, into ``state``; return state and head.

    The first block that is damaged, or that only a newer Quorate can read, raises
    ``CorruptLedgerError`` or ``NewerLedgerError``.
    """
    state = State() if state is None else state
    head = after
    with collector_paused():
        for head, events in open_blocks(blocks, after=after, not_before_ms=state.at_ms):
            _apply_block(state, events, head)
        if head.seq >= LONG_EVENTS:
            # The state stays in memory, so the garbage collector need not examine it each time.
            gc.freeze()
    return state, head


def _apply_block(state: State, events: Sequence[Event], head: Head) -> None:
    """Fold the events of one block; raise an error if they contradict the state.

    Hashes prove that the bytes did not change after they were written. They do not prove that the
    events are possible: in a ledger that was made by hand, an event may free slots that were never
    taken.
    """
    try:
        apply_all(state, events)
    except (AssertionError, KeyError, IndexError, ValueError) as error:
        what = f"an event cannot have happened: {type(error).__name__} {error}"
        raise CorruptLedgerError(what, height=head.height, seq=state.seq + 1) from error


def replay_until(blocks: Iterable[Block], *, at_ms: int) -> tuple[State, Head]:
    """Return the state at ``at_ms``, after all events that were recorded up to that instant.

    The returned head is the head after the block with the last of these events.
    """
    state, last = State(), GENESIS
    for head, events in open_blocks(blocks):
        due = [event for event in events if event.at_ms <= at_ms]
        _apply_block(state, due, head)
        last = head if due else last
        if len(due) < len(events):
            break
    return state, last
