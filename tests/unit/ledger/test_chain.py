"""The chain: sealing, opening, and the detection of every change."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from hashlib import sha256

import msgspec
import pytest

from quorate.ledger.chain import (
    GENESIS,
    Block,
    Broken,
    Head,
    Verified,
    open_block,
    open_blocks,
    seal,
    verify_blocks,
)
from quorate.ledger.errors import CorruptLedgerError, NewerLedgerError
from quorate.ledger.fold import collector_paused, replay_until
from quorate.model.events import (
    EndReason,
    Event,
    LeaseEnded,
    LeaseStarted,
    LedgerOpened,
    NodeApplied,
    Outcome,
    Role,
    RunEnded,
    StartReason,
    Tier,
)
from quorate.model.specs import EnvelopeId
from quorate.testing.builders import node

FLIPS = 2_000
LEDGER_EVENTS = 10_000
BLOCK_EVENTS = 100


def ended(at_ms: int, run: str = "r") -> Event:
    return RunEnded(at_ms, "user:ann", run, Outcome.COMPLETED)


def lease_pair(n: int) -> list[Event]:
    """Return the start and the end of lease ``n``."""
    start = LeaseStarted(
        n,
        "user:ann",
        lease=f"run-{n}/0",
        run=f"run-{n}",
        partner=None,
        comp_path="group/0",
        bundle=0,
        role=Role.ACTIVE,
        slots=((f"node-{n % 97}", 255),),
        payer=EnvelopeId("lab/west"),
        tier=Tier.OWNED,
        hold_gpu_ms=7_200_000,
        start_ms=n,
        reason=StartReason.START,
    )
    return [start, LeaseEnded(n, "user:ann", f"run-{n}/0", EndReason.END, n)]


def chained(groups: list[list[Event]], *, after: Head = GENESIS) -> list[Block]:
    """Return ``groups`` sealed one after another."""
    blocks = []
    for events in groups:
        block = seal(after, events)
        blocks.append(block)
        after = block.head
    return blocks


def resealed(block: Block, body: list[object]) -> Block:
    """Return ``block`` with another body and a matching hash, as a forger would make it."""
    packed = msgspec.msgpack.encode(body)
    digest = sha256(b"quorate-block/1\0" + block.prev_hash + packed).digest()
    return msgspec.structs.replace(block, body=packed, hash=digest)


STORED = ["run-ended/1", 1, "a", "r", "Completed", ""]
THREE = chained([[ended(1), ended(2)], [ended(2)], [ended(3), ended(4), ended(5)]])


def test_first_block_follows_genesis() -> None:
    block = THREE[0]
    assert (block.height, block.first_seq, block.count) == (1, 1, 2)
    assert block.prev_hash == bytes(32)
    assert block.head == Head(height=1, seq=2, hash=block.hash)


def test_hash_covers_the_name_of_the_format_the_previous_hash_and_the_body() -> None:
    block = THREE[1]
    assert block.hash == sha256(b"quorate-block/1\0" + THREE[0].hash + block.body).digest()


def test_body_says_where_it_belongs() -> None:
    body = msgspec.msgpack.decode(THREE[2].body)
    assert body[:3] == [1, 3, 4]
    assert len(body[3]) == 3


def test_opening_gives_back_the_events() -> None:
    assert open_block(THREE[2], after=THREE[1].head) == [ended(3), ended(4), ended(5)]
    assert [head for head, _ in open_blocks(THREE)] == [block.head for block in THREE]


@pytest.mark.parametrize("deep", [False, True])
def test_sound_chain_is_verified_with_its_numbers(deep: bool) -> None:  # noqa: FBT001
    assert verify_blocks(THREE, deep=deep) == Verified(head=THREE[2].head, events=6, blocks=3)
    assert verify_blocks([], deep=deep) == Verified(head=GENESIS, events=0, blocks=0)


def test_chain_is_verified_from_a_head_on() -> None:
    found = verify_blocks(THREE[1:], after=THREE[0].head)
    assert found == Verified(head=THREE[2].head, events=4, blocks=2)


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize(
    ("blocks", "height", "said"),
    [
        ([THREE[0], THREE[2]], 2, "block 2 is missing"),
        (THREE[1:], 1, "block 1 is missing"),
        ([THREE[0], THREE[0]], 2, "block 2 is missing"),
        ([THREE[0], seal(GENESIS, [ended(9)])], 2, "block 2 is missing"),
        (
            [THREE[0], seal(Head(height=1, seq=1, hash=THREE[0].hash), [ended(9)])],
            2,
            "begins at sequence 2",
        ),
        (
            [THREE[0], seal(Head(height=1, seq=2, hash=bytes(32)), [ended(9)])],
            2,
            "does not name the hash",
        ),
        ([THREE[0], msgspec.structs.replace(THREE[1], hash=bytes(32))], 2, "do not match its hash"),
        ([THREE[0], msgspec.structs.replace(THREE[1], count=2)], 2, "filed as"),
        ([resealed(THREE[0], [1, 1, 1, []])], 1, "holds no event"),
        ([resealed(THREE[0], [1, 2, 1, [STORED, STORED]])], 1, "its body says height 2"),
        ([resealed(THREE[0], [1, 1, 9, [STORED, STORED]])], 1, "sequence 9, 2 events"),
        ([resealed(THREE[0], [1, 1])], 1, "not readable"),
        ([resealed(THREE[0], [1, 1, 1, [], 5])], 1, "not readable"),
    ],
)
def test_first_fault_of_a_chain_is_named(
    blocks: list[Block],
    height: int,
    said: str,
    deep: bool,  # noqa: FBT001
) -> None:
    found = verify_blocks(blocks, deep=deep)
    assert isinstance(found, Broken)
    assert found.height == height
    assert found.seq == (1 if height == 1 else THREE[0].head.seq + 1)
    assert said in found.what


def test_time_that_runs_back_inside_a_block_is_found_when_events_are_read() -> None:
    blocks = chained([[ended(5), ended(6), ended(4)]])
    assert isinstance(verify_blocks(blocks), Verified)
    found = verify_blocks(blocks, deep=True)
    assert isinstance(found, Broken)
    assert found.seq == 3
    assert "the time goes back from 6 to 4" in found.what


def test_time_that_runs_back_between_blocks_is_found() -> None:
    blocks = chained([[ended(5)], [ended(4)]])
    found = verify_blocks(blocks, deep=True)
    assert isinstance(found, Broken)
    assert (found.height, found.seq) == (2, 2)
    with pytest.raises(CorruptLedgerError, match="the time goes back"):
        list(open_blocks(blocks))


def test_malformed_event_under_a_fitting_hash_is_found_with_block_and_sequence() -> None:
    block = resealed(THREE[0], [1, 1, 1, [STORED, ["run-ended/1", "late", "a"]]])
    assert isinstance(verify_blocks([block]), Verified)
    found = verify_blocks([block], deep=True)
    assert isinstance(found, Broken)
    assert (found.height, found.seq) == (1, 2)


def test_block_of_a_newer_format_is_not_called_broken() -> None:
    block = resealed(THREE[0], [2, 1, 1, [["x"], ["y"]]])
    for deep in (False, True):
        with pytest.raises(NewerLedgerError, match="block format 2"):
            verify_blocks([block], deep=deep)


def test_fault_of_the_reader_is_an_answer() -> None:
    def failing() -> Iterator[Block]:
        yield THREE[0]
        raise CorruptLedgerError("the row is gone")

    assert verify_blocks(failing()) == Broken(height=2, seq=3, what="the row is gone")


def test_sealing_nothing_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        seal(GENESIS, [])


def _flipped(value: bytes, bit: int) -> bytes:
    return (int.from_bytes(value) ^ (1 << bit)).to_bytes(len(value))


@pytest.mark.heavy
def test_every_flipped_bit_is_found() -> None:
    """In a ledger of 10,000 events, single bits of bodies and hashes at random places."""
    events = [event for n in range(LEDGER_EVENTS // 2) for event in lease_pair(n)]
    groups = [events[at : at + BLOCK_EVENTS] for at in range(0, LEDGER_EVENTS, BLOCK_EVENTS)]
    blocks = chained(groups)
    assert isinstance(verify_blocks(blocks, deep=True), Verified)
    heads = [GENESIS, *(block.head for block in blocks)]
    chance = random.Random(20_240_501)
    for _ in range(FLIPS):
        index = chance.randrange(len(blocks))
        field = chance.choices(["body", "hash", "prev_hash"], [8, 1, 1])[0]
        value = getattr(blocks[index], field)
        bit = chance.randrange(len(value) * 8)
        changed = msgspec.structs.replace(blocks[index], **{field: _flipped(value, bit)})
        # Blocks before the changed one are known to be valid, so verification begins there.
        found = verify_blocks([changed, *blocks[index + 1 : index + 2]], after=heads[index])
        assert isinstance(found, Broken), (index, field, bit)
        assert found.height == index + 1, (index, field, bit)


@pytest.mark.parametrize("field", ["height", "first_seq", "count"])
def test_changed_number_beside_the_body_is_found(field: str) -> None:
    for bit in range(63):
        wrong = getattr(THREE[1], field) ^ (1 << bit)
        blocks = [THREE[0], msgspec.structs.replace(THREE[1], **{field: wrong}), THREE[2]]
        assert isinstance(verify_blocks(blocks), Broken), bit


def test_a_replay_until_an_instant_reads_no_further_than_that() -> None:
    first: list[Event] = [LedgerOpened(1, "root", "ledger", "")]
    first += [NodeApplied(at_ms, "root", node(f"n{at_ms}")) for at_ms in (3, 5)]
    blocks = iter(chained([first, [NodeApplied(7, "root", node("n7"))]]))
    state, head = replay_until(blocks, at_ms=3)
    assert (state.at_ms, head.height) == (3, 1)
    assert set(state.nodes) == {"n3"}
    assert [block.height for block in blocks] == [2]


def test_the_collector_rests_while_much_is_built_and_is_then_as_it_was() -> None:
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
