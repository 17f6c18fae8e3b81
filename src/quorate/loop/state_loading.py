"""The state of a ledger, read from its last snapshot and the log after it."""

from __future__ import annotations

from collections.abc import Iterator

from quorate.ledger.chain import GENESIS, Block, Head
from quorate.ledger.fold import replay
from quorate.ledger.snapshot import restore
from quorate.loop.snapshots import Snapshots
from quorate.model.state.state import State
from quorate.ports.store_port import EventStore


def load_state(store: EventStore, snapshot_events: int) -> tuple[State, Head, int]:
    """Return a ledger's state and head, and the sequence number of its last snapshot.

    A long log is read in parts. If the store can keep snapshots, a snapshot after each part
    archives the runs that have ended. So the ended runs of the whole log need not be in memory at
    once.
    """
    state, head = State(), GENESIS
    kept = store.load_snapshot()
    if kept is not None:
        restored = restore(kept[1], store)
        if restored is not None and restored.seq == kept[0].seq:
            state, head = restored, kept[0]
    snapshots, snapshot_seq, can_keep = Snapshots(store), head.seq, True
    blocks = store.blocks(from_height=head.height + 1)
    while True:
        part = _part(blocks, snapshot_events) if can_keep else blocks
        state, head = replay(part, state=state, after=head)
        if not can_keep or head.seq - snapshot_seq < snapshot_events:
            return state, head, snapshot_seq
        can_keep = snapshots.keep_on_the_way(state, head)
        snapshot_seq = head.seq if can_keep else snapshot_seq


def _part(blocks: Iterator[Block], count: int) -> Iterator[Block]:
    """Yield the next blocks, until they have ``count`` events or a few more."""
    events = 0
    while events < count and (block := next(blocks, None)) is not None:
        events += block.count
        yield block
