"""Which process answers each request, and how much CPU time an answer may use.

Reads are answered outside the ledger thread where possible, so that no read blocks the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from quorate.operations.ledger.ledger_operations import ListEvents, WatchEvents
from quorate.operations.ledger.plan_operations import PictureRequest
from quorate.operations.operation import DRY_RUN, Effect, Operation

_AT: Final = "at"
"""The field with a past instant. To answer the request, the ledger is replayed up to this instant.
"""


class Place(StrEnum):
    """Where a request is answered."""

    AT_ONCE = "at-once"
    """In the process that received the request: the answer depends on the caller and the tenants
    alone."""
    PAGE = "page"
    """In a reader process: the answer costs as much as reading one page of the state."""
    QUEUE = "queue"
    """In a reader process: the answer costs as much as planning the queue several times.

    Dry runs are answered here, too.
    """
    LEDGER = "ledger"
    """In a reader process: the cost of the answer grows with the length of the ledger."""
    WRITER = "writer"
    """In the ledger thread: writes, and reads of data that only this thread has."""


CPU_S_MAX: Final[Mapping[Place, float]] = {Place.PAGE: 10, Place.QUEUE: 30, Place.LEDGER: 600}
"""The CPU seconds that a reader process may use for one answer. A request that needs more is
refused."""


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
    """Return whether only the ledger thread can answer ``operation``.

    Without ``asked``, return whether there may be a request that only the ledger thread can answer.
    """
    return (operation.effect is Effect.WRITE and not is_dry_run(asked)) or operation.of_service


def is_for_leader(operation: Operation, asked: Struct) -> bool:
    """Return whether only the leader of several services of one ledger can answer ``asked``."""
    is_order = operation.effect is Effect.WRITE and not is_dry_run(asked)
    return is_order or operation.of_leader


def is_dry_run(asked: Struct | None) -> bool:
    """Return whether ``asked`` is a dry run: a reader can answer it, because it records nothing."""
    return bool(getattr(asked, DRY_RUN, False))


def takes_long(operation: Operation, asked: Struct) -> bool:
    """Return whether the answer to ``asked`` reads, or may read, the whole ledger or queue."""
    if isinstance(asked, ListEvents):
        # A page reads a limited number of events. A search for the last events about a resource
        # reads all events.
        is_chosen = asked.run is not None or asked.about is not None
        return asked.first is None and (is_chosen or asked.limit is None)
    if isinstance(asked, PictureRequest) and not isinstance(asked, WatchEvents):
        # The picture of a run contains its forecast, whose cost grows with the length of the queue.
        return asked.run is not None
    return operation.is_long or getattr(asked, _AT, None) is not None
