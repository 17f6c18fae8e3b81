"""The contract of ``ports/store_port.py`` as tests: a test of a store subclasses StoreContract.

    class TestMyStore(StoreContract):
        def make_store(self) -> EventStore: ...
        def reopen(self, store: EventStore) -> EventStore: ...

Run with pytest. The adapter's own tests cover crashes, because a crash needs a process of the
adapter.
"""

# ruff: noqa: D102 - a test's name states the one behaviour it checks

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from quorate.ledger.archive import ArchivedRow, RowQuery
from quorate.ledger.chain import (
    GENESIS,
    Block,
    Head,
    Verified,
    open_blocks,
    seal,
    verify_blocks,
)
from quorate.model.events import Event, Outcome, RunEnded
from quorate.ports.errors import StaleHeadError, StoreError
from quorate.ports.store_port import EventStore

LARGE_BLOCK_EVENTS = 20_000
_FAILED, _CLAIM = 3, 4
_REQUEST_BYTES, _MANY_EVENTS = 3 * 512 * 1024, 60_000


def some_events(count: int, *, at_ms: int = 0) -> list[Event]:
    """Return ``count`` different events; from ``at_ms`` on, there is one in each millisecond."""
    return [
        RunEnded(at_ms + n, "contract", f"run-{at_ms + n}", Outcome.COMPLETED) for n in range(count)
    ]


def some_chain(blocks: int) -> list[Block]:
    """Return a chain of ``blocks`` blocks, from the first block of a ledger on."""
    found: list[Block] = []
    head = GENESIS
    for _ in range(blocks):
        found.append(seal(head, some_events(2, at_ms=head.seq)))
        head = found[-1].head
    return found


def fill(store: EventStore, *, blocks: int, events_per_block: int = 3) -> list[Block]:
    """Append ``blocks`` blocks to ``store``, and return them."""
    added = []
    for _ in range(blocks):
        head = store.head()
        block = seal(head, some_events(events_per_block, at_ms=head.seq))
        store.append(block, expected=head)
        added.append(block)
    return added


def some_rows(count: int) -> list[ArchivedRow]:
    """Return ``count`` different rows of archived runs, the third failed and the fourth a claim."""
    return [
        ArchivedRow(
            number,
            f"run-{number}",
            "ab"[(number - 1) % 2],
            "Failed" if number == _FAILED else "Completed",
            number == _CLAIM,
            b"payload" * number,
        )
        for number in range(1, count + 1)
    ]


def row_query(upto_seq: int) -> RowQuery:
    """Return the query for every archived run."""
    return RowQuery(upto_seq, 0, None, None, None, None, is_newest_first=False, limit=100)


def _found(store: EventStore, query: RowQuery) -> list[str]:
    names = store.archived_names(query)
    assert names == [(row.seq, row.name) for row in store.archived_rows(query)]
    return [name for _, name in names]


def refuses(store: EventStore, block: Block, *, expected: Head) -> StaleHeadError | None:
    """Return the ``StaleHeadError`` with which ``store`` refuses ``block``; None if it does not."""
    try:
        store.append(block, expected=expected)
    except StaleHeadError as error:
        return error
    return None


def broken_off(blocks: list[Block]) -> Iterator[Block]:
    """Yield ``blocks``, and then raise an error because their source has failed."""
    yield from blocks
    raise StoreError("the source has ended")


def fails(store: EventStore, blocks: Iterator[Block]) -> bool:
    """Return whether ``store`` raises the error of ``blocks``."""
    try:
        store.append_all(blocks)
    except StoreError:
        return True
    return False


def knows(store: EventStore, seq: int) -> bool:
    """Return whether ``store`` accepts ``seq`` in ``height_at``.

    A store must not accept the sequence of an event that it does not have.
    """
    try:
        store.height_at(seq)
    except AssertionError:
        return False
    return True


class StoreContract(ABC):
    """The contract of every store."""

    @abstractmethod
    def make_store(self) -> EventStore:
        """Return a new, empty store."""

    @abstractmethod
    def reopen(self, store: EventStore) -> EventStore:
        """Close ``store``, and return another store on the same log."""

    def test_new_store_is_empty(self) -> None:
        with self.make_store() as store:
            assert store.head() == GENESIS
            assert list(store.blocks()) == []
            assert store.load_snapshot() is None

    def test_blocks_come_back_as_appended_and_in_order(self) -> None:
        with self.make_store() as store:
            added = fill(store, blocks=100, events_per_block=2)
            assert list(store.blocks()) == added
            assert store.head() == added[-1].head

    def test_events_come_back_from_the_chain(self) -> None:
        with self.make_store() as store:
            fill(store, blocks=5, events_per_block=4)
            read = [event for _, events in open_blocks(store.blocks()) for event in events]
            assert read == some_events(20)

    def test_reading_begins_at_any_height(self) -> None:
        with self.make_store() as store:
            added = fill(store, blocks=40)
            assert list(store.blocks(from_height=1)) == added
            assert list(store.blocks(from_height=33)) == added[32:]
            assert list(store.blocks(from_height=40)) == added[39:]
            assert list(store.blocks(from_height=41)) == []

    def test_every_event_is_found_in_the_block_that_holds_it(self) -> None:
        with self.make_store() as store:
            for count in (1, 3, 1, 7, 2, 50, 1, 1, 4):
                fill(store, blocks=1, events_per_block=count)
                for block in store.blocks():
                    seqs = range(block.first_seq, block.first_seq + block.count)
                    assert {store.height_at(seq) for seq in seqs} == {block.height}

    def test_an_event_that_is_not_in_the_log_is_not_looked_for(self) -> None:
        with self.make_store() as store:
            assert not knows(store, 1)
            fill(store, blocks=2, events_per_block=3)
            assert [seq for seq in range(-1, 9) if knows(store, seq)] == [1, 2, 3, 4, 5, 6]

    def test_a_chain_is_appended_as_a_whole_or_not_at_all(self) -> None:
        added = some_chain(5)
        with self.make_store() as store:
            assert fails(store, broken_off(added[:3]))
            assert store.head() == GENESIS
            assert store.append_all(added[:3]) == added[2].head
            assert store.append_all(added[3:]) == added[4].head
            assert list(store.blocks()) == added

    def test_block_that_is_larger_than_a_request_of_a_server_is_taken_whole(self) -> None:
        store = self.make_store()
        large = seal(GENESIS, some_events(_MANY_EVENTS))
        assert len(large.body) > _REQUEST_BYTES
        store.append(large, expected=GENESIS)
        late = seal(GENESIS, some_events(_MANY_EVENTS, at_ms=9))
        assert refuses(store, late, expected=GENESIS) is not None
        (next_one,) = fill(store, blocks=1)
        with self.reopen(store) as again:
            assert list(again.blocks()) == [large, next_one]

    def test_the_chain_goes_on_from_what_the_store_vouches_for(self) -> None:
        with self.make_store() as store:
            added = fill(store, blocks=6)
            store.save_snapshot(added[3].head, b"state")
            vouched = store.verified_head()
            assert vouched in (GENESIS, *(block.head for block in added))
            rest = store.blocks(from_height=vouched.height + 1)
            found = verify_blocks(rest, after=vouched, deep=True)
            assert isinstance(found, Verified)
            assert found.head == added[-1].head

    def test_stale_head_is_refused_and_nothing_is_written(self) -> None:
        with self.make_store() as store:
            (first,) = fill(store, blocks=1)
            late = seal(GENESIS, some_events(7))
            error = refuses(store, late, expected=GENESIS)
            assert error is not None
            assert error.expected == GENESIS
            assert error.actual == first.head
            assert store.head() == first.head
            assert list(store.blocks()) == [first]

    def test_head_of_the_right_height_with_another_hash_is_refused(self) -> None:
        with self.make_store() as store:
            (first,) = fill(store, blocks=1)
            other = seal(GENESIS, some_events(3, at_ms=9)).head
            assert (other.height, other.seq) == (first.head.height, first.head.seq)
            assert refuses(store, seal(other, some_events(1)), expected=other) is not None
            assert list(store.blocks()) == [first]

    def test_head_ahead_of_the_log_is_refused(self) -> None:
        with self.make_store() as store:
            ahead = seal(GENESIS, some_events(1)).head
            assert refuses(store, seal(ahead, some_events(1, at_ms=5)), expected=ahead) is not None
            assert store.head() == GENESIS

    def test_store_is_usable_after_a_refusal(self) -> None:
        with self.make_store() as store:
            fill(store, blocks=1)
            assert refuses(store, seal(GENESIS, some_events(1)), expected=GENESIS) is not None
            fill(store, blocks=2)
            assert isinstance(verify_blocks(store.blocks(), deep=True), Verified)
            assert store.head().height == 3  # noqa: PLR2004

    def test_reading_while_appending_sees_the_log_as_it_was(self) -> None:
        with self.make_store() as store:
            before = fill(store, blocks=80)
            reading = store.blocks()
            seen = [next(reading)]
            fill(store, blocks=3)
            seen.extend(reading)
            assert seen == before

    def test_reading_asked_for_before_an_append_ends_before_it(self) -> None:
        with self.make_store() as store:
            before = fill(store, blocks=2)
            reading = store.blocks()
            fill(store, blocks=2)
            assert list(reading) == before

    def test_two_readings_do_not_disturb_each_other(self) -> None:
        with self.make_store() as store:
            added = fill(store, blocks=70)
            for left, right in zip(store.blocks(), store.blocks(), strict=True):
                assert left == right
            assert list(store.blocks()) == added

    def test_large_block_is_one_block(self) -> None:
        with self.make_store() as store:
            (block,) = fill(store, blocks=1, events_per_block=LARGE_BLOCK_EVENTS)
            assert list(store.blocks()) == [block]
            assert store.head().seq == LARGE_BLOCK_EVENTS

    def test_reopened_store_has_everything(self) -> None:
        store = self.make_store()
        added = fill(store, blocks=10)
        with self.reopen(store) as again:
            assert again.head() == added[-1].head
            assert list(again.blocks()) == added
            more = fill(again, blocks=1)
            assert all(b.prev_hash == a.hash for a, b in pairwise([*added, *more]))

    def test_last_snapshot_is_kept(self) -> None:
        with self.make_store() as store:
            heads = [block.head for block in fill(store, blocks=3)]
            store.save_snapshot(heads[0], b"one")
            store.save_snapshot(heads[1], b"two")
            assert store.load_snapshot() == (heads[1], b"two")

    def test_snapshot_outlives_appends(self) -> None:
        with self.make_store() as store:
            (block,) = fill(store, blocks=1)
            store.save_snapshot(block.head, b"state")
            fill(store, blocks=5)
            assert store.load_snapshot() == (block.head, b"state")

    def test_snapshot_of_the_empty_log_is_kept(self) -> None:
        with self.make_store() as store:
            store.save_snapshot(GENESIS, b"")
            assert store.load_snapshot() == (GENESIS, b"")

    def test_snapshot_of_another_history_is_ignored(self) -> None:
        with self.make_store() as store:
            fill(store, blocks=2)
            elsewhere = seal(GENESIS, some_events(3, at_ms=77)).head
            store.save_snapshot(elsewhere, b"state")
            assert store.load_snapshot() is None
            beyond = seal(store.head(), some_events(1, at_ms=99)).head
            store.save_snapshot(beyond, b"state")
            assert store.load_snapshot() is None

    def test_reopened_snapshot_is_the_same_or_gone(self) -> None:
        store = self.make_store()
        (block,) = fill(store, blocks=1)
        store.save_snapshot(block.head, b"state")
        with self.reopen(store) as again:
            assert again.load_snapshot() in (None, (block.head, b"state"))

    def test_archived_runs_are_found_by_name_owner_phase_and_kind(self) -> None:
        with self.make_store() as store:
            (block,) = fill(store, blocks=1)
            rows = some_rows(4)
            store.save_snapshot(block.head, b"state", rows)
            upto = block.head.seq
            assert store.archived_run("run-3", upto) == rows[2]
            assert store.archived_run("run-9", upto) is None
            assert store.archived_rows(row_query(upto)) == rows
            assert _found(store, row_query(upto)._replace(owner="b")) == ["run-2", "run-4"]
            assert _found(store, row_query(upto)._replace(phase="Failed")) == ["run-3"]
            assert _found(store, row_query(upto)._replace(is_claim=True)) == ["run-4"]
            assert _found(store, row_query(upto)._replace(after_seq=2)) == ["run-3", "run-4"]
            newest = row_query(upto)._replace(is_newest_first=True, before_seq=4, limit=2)
            assert _found(store, newest) == ["run-3", "run-2"]
            assert store.archived_count("b", upto) == len(["run-2", "run-4"])

    def test_a_later_snapshot_adds_to_the_archive_and_hides_nothing_of_it(self) -> None:
        with self.make_store() as store:
            one, two = (block.head for block in fill(store, blocks=2))
            rows = some_rows(3)
            store.save_snapshot(one, b"one", rows[:2])
            store.save_snapshot(two, b"two", rows[2:], base_seq=one.seq)
            assert store.archived_rows(row_query(two.seq)) == rows
            # A reader that began at the first snapshot has the third run in memory.
            assert store.archived_rows(row_query(one.seq)) == rows[:2]
            assert store.archived_run("run-3", one.seq) is None
            assert store.archived_count("a", one.seq) == 1

    def test_an_archive_is_not_added_to_a_snapshot_that_is_not_kept(self) -> None:
        with self.make_store() as store:
            one, two = (block.head for block in fill(store, blocks=2))
            rows = some_rows(3)
            store.save_snapshot(one, b"one", rows[:1])
            try:
                store.save_snapshot(two, b"two", rows[1:], base_seq=one.seq + 1)
            except StoreError:
                pass
            else:
                raise AssertionError("added to another snapshot")
            assert store.load_snapshot() == (one, b"one")
            assert store.archived_rows(row_query(two.seq)) == rows[:1]

    def test_a_snapshot_without_a_base_replaces_the_archive(self) -> None:
        with self.make_store() as store:
            one, two = (block.head for block in fill(store, blocks=2))
            rows = some_rows(3)
            store.save_snapshot(one, b"one", rows)
            assert store.archived_run("run-1", one.seq) == rows[0]
            store.save_snapshot(two, b"two", rows[1:])
            assert store.archived_rows(row_query(two.seq)) == rows[1:]
            assert store.archived_run("run-1", two.seq) is None

    def test_a_snapshot_may_be_saved_on_another_thread(self) -> None:
        with self.make_store() as store:
            one, two = (block.head for block in fill(store, blocks=2))
            rows = some_rows(3)
            store.save_snapshot(one, b"one", rows[:1])
            assert store.archived_run("run-1", one.seq) == rows[0]
            with ThreadPoolExecutor(1) as other:
                save = other.submit(store.save_snapshot, two, b"two", rows[1:], base_seq=one.seq)
                fill(store, blocks=3)
                save.result()
            assert store.load_snapshot() == (two, b"two")
            assert store.archived_rows(row_query(two.seq)) == rows

    def test_closing_twice_is_allowed(self) -> None:
        store = self.make_store()
        store.close()
        store.close()
