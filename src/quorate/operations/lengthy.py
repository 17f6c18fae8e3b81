"""Which questions take as long as the ledger or the queue is: nobody should wait behind one."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from quorate.operations.asked_ledger import ListEvents, Picture, WatchEvents
from quorate.operations.operation import Operation

_AT: Final = "at"
"""The field that asks how something stood, for which the ledger is folded again."""


def takes_long(operation: Operation, asked: Struct) -> bool:
    """Return whether answering what is ``asked`` reads the whole ledger or queue, or may do."""
    if isinstance(asked, ListEvents) and asked.first is not None:
        # A page from a sequence on costs what is on it, unless most events are passed over.
        return asked.run is not None or asked.about is not None
    if isinstance(asked, Picture) and not isinstance(asked, WatchEvents):
        # That of a run is its forecast, as long as the queue is.
        return asked.run is not None
    return operation.is_long or getattr(asked, _AT, None) is not None
