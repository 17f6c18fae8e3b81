"""Checks that an outbox belongs to the ledger beside it (docs/adr/0021)."""

from __future__ import annotations

from typing import Final

from quorate.ports.errors import OutboxError
from quorate.ports.outbox_port import Outbox
from quorate.ports.store_port import EventStore

_REMEDY: Final = (
    "put back the ledger that belongs to the outbox, or stop the service and move the outbox "
    "away; then messages that wait in it are not delivered, webhooks start at the end of this "
    "ledger, and Waldur gets the usage that this ledger records"
)


def check_place(outbox: Outbox, sink: str, store: EventStore) -> None:
    """Raise ``OutboxError`` if the events that ``sink`` has read are not events of this ledger.

    If an older copy of a ledger is restored, the copy has the same name, but records other events
    from then on. So the outbox does not belong to the copy. The outbox stores the cursor of
    ``sink``: the last event that ``sink`` has read, and the hash of its block. If the hash is
    missing, the cursor is only compared with the ledger's end.
    """
    cursor, head = outbox.cursor(sink), outbox.head(sink)
    end = store.head().seq
    if cursor > end:
        raise OutboxError(
            f"{sink!r} was sent events up to sequence {cursor}, but the ledger ends at {end}: an "
            f"older ledger has replaced it; {_REMEDY}"
        )
    if cursor and head:
        block = next(iter(store.blocks(from_height=store.height_at(cursor))))
        if (block.head.seq, block.head.hash) != (cursor, head):
            raise OutboxError(
                f"{sink!r} was sent events up to sequence {cursor} of a ledger with other events: "
                f"another ledger has replaced it; {_REMEDY}"
            )
