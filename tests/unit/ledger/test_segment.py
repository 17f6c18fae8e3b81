"""Segments: unpacking gives what was packed, and every change is detected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from quorate.ledger.chain import GENESIS, seal
from quorate.ledger.errors import CorruptLedgerError
from quorate.ledger.segment import check, pack, unpack
from quorate.testing.store_contract import some_chain, some_events

CHAIN = some_chain(6)


@given(st.integers(0, 5), st.integers(1, 6))
def test_blocks_come_back_as_packed_and_join_what_is_before_and_after(
    start: int, count: int
) -> None:
    blocks = CHAIN[start : start + count]
    segment, data = pack(blocks)
    assert unpack(segment, data) == blocks
    check(segment, data)
    assert segment.before == (CHAIN[start - 1].head if start else GENESIS)
    assert segment.head == blocks[-1].head
    assert segment.size == len(data)
    assert segment.name.startswith(f"{start + 1:012d}-{start + len(blocks):012d}-")


@given(st.data())
def test_a_changed_bit_is_found(data: st.DataObject) -> None:
    segment, file = pack(CHAIN)
    at = data.draw(st.integers(0, len(file) - 1))
    changed = bytearray(file)
    changed[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptLedgerError, match="do not match its hash"):
        unpack(segment, bytes(changed))


def test_a_file_that_was_cut_short_is_found() -> None:
    segment, file = pack(CHAIN)
    with pytest.raises(CorruptLedgerError, match="do not match its hash"):
        unpack(segment, file[:-1])


def test_other_blocks_than_the_name_says_are_found() -> None:
    segment, file = pack(CHAIN)
    with pytest.raises(CorruptLedgerError, match="other blocks than those in its name"):
        unpack(replace(segment, last_height=7), file)


def test_a_chain_that_is_not_sound_is_not_archived() -> None:
    other = seal(CHAIN[1].head, some_events(2, at_ms=99))
    for blocks in ([*CHAIN[:2], replace(CHAIN[2], body=other.body)], [*CHAIN[:2], other, CHAIN[3]]):
        segment, file = pack(blocks)
        with pytest.raises(CorruptLedgerError, match="segment 000000000001-"):
            check(segment, file)
    segment, file = pack(CHAIN)
    with pytest.raises(CorruptLedgerError, match="is not the expected one"):
        check(replace(segment, last_hash=bytes(32)), file)
