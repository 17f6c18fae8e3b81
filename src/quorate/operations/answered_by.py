"""Where each question is answered, and how much work it may take: none holds up the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from quorate.operations.ledger.ledger_operations import ListEvents, WatchEvents
from quorate.operations.ledger.plan_operations import PictureRequest
from quorate.operations.operation import DRY_RUN, Effect, Operation

_AT: Final = "at"
"""The field that asks for a past state, for which the ledger is folded again."""


class Place(StrEnum):
    """Where a request is answered."""

    AT_ONCE = "at-once"
    """Where it came in: it rests on the caller and the tenants alone."""
    PAGE = "page"
    """By a reader: it takes as long as a page of the state."""
    QUEUE = "queue"
    """By a reader: it takes as long as planning the queue, several times over; dry runs, too."""
    LEDGER = "ledger"
    """By a reader: its cost grows with the length of the ledger."""
    WRITER = "writer"
    """By the thread that owns the ledger: what is recorded, and what only that thread knows."""


CPU_S_MAX: Final[Mapping[Place, float]] = {Place.PAGE: 10, Place.QUEUE: 30, Place.LEDGER: 600}
"""How many seconds of CPU a reader may take for one answer; then the caller is refused."""


def place_of(operation: Operation, asked: Struct) -> Place:
    """Return where ``asked`` is answered."""
    if operation.of_caller:
        return Place.AT_ONCE
    if operation.of_service or operation.effect is Effect.STREAM:
        return Place.WRITER
    if operation.effect is Effect.WRITE:
        return Place.QUEUE if is_dry_run(asked) else Place.WRITER
    if not takes_long(operation, asked):
        return Place.PAGE
    is_past = getattr(asked, _AT, None) is not None
    return Place.QUEUE if operation.of_queue and not is_past else Place.LEDGER


def is_for_writer(operation: Operation, asked: Struct | None = None) -> bool:
    """Return whether the thread that owns the ledger answers ``operation``, and nothing else.

    Before it is known what is ``asked``, whatever may be for that thread is taken to be.
    """
    return (operation.effect is Effect.WRITE and not is_dry_run(asked)) or operation.of_service


def is_for_leader(operation: Operation, asked: Struct) -> bool:
    """Return whether only the leader answers ``asked``, where several serve one ledger."""
    is_order = operation.effect is Effect.WRITE and not is_dry_run(asked)
    return is_order or operation.of_leader


def is_dry_run(asked: Struct | None) -> bool:
    """Return whether what is ``asked`` is only to be tried: a reader can, and records nothing."""
    return bool(getattr(asked, DRY_RUN, False))


def takes_long(operation: Operation, asked: Struct) -> bool:
    """Return whether the answer to ``asked`` reads the whole ledger or queue, or may do so."""
    if isinstance(asked, ListEvents):
        # A page reads a bounded number of events; a search for the last events about something
        # reads all.
        is_chosen = asked.run is not None or asked.about is not None
        return asked.first is None and (is_chosen or asked.limit is None)
    if isinstance(asked, PictureRequest) and not isinstance(asked, WatchEvents):
        # The picture of a run has its forecast, which takes time with the length of the queue.
        return asked.run is not None
    return operation.is_long or getattr(asked, _AT, None) is not None
