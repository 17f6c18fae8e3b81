"""Reads of a ledger with other writers: they see exactly what the engine's state has."""

from __future__ import annotations

import pytest

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply
from quorate.ledger.chain import Head
from quorate.loop.engine import Engine
from quorate.model.specs import Owner
from quorate.ports.errors import StoreReadOnlyError
from quorate.service.metrics.registry import service_metrics
from quorate.testing.memory_engines import HandClock, memory_engine


def two_engines() -> tuple[Engine, Engine]:
    store = MemoryStore(is_shared=True)
    return memory_engine(store), Engine.open(store, HandClock())


def heights(engine: Engine, first: int = 1) -> list[int]:
    return [block.height for block in engine.seen.blocks(from_height=first)]


def test_blocks_of_another_writer_are_seen_when_the_engine_has_applied_them() -> None:
    writer, reader = two_engines()
    before: Head = reader.head
    writer.execute(Apply((Owner(name="team"),)), actor="test")
    assert reader.store.head().height == before.height + 1
    assert reader.seen.head() == before
    assert heights(reader) == list(range(1, before.height + 1))
    assert heights(reader, before.height + 1) == []
    reader.follow()
    assert reader.seen.head() == writer.head
    assert heights(reader, before.height + 1) == [writer.head.height]
    assert reader.seen.height_at(writer.head.seq) == writer.head.height


def test_what_was_seen_cannot_be_written() -> None:
    writer, reader = two_engines()
    block = next(writer.store.blocks())
    with pytest.raises(StoreReadOnlyError):
        reader.seen.append(block, expected=reader.head)
    with pytest.raises(StoreReadOnlyError):
        reader.seen.append_all([block])
    with pytest.raises(StoreReadOnlyError):
        reader.seen.save_snapshot(reader.head, b"")


def test_metrics_count_no_event_that_the_state_does_not_have() -> None:
    writer, reader = two_engines()
    metrics = service_metrics()
    metrics.opened(reader)
    writer.execute(Apply((Owner(name="team"),)), actor="test")
    metrics.follow(reader)
    assert metrics.registry.get_sample_value("quorate_ledger_events_total") == 0
    reader.follow()
    metrics.follow(reader)
    recorded = writer.head.seq - 2
    assert metrics.registry.get_sample_value("quorate_ledger_events_total") == recorded
