"""Appends to etcd: whatever happens to requests and answers, the caller gets the right result.

The oracle is an etcd in memory. A block is in the log exactly once if ``append`` returned, and
never if ``append`` raised an error, both at once and after every transaction under way was carried
out. Only after an ``UnsureAppendError`` both are possible.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.etcd.etcd_requests import Put, Txn
from quorate.adapters.etcd.leadership import Following
from quorate.adapters.stores.archive_folder import ArchiveFolder
from quorate.adapters.stores.etcd_append import (
    REFUSED_BLOCKS_MAX,
    EtcdAppender,
    Fence,
    fence_of,
)
from quorate.adapters.stores.etcd_reading import EtcdReader
from quorate.adapters.stores.etcd_records import INLINE_BYTES_MAX, EtcdKeys, block_value
from quorate.adapters.stores.etcd_turns import EtcdTurns
from quorate.ledger.chain import GENESIS, Block, Head, Verified, seal, verify_blocks
from quorate.model.events import Outcome, RunEnded
from quorate.ports.errors import (
    LedgerExistsError,
    LedgerNotFoundError,
    NotLeaderError,
    StaleHeadError,
    StoreDownError,
    StoreError,
    UnsureAppendError,
)
from quorate.testing.store_contract import broken_off, some_chain, some_events
from tests.etcd.played_etcd import Fate, PlayedEtcd
from tests.etcd.played_leases import PlayedLeases
from tests.oracles.effort import examples

KEYS = EtcdKeys("t")
NOWHERE = ArchiveFolder(Path("nowhere"))
fates = st.lists(st.sampled_from(Fate), max_size=8)


class Ticks:
    """A clock that advances by a second at each look, so that every try ends."""

    def __init__(self) -> None:
        self._numbers = count()

    def __call__(self) -> float:
        return float(next(self._numbers))


def reader(etcd: PlayedEtcd) -> EtcdReader:
    return EtcdReader(etcd, NOWHERE, KEYS, "t")


def appender(etcd: PlayedLeases) -> EtcdAppender:
    turns = EtcdTurns(etcd, KEYS, lambda revision, _: revision, etcd.commit, Ticks())
    return EtcdAppender(etcd, KEYS, "t", turns, Ticks())


def new_log() -> PlayedLeases:
    etcd = PlayedLeases()
    appender(etcd).create()
    return etcd


def log_of(etcd: PlayedEtcd) -> list[Block]:
    """Return the blocks after all faults have ended; they must be a valid chain to the head."""
    etcd.fates, etcd.meanwhile = iter(()), lambda: None
    looking = reader(etcd)
    blocks = list(looking.blocks(1, looking.head().height))
    assert verify_blocks(blocks, deep=True) == Verified(
        head=looking.head(), events=looking.head().seq, blocks=len(blocks)
    )
    return blocks


def large_block(head: Head) -> Block:
    note = "x" * (INLINE_BYTES_MAX // 2)
    first_ms = head.seq
    return seal(head, [RunEnded(first_ms + n, "t", note, Outcome.COMPLETED) for n in range(5)])


class Others:
    """Another writer, which appends a block between two requests when the test asks for it."""

    def __init__(self, etcd: PlayedLeases, turns: list[bool]) -> None:
        self._etcd, self._turns = etcd, iter(turns)

    def __call__(self) -> None:
        if not next(self._turns, False):
            return
        kept = self._etcd.fates, self._etcd.meanwhile
        self._etcd.fates, self._etcd.meanwhile = iter(()), lambda: None
        other = appender(self._etcd)
        head = other.read_head().head
        other.append(seal(head, some_events(1, at_ms=head.seq + 1_000)), head)
        self._etcd.fates, self._etcd.meanwhile = kept


@pytest.mark.heavy
@examples(4)
@given(
    fate=fates,
    turns=st.lists(st.booleans(), max_size=8),
    is_known=st.booleans(),
    is_large=st.booleans(),
)
def test_an_append_is_recorded_once_or_never_and_the_caller_is_told_which(
    fate: list[Fate], turns: list[bool], *, is_known: bool, is_large: bool
) -> None:
    etcd = new_log()
    writer = appender(etcd)
    if is_known:
        writer.read_head()
    block = large_block(GENESIS) if is_large else seal(GENESIS, some_events(2))
    etcd.fates, etcd.meanwhile = iter(fate), Others(etcd, turns)
    raised: StoreError | None = None
    try:
        writer.append(block, GENESIS)
    except StoreError as error:
        raised = error
    now = log_of(etcd)
    etcd.carry_out_late()
    later = log_of(etcd)
    # Recorded blocks stay, whatever is carried out late.
    assert later[: len(now)] == now
    if isinstance(raised, UnsureAppendError):
        assert raised.block == block.head
        assert later.count(block) <= 1
        return
    assert now.count(block) == later.count(block) == (raised is None)
    if isinstance(raised, StaleHeadError):
        assert raised.actual in [each.head for each in now]
        after = now[: raised.actual.height]
        assert list(raised.blocks) == after[: len(raised.blocks)]
    # The store is usable after any error.
    head = writer.read_head().head
    writer.append(seal(head, some_events(1, at_ms=head.seq + 2_000)), head)
    assert len(log_of(etcd)) == len(later) + 1


@pytest.mark.heavy
@examples(4)
@given(fates, st.lists(st.booleans(), max_size=12), st.integers(0, 4))
def test_a_chain_is_appended_once_or_never_and_the_caller_is_told_which(
    fate: list[Fate], turns: list[bool], blocks: int
) -> None:
    etcd = new_log()
    chain = some_chain(blocks)
    if chain:
        chain.append(large_block(chain[-1].head))
    etcd.fates, etcd.meanwhile = iter(fate), Others(etcd, turns)
    raised: StoreError | None = None
    try:
        appender(etcd).append_all(chain)
    except StoreError as error:
        raised = error
    now = log_of(etcd)
    etcd.carry_out_late()
    later = log_of(etcd)
    assert later[: len(now)] == now
    if not isinstance(raised, UnsureAppendError):
        assert [each for each in later if each in chain] == ([] if raised else chain)
    head = later[-1].head if later else GENESIS
    appender(etcd).append(seal(head, some_events(1, at_ms=head.seq + 2_000)), head)
    assert len(log_of(etcd)) == len(later) + 1


@pytest.mark.heavy
@given(st.integers(0, 5), st.booleans())
def test_two_chains_that_are_staged_at_once_do_not_mix(turn: int, is_cut_off: bool) -> None:  # noqa: FBT001
    etcd = new_log()
    first, second = some_chain(3), [seal(GENESIS, some_events(2, at_ms=7))]
    second.append(seal(second[0].head, some_events(2, at_ms=9)))
    turns = iter([*[False] * turn, True])

    def meanwhile() -> None:
        if not next(turns, False):
            return
        etcd.meanwhile = lambda: None
        blocks = broken_off(second) if is_cut_off else iter(second)
        with suppress(StoreError):
            appender(etcd).append_all(blocks)

    etcd.meanwhile = meanwhile
    with suppress(StoreError):
        appender(etcd).append_all(first)
    assert log_of(etcd) in ([], first, second)


def test_an_append_whose_outcome_cannot_be_found_out_says_so() -> None:
    etcd = new_log()
    block = seal(GENESIS, some_events(2))
    etcd.fates = iter([Fate.ANSWERED, Fate.LATE, *[Fate.LOST] * 99])
    with pytest.raises(UnsureAppendError, match="block 1 was sent and may be recorded"):
        appender(etcd).append(block, GENESIS)
    etcd.carry_out_late()
    assert log_of(etcd) == [block]


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.ANSWER_LOST, Fate.LATE])
@pytest.mark.parametrize("more", [0, 1, 5])
def test_of_two_writers_with_the_same_block_only_one_has_recorded_it(fate: Fate, more: int) -> None:
    etcd = new_log()
    first, second = appender(etcd), appender(etcd)
    before = seal(GENESIS, some_events(1))
    second.append(before, GENESIS)
    # Both writers make the same decision, at one head and at one instant.
    block = seal(before.head, some_events(2, at_ms=5))
    first.append(block, before.head)
    head = block.head
    for number in range(more):
        first.append(seal(head, some_events(1, at_ms=10 + number)), head)
        head = first.read_head().head
    etcd.fates = iter([fate])
    with pytest.raises(StaleHeadError):
        second.append(block, before.head)
    etcd.carry_out_late()
    assert log_of(etcd).count(block) == 1


def test_a_writer_without_a_mark_does_not_know_whose_block_it_is() -> None:
    etcd = new_log()
    first, second = appender(etcd), appender(etcd)
    second.read_head()
    block = seal(GENESIS, some_events(2))
    first.append(block, GENESIS)
    etcd.fates = iter([Fate.LOST])
    with pytest.raises(UnsureAppendError, match="mark is not in etcd"):
        second.append(block, GENESIS)


def test_one_that_leads_no_longer_does_not_go_on_to_ask_what_became_of_its_append() -> None:
    etcd = new_log()
    made = etcd.carry_out(_put_leader(b"first"))
    leader = appender(etcd)
    leader.fence = Fence(KEYS.leader, made.revision)
    leader.read_head()
    asked = count()

    def deposed() -> None:
        next(asked)
        leader.fence = fence_of(KEYS.leader, Following(leader=None))

    etcd.fates, etcd.meanwhile = iter([Fate.LATE, *[Fate.LOST] * 99]), deposed
    with pytest.raises(UnsureAppendError, match="block 1 was sent and may be recorded"):
        leader.append(seal(GENESIS, some_events(2)), GENESIS)
    assert next(asked) == 2, "the append, and one look"


def test_nothing_comes_of_a_late_append_once_the_head_was_put_again() -> None:
    etcd = new_log()
    writer = appender(etcd)
    block = seal(GENESIS, some_events(2))
    # Read, send, read, put again: this repeats until the time is over.
    etcd.fates = iter([Fate.ANSWERED, *[Fate.LATE, Fate.ANSWERED, Fate.ANSWERED] * 99])
    with pytest.raises(StoreDownError, match="nothing was recorded"):
        writer.append(block, GENESIS)
    assert etcd.late
    etcd.carry_out_late()
    assert log_of(etcd) == []


def test_a_block_is_recorded_if_others_have_built_on_it_before_it_was_looked_for() -> None:
    etcd = new_log()
    block = seal(GENESIS, some_events(2))
    etcd.fates = iter([Fate.ANSWERED, Fate.ANSWER_LOST])
    etcd.meanwhile = Others(etcd, [False, True])
    appender(etcd).append(block, GENESIS)
    recorded = log_of(etcd)
    assert recorded[0] == block
    assert len(recorded) == 2


@pytest.mark.parametrize("behind", [1, REFUSED_BLOCKS_MAX, REFUSED_BLOCKS_MAX + 1])
def test_a_refusal_brings_the_first_blocks_of_others(behind: int) -> None:
    etcd = new_log()
    writer = appender(etcd)
    writer.read_head()
    others = some_chain(behind)
    appender(etcd).append_all(others)
    # Blocks above the head do not count, whoever has staged them.
    staged = seal(others[-1].head, some_events(1, at_ms=99))
    etcd.carry_out(Txn(compare=(), then=(Put(KEYS.block(staged.height), block_value(staged)),)))
    with pytest.raises(StaleHeadError) as caught:
        writer.append(seal(GENESIS, some_events(2, at_ms=7)), GENESIS)
    assert caught.value.actual == others[-1].head
    assert list(caught.value.blocks) == others[:REFUSED_BLOCKS_MAX]


def test_a_refusal_brings_no_block_whose_body_is_in_parts() -> None:
    etcd = new_log()
    writer = appender(etcd)
    writer.read_head()
    (small,) = some_chain(1)
    large = large_block(small.head)
    appender(etcd).append_all([small, large, seal(large.head, some_events(1, at_ms=99))])
    with pytest.raises(StaleHeadError) as caught:
        writer.append(seal(GENESIS, some_events(2, at_ms=7)), GENESIS)
    assert caught.value.blocks == (small,)


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.REFUSED])
def test_a_block_that_cannot_be_looked_for_may_be_recorded(fate: Fate) -> None:
    etcd = new_log()
    block = seal(GENESIS, some_events(2))
    # Read, send, read: others have appended, and the store cannot look up its own block.
    etcd.fates = iter([Fate.ANSWERED, Fate.ANSWER_LOST, Fate.ANSWERED, fate])
    etcd.meanwhile = Others(etcd, [False, True])
    with pytest.raises(UnsureAppendError, match="block 1 was sent and may be recorded"):
        appender(etcd).append(block, GENESIS)
    assert log_of(etcd)[0] == block


def test_an_append_after_which_etcd_refuses_this_program_may_be_recorded() -> None:
    etcd = new_log()
    block = seal(GENESIS, some_events(2))
    etcd.fates = iter([Fate.ANSWERED, Fate.LATE, Fate.ANSWERED, Fate.REFUSED])
    with pytest.raises(UnsureAppendError, match="refused"):
        appender(etcd).append(block, GENESIS)
    etcd.carry_out_late()
    assert log_of(etcd) == [block]


def test_only_the_leader_appends_once_there_is_one() -> None:
    etcd = new_log()
    made = etcd.carry_out(_put_leader(b"first"))
    leader = appender(etcd)
    leader.fence = Fence(KEYS.leader, made.revision)
    first = seal(GENESIS, some_events(1))
    leader.append(first, GENESIS)
    # The lease ends, and another candidate creates the key again.
    del etcd.rows[KEYS.leader]
    second = seal(first.head, some_events(1, at_ms=5))
    with pytest.raises(NotLeaderError, match="lease has expired"):
        leader.append(second, first.head)
    etcd.carry_out(_put_leader(b"second"))
    with pytest.raises(NotLeaderError, match="another program leads"):
        leader.append(second, first.head)
    with pytest.raises(StoreError):
        leader.append_all([second])
    assert log_of(etcd) == [first]


def _put_leader(name: bytes) -> Txn:
    return Txn(compare=(), then=(Put(KEYS.leader, name),))


def test_a_chain_whose_source_fails_leaves_nothing_behind() -> None:
    etcd = new_log()
    with pytest.raises(StoreError, match="the source has ended"):
        appender(etcd).append_all(broken_off([*some_chain(3), large_block(some_chain(3)[-1].head)]))
    assert set(etcd.rows) == {KEYS.head}


def test_a_log_is_made_once_and_not_found_where_there_is_none() -> None:
    etcd = PlayedLeases()
    with pytest.raises(LedgerNotFoundError):
        appender(etcd).read_head()
    appender(etcd).create()
    with pytest.raises(LedgerExistsError):
        appender(etcd).create()
