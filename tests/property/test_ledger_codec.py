"""Every event is the same after each way of storing it."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from quorate.ledger.chain import GENESIS, Verified, open_blocks, seal, verify_blocks
from quorate.ledger.codec import (
    decode_events,
    encode_events,
    event_from_json,
    event_to_json,
)
from quorate.ledger.errors import CorruptLedgerError, UnknownEventError
from quorate.model.events import Event
from quorate.testing.event_strategies import events, histories


@pytest.mark.heavy
@given(st.lists(events(), max_size=5))
def test_stored_events_come_back_equal(drawn: list[Event]) -> None:
    data = encode_events(drawn)
    assert decode_events(data) == drawn
    assert encode_events(decode_events(data)) == data


@pytest.mark.heavy
@given(events(), st.integers(1, 2**53))
def test_exported_event_comes_back_equal_through_json(event: Event, seq: int) -> None:
    shown = json.loads(json.dumps(event_to_json(seq, event)))
    assert event_from_json(shown) == (seq, event)


@pytest.mark.heavy
@given(st.lists(histories(max_size=3), min_size=1, max_size=4))
def test_sealed_events_come_back_in_order(groups: list[list[Event]]) -> None:
    # Only the last group may be late; each group begins no earlier than the previous one.
    groups.sort(key=lambda group: group[0].at_ms)
    groups = [
        group
        for n, group in enumerate(groups)
        if all(group[0].at_ms >= earlier[-1].at_ms for earlier in groups[:n])
    ]
    head, blocks = GENESIS, []
    for group in groups:
        blocks.append(seal(head, group))
        head = blocks[-1].head
    assert isinstance(verify_blocks(blocks), Verified)
    assert isinstance(verify_blocks(blocks, deep=True), Verified)
    read = [event for _, opened in open_blocks(blocks) for event in opened]
    assert read == [event for group in groups for event in group]


def read_or_refused(data: bytes) -> list[Event] | str:
    """Return the events of ``data``, or the user's error message. Any other error is raised."""
    try:
        return decode_events(data)
    except (CorruptLedgerError, UnknownEventError) as error:
        return str(error)


@given(st.binary(max_size=60))
def test_any_bytes_are_events_or_a_clear_error(data: bytes) -> None:
    found = read_or_refused(data)
    assert isinstance(found, list) or "sequence 1" in found


@pytest.mark.heavy
@given(st.lists(events(), min_size=1, max_size=2), st.data())
def test_any_changed_byte_is_events_or_a_clear_error(
    drawn: list[Event], data: st.DataObject
) -> None:
    stored = bytearray(encode_events(drawn))
    at = data.draw(st.integers(0, len(stored) - 1))
    stored[at] ^= data.draw(st.integers(1, 255))
    found = read_or_refused(bytes(stored))
    assert isinstance(found, list) or "sequence" in found


class _AllSeenError(Exception):
    """Every type of event was drawn, so no more examples are needed."""


@pytest.mark.slow
def test_strategy_draws_every_type_of_event() -> None:
    seen: set[type[Event]] = set()

    @settings(phases=[Phase.generate], max_examples=3_000, derandomize=True, database=None)
    @given(events())
    def draw(event: Event) -> None:
        seen.add(type(event))
        if seen == set(get_args(Event)):
            raise _AllSeenError

    with pytest.raises(_AllSeenError):
        draw()
