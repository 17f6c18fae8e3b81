"""Edge cases of the chain: the begin of its time, and the numbers that its faults name."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorate.ledger.chain import (
    GENESIS,
    Block,
    Broken,
    Verified,
    open_block,
    open_blocks,
    seal,
    verify_blocks,
)
from quorate.ledger.errors import CorruptLedgerError
from quorate.model.events import Event, Outcome, RunEnded


def at(*times_ms: int) -> list[Event]:
    return [RunEnded(time_ms, "user:ann", "r", Outcome.COMPLETED) for time_ms in times_ms]


def chained(*groups: list[Event]) -> list[Block]:
    blocks: list[Block] = []
    for events in groups:
        blocks.append(seal(blocks[-1].head if blocks else GENESIS, events))
    return blocks


def test_a_ledger_may_begin_at_time_zero_and_no_earlier() -> None:
    (zero,), (earlier,) = chained(at(0)), chained(at(-1))
    assert open_block(zero, after=GENESIS) == at(0)
    assert [events for _, events in open_blocks([zero])] == [at(0)]
    assert isinstance(verify_blocks([zero], deep=True), Verified)
    with pytest.raises(CorruptLedgerError, match="the time goes back from 0 to -1"):
        open_block(earlier, after=GENESIS)
    with pytest.raises(CorruptLedgerError, match="the time goes back from 0 to -1"):
        list(open_blocks([earlier]))
    assert verify_blocks([earlier], deep=True) == Broken(
        height=1, seq=1, what="the time goes back from 0 to -1"
    )


def test_the_last_time_of_a_block_is_the_earliest_of_the_next() -> None:
    sound = chained(at(5, 9), at(9))
    assert verify_blocks(sound, deep=True) == Verified(head=sound[-1].head, events=3, blocks=2)
    assert len(list(open_blocks(sound))) == 2
    broken = chained(at(5, 7, 9), at(8))
    assert verify_blocks(broken, deep=True) == Broken(
        height=2, seq=4, what="the time goes back from 9 to 8"
    )
    with pytest.raises(CorruptLedgerError, match="the time goes back from 9 to 8"):
        list(open_blocks(broken))


def test_without_looking_inside_times_are_not_checked() -> None:
    assert isinstance(verify_blocks(chained(at(9), at(8))), Verified)


def test_a_fault_names_what_was_expected_and_what_was_found() -> None:
    first, second, third = chained(at(1, 2), at(3), at(4))
    assert verify_blocks([first, third]) == Broken(
        height=2, seq=3, what="block 2 is missing: block 3 is in its place"
    )
    assert verify_blocks([first, replace(second, first_seq=7)]) == Broken(
        height=2, seq=3, what="the block begins at sequence 7, not 3"
    )
    assert verify_blocks([first, replace(second, count=4)]) == Broken(
        height=2,
        seq=3,
        what="the block is filed as height 2, sequence 3, 4 events, "
        "but its body says height 2, sequence 3, 1 events",
    )
