"""How long a run has waited, by cause, as lines or as a tree; read from the ledger. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, takewhile
from typing import Any, Final

from quorate.core.accounting.wait_causes import Wait, WaitBook
from quorate.ledger.chain import Head, open_blocks_naming
from quorate.model.amounts import MINUTE_MS
from quorate.model.events import Event, LeaseStarted
from quorate.model.state.records import RunRecord
from quorate.ports.store_port import EventStore
from quorate.views.word_forms import exact_length

SHOWN_MS: Final = MINUTE_MS
"""The shortest wait for which ``explain`` shows a line; programs get every wait."""


def wait_of(store: EventStore, record: RunRecord, *, upto_seq: int, now_ms: int) -> Wait:
    """Return how long a run had waited by ``now_ms``, as recorded up to ``upto_seq``.

    Reads the ledger from the run's submission on. Blocks that name neither the run nor a lease of
    it are verified, but not decoded.
    """
    run = record.spec.name
    book = WaitBook([run])
    book.enter(_events(store, run, record.seq, upto_seq))
    return book.wait_of(run, now_ms)


def _events(store: EventStore, run: str, from_seq: int, upto_seq: int) -> Iterator[Event]:
    """Yield the events from ``from_seq`` to ``upto_seq`` of the blocks that name ``run``."""
    blocks = store.blocks(from_height=store.height_at(from_seq))
    first = next(blocks)
    before = Head(height=first.height - 1, seq=first.first_seq - 1, hash=first.prev_hash)
    upto = takewhile(lambda block: block.first_seq <= upto_seq, chain((first,), blocks))
    names = {run}
    for head, events in open_blocks_naming(upto, names, after=before):
        for event in events[: len(events) - max(0, head.seq - upto_seq)]:
            if isinstance(event, LeaseStarted) and run in (event.run, event.partner):
                # Two runs that share GPUs have one lease, which is named after one of the two.
                names.add(event.lease)
            yield event


def wait_text(wait: Wait) -> str:
    """Return the length of a wait and its parts by cause, which add up to the millisecond."""
    parts = ", ".join(f"{cause} {exact_length(ms)}" for cause, ms in wait.parts_ms.items())
    return f"{exact_length(wait.total_ms)} ({parts})" if parts else exact_length(0)


def wait_tree(wait: Wait) -> dict[str, Any]:
    """Return a wait for programs, in milliseconds, without causes that did not occur."""
    return {
        "totalMs": wait.total_ms,
        "byCause": [{"cause": cause.value, "ms": ms} for cause, ms in wait.parts_ms.items()],
    }
