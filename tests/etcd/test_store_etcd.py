"""Behaviour of a store in etcd beyond the contract of stores."""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from quorate.adapters.etcd.etcd_address import EtcdAddress
from quorate.adapters.etcd.etcd_client import EtcdClient, MemberStatus
from quorate.adapters.etcd.etcd_requests import Delete, Get, Put, Txn, after_prefix
from quorate.adapters.stores import store_urls
from quorate.adapters.stores.etcd_reading import SEGMENTS_ROOM
from quorate.adapters.stores.etcd_records import INLINE_BYTES_MAX, EtcdKeys, head_of
from quorate.adapters.stores.etcd_upkeep import (
    DEFRAGMENT_BYTES,
    SNAPSHOTS_ROOM,
    is_worth_defragmenting,
)
from quorate.adapters.stores.ledger_copy import copy_store
from quorate.adapters.stores.store_etcd import EtcdStore
from quorate.ledger.chain import GENESIS, Block, Verified, seal, verify_blocks
from quorate.model.events import Outcome, RunEnded
from quorate.ports.errors import (
    CorruptLedgerError,
    LedgerExistsError,
    LedgerHeldError,
    LedgerNotFoundError,
    LedgerVersionError,
    SegmentError,
    StaleHeadError,
    StoreError,
    StoreReadOnlyError,
)
from quorate.testing.store_contract import fill, row_query, some_chain, some_events, some_rows
from tests.bounds import until
from tests.etcd_server import Member
from tests.service.program import reserved_port

pytestmark = pytest.mark.slow
SMALL = 600
"""A segment of about five blocks of these tests."""


def elsewhere(address: EtcdAddress, folder: Path) -> EtcdAddress:
    """Return the address of the same ledger from another machine, which shares the archive."""
    folder.mkdir()
    return replace(address, local=folder / "ledger")


def hot_heights(client: EtcdClient, address: EtcdAddress) -> list[int]:
    prefix = f"{address.name}/block/".encode()
    rows = client.get(Get(prefix, after_prefix(prefix)))
    return [int(row.key.removeprefix(prefix), 16) for row in rows]


def files(address: EtcdAddress, room: str = SEGMENTS_ROOM) -> list[Path]:
    return sorted((address.archive / room).glob("*"))


def filled(address: EtcdAddress, *, blocks: int = 23) -> list[Block]:
    """Create a ledger whose older blocks are in the archive; return all blocks."""
    with EtcdStore.create(address, segment_bytes=SMALL) as store:
        added = fill(store, blocks=blocks)
        store.save_snapshot(added[-1].head, b"state", some_rows(2))
    return added


def test_a_ledger_is_made_opened_read_and_removed_by_its_url(etcd_url: str) -> None:
    with pytest.raises(LedgerNotFoundError, match="there is no ledger at etcd://"):
        store_urls.open_store(etcd_url)
    with pytest.raises(LedgerNotFoundError):
        store_urls.read_store(etcd_url)
    with store_urls.create_store(etcd_url) as store:
        added = fill(store, blocks=3)
    with pytest.raises(LedgerExistsError, match="exists already"):
        store_urls.create_store(etcd_url)
    with store_urls.open_store(etcd_url, wait_s=0.1) as store:
        assert store.kept_end() is None
        with pytest.raises(LedgerHeldError):
            store_urls.open_store(etcd_url)
        with store_urls.read_store(etcd_url) as reading, store_urls.read_pages(etcd_url) as pages:
            added += fill(store, blocks=1)
            assert list(reading.blocks()) == added
            assert list(pages.blocks()) == added[:-1]
            for each in (reading, pages):
                with pytest.raises(StoreReadOnlyError):
                    each.append(seal(added[-1].head, some_events(1)), expected=added[-1].head)
                with pytest.raises(StoreReadOnlyError):
                    each.append_all([])
                with pytest.raises(StoreReadOnlyError):
                    each.save_snapshot(added[-1].head, b"")
    assert store_urls.sound_head_at(etcd_url) == added[-1].head
    store_urls.check_store_writable(etcd_url)
    store_urls.remove_store(etcd_url)
    with pytest.raises(LedgerNotFoundError):
        store_urls.read_store(etcd_url)


def test_a_ledger_is_made_by_the_first_member_that_answers(address: EtcdAddress) -> None:
    with reserved_port() as gone:
        members = (f"127.0.0.1:{gone}", *address.endpoints)
        with EtcdStore.create(replace(address, endpoints=members)) as store:
            assert store.head() == GENESIS
        with pytest.raises(LedgerExistsError):
            EtcdStore.create(replace(address, endpoints=members))


def test_a_folder_that_is_not_there_is_said_to_be_missing(address: EtcdAddress) -> None:
    with pytest.raises(StoreError, match="nowhere"):
        EtcdStore.create(replace(address, local=address.local.parent / "nowhere" / "ledger"))


def test_a_block_larger_than_a_request_is_stored_in_parts(address: EtcdAddress) -> None:
    note = "x" * 1_000
    events = [RunEnded(n, note, f"run-{n}", Outcome.COMPLETED) for n in range(4_000)]
    block = seal(GENESIS, events)
    assert len(block.body) > 3 * INLINE_BYTES_MAX
    with EtcdStore.create(address, segment_bytes=1) as store:
        store.append(block, expected=GENESIS)
        more = fill(store, blocks=2)
        assert list(store.blocks()) == [block, *more]
        store.save_snapshot(block.head, b"state")
        assert len(files(address)) == 1
        assert list(store.blocks()) == [block, *more]
        chain = [seal(store.head(), events)]
        chain.append(seal(chain[0].head, some_events(1, at_ms=9_999)))
        assert store.append_all(chain) == chain[-1].head
        assert list(store.blocks(from_height=4)) == chain


def test_a_long_chain_is_appended_as_a_whole(address: EtcdAddress) -> None:
    chain = some_chain(200)
    with EtcdStore.create(address) as store:
        assert store.append_all(chain) == chain[-1].head
        assert list(store.blocks()) == chain
        assert [store.height_at(seq) for seq in (1, 2, 3, 200, 399, 400)] == [
            1,
            1,
            2,
            100,
            200,
            200,
        ]


def test_closed_segments_leave_etcd_and_the_chain_runs_through_both(
    address: EtcdAddress, client: EtcdClient
) -> None:
    added = filled(address)
    segments = files(address)
    assert len(segments) > 2
    hot = hot_heights(client, address)
    assert 0 < len(hot) < 10
    with EtcdStore.open(address, segment_bytes=SMALL) as store:
        assert list(store.blocks()) == added
        for height in range(1, 25):
            assert list(store.blocks(from_height=height)) == added[height - 1 :]
        for block in added:
            seqs = range(block.first_seq, block.first_seq + block.count)
            assert {store.height_at(seq) for seq in seqs} == {block.height}
        # Blocks in the archive were verified when they moved there.
        assert store.verified_head() == added[hot[0] - 2].head
        # No block moves before there is a whole segment again.
        store.save_snapshot(store.head(), b"state")
        assert files(address) == segments
        added += fill(store, blocks=20)
        store.save_snapshot(store.head(), b"state")
        assert len(files(address)) > len(segments)
        assert list(store.blocks()) == added
        assert isinstance(verify_blocks(store.blocks(), deep=True), Verified)


def test_a_machine_without_anything_begins_at_the_published_snapshot(
    address: EtcdAddress, tmp_path: Path
) -> None:
    added = filled(address)
    published = files(address, SNAPSHOTS_ROOM)
    assert [path.name for path in published] == ["000000000023.archive"]
    fresh = elsewhere(address, tmp_path / "other")
    with EtcdStore.open(fresh, segment_bytes=SMALL) as store:
        assert store.load_snapshot() == (added[-1].head, b"state")
        assert store.archived_rows(row_query(added[-1].head.seq)) == some_rows(2)
        # The store continues from there: its archive is extended.
        added += fill(store, blocks=20)
        before = added[22].head.seq
        store.save_snapshot(store.head(), b"later", some_rows(3)[2:], base_seq=before)
        assert store.load_snapshot() == (added[-1].head, b"later")
    with EtcdStore.open(address, segment_bytes=SMALL) as store:
        # Its own snapshot is older than the one that the other machine published.
        assert store.load_snapshot() == (added[-1].head, b"later")
        assert store.archived_rows(row_query(added[-1].head.seq)) == some_rows(3)
        for _ in range(2):
            added += fill(store, blocks=20)
            store.save_snapshot(store.head(), b"last")
    names = [path.name for path in files(address, SNAPSHOTS_ROOM)]
    assert names == ["000000000063.archive", "000000000083.archive"]


def test_a_published_snapshot_that_is_damaged_is_passed_over(
    address: EtcdAddress, tmp_path: Path
) -> None:
    added = filled(address)
    (published,) = files(address, SNAPSHOTS_ROOM)
    (address.archive / SNAPSHOTS_ROOM / "000000000022.archive").write_bytes(b"no database at all")
    shutil.copy(published, published.with_name("000000000099.archive"))
    fresh = elsewhere(address, tmp_path / "other")
    with EtcdStore.open(fresh) as store:
        assert store.load_snapshot() == (added[-1].head, b"state")
    published.write_bytes(published.read_bytes()[:5_000])
    last = elsewhere(address, tmp_path / "another")
    with EtcdStore.open(last) as store:
        assert store.load_snapshot() is None
        assert list(store.blocks()) == added


def test_a_segment_that_is_damaged_or_gone_is_named_and_nothing_else_is_given(
    address: EtcdAddress,
) -> None:
    added = filled(address)
    first, second = files(address)[:2]
    kept = second.read_bytes()
    with EtcdStore.read(address) as store:
        second.write_bytes(kept[:-1] + b"\0")
        with pytest.raises(SegmentError, match=f"{second.name}: its contents do not match"):
            list(store.blocks())
        second.unlink()
        with pytest.raises(SegmentError, match="cannot be read: No such file"):
            list(store.blocks())
        assert store.sound_head().height == int(first.name.split("-")[1])
        second.write_bytes(kept)
        assert list(store.blocks()) == added


def test_what_cannot_be_archived_stays_in_etcd(
    address: EtcdAddress, client: EtcdClient, caplog: pytest.LogCaptureFixture
) -> None:
    address.archive.write_text("a file where the folder should be", "utf-8")
    added = filled(address)
    assert "did not reach the archive" in caplog.text
    assert hot_heights(client, address) == list(range(1, 24))
    with EtcdStore.open(address) as store:
        assert store.load_snapshot() == (added[-1].head, b"state")


def test_two_machines_that_close_the_same_segments_close_them_once(
    address: EtcdAddress, tmp_path: Path, client: EtcdClient
) -> None:
    addresses = [address, elsewhere(address, tmp_path / "other")]
    with EtcdStore.create(address, segment_bytes=SMALL) as one:
        added = fill(one, blocks=60)
        with EtcdStore.open(addresses[1], segment_bytes=SMALL + 100) as two:
            with ThreadPoolExecutor(2) as both:
                saves = [
                    both.submit(each.save_snapshot, added[-1].head, b"state") for each in (one, two)
                ]
                for save in saves:
                    save.result()
            assert list(one.blocks()) == list(two.blocks()) == added
        prefix = f"{address.name}/segment/".encode()
        named = client.get(Get(prefix, after_prefix(prefix)))
        assert len(files(address)) == len(named)


def test_reading_goes_on_where_blocks_move_meanwhile(address: EtcdAddress) -> None:
    with EtcdStore.create(address, segment_bytes=SMALL) as store:
        added = fill(store, blocks=60)
        with EtcdStore.read(address) as other:
            reading = other.blocks()
            seen = [next(reading)]
            store.save_snapshot(added[-1].head, b"state")
            seen.extend(reading)
            assert seen == added
            assert other.height_at(added[0].head.seq) == 1


def test_a_block_that_is_in_neither_place_is_named(
    address: EtcdAddress, client: EtcdClient
) -> None:
    filled(address)
    height = hot_heights(client, address)[1]
    client.commit(Txn(compare=(), then=(Delete(EtcdKeys(address.name).block(height)),)))
    with EtcdStore.read(address) as store:
        with pytest.raises(CorruptLedgerError, match=f"block {height}, or a part of it"):
            list(store.blocks())
        assert store.sound_head().height == height - 1


def test_a_segment_that_does_not_follow_the_one_before_is_named(
    address: EtcdAddress, client: EtcdClient
) -> None:
    filled(address)
    keys = EtcdKeys(address.name)
    second = client.get(Get(keys.segments, after_prefix(keys.segments)))[1]
    client.commit(Txn(compare=(), then=(Delete(second.key),)))
    with (
        EtcdStore.read(address) as store,
        pytest.raises(CorruptLedgerError, match="no segment of the archive follows block"),
    ):
        store.verified_head()


def test_a_key_that_holds_something_else_is_named(address: EtcdAddress, client: EtcdClient) -> None:
    filled(address)
    keys = EtcdKeys(address.name)
    for key in (keys.segment(1), keys.head):
        client.commit(Txn(compare=(), then=(Put(key, b"\x93\x01"),)))
        with (
            pytest.raises(CorruptLedgerError, match=key.decode()),
            EtcdStore.read(address) as store,
        ):
            list(store.blocks())
    newer = b"\x94\x02\x01\x01\xc4\x01x"
    client.commit(Txn(compare=(), then=(Put(keys.head, newer),)))
    with pytest.raises(LedgerVersionError, match="layout version 2"):
        EtcdStore.open(address)


def test_writers_of_two_machines_take_turns_and_the_late_one_is_told(
    address: EtcdAddress, tmp_path: Path
) -> None:
    with (
        EtcdStore.create(address) as one,
        EtcdStore.open(elsewhere(address, tmp_path / "other")) as two,
    ):
        (first,) = fill(one, blocks=1)
        (second,) = fill(two, blocks=1)
        late = seal(first.head, some_events(3, at_ms=50))
        with pytest.raises(StaleHeadError) as caught:
            one.append(late, expected=first.head)
        assert caught.value.actual == second.head
        (third,) = fill(one, blocks=1)
        assert list(two.blocks()) == [first, second, third]


def test_marks_of_writers_that_have_ended_leave_etcd_with_their_blocks(
    address: EtcdAddress, client: EtcdClient, tmp_path: Path
) -> None:
    marks = EtcdKeys(address.name).writers

    def written() -> set[int]:
        rows = client.get(Get(marks, after_prefix(marks)))
        return {head_of(row, "t").height for row in rows}

    with EtcdStore.create(address) as one:
        fill(one, blocks=1)
    with EtcdStore.open(elsewhere(address, tmp_path / "other"), segment_bytes=100) as two:
        fill(two, blocks=6)
        assert written() == {1, 7}
        two.save_snapshot(two.head(), b"state")
        assert two.verified_head().height > 1
        assert written() <= {7}
        fill(two, blocks=1)
        assert written() == {8}


def test_a_follower_hears_of_an_append_without_asking(address: EtcdAddress) -> None:
    with EtcdStore.create(address) as store, EtcdStore.read(address) as follower:
        assert follower.wait_for(0, within_s=60.0) == GENESIS
        for _ in range(5):
            (block,) = fill(store, blocks=1)
            assert follower.wait_for(block.head.seq, within_s=60.0) == block.head
        # The store does not wait for an answer that never comes.
        head = store.head()
        assert follower.wait_for(head.seq + 1, within_s=0.0) == head


def test_a_follower_goes_on_after_etcd_was_away_and_has_forgotten(
    etcd_program: Path, tmp_path: Path
) -> None:
    member = Member(etcd_program, tmp_path, more=["--unsafe-no-fsync"])
    address = EtcdAddress(
        endpoints=(member.endpoint,),
        name="t",
        local=tmp_path / "ledger",
        archive=tmp_path / "segments",
    )
    with member.run():
        store = EtcdStore.create(address)
        follower = EtcdStore.read(address)
        (first,) = fill(store, blocks=1)
        assert follower.wait_for(first.head.seq, within_s=60.0) == first.head
    with member.run():
        until(lambda: follower.head() == first.head, "etcd is there again")
        fill(store, blocks=5)
        client = EtcdClient(address)
        (status,) = client.status()
        client.compact(status.revision)
        client.close()
        last = fill(store, blocks=1)[-1]
        assert follower.wait_for(last.head.seq, within_s=60.0) == last.head
        store.close()
        follower.close()
        follower.close()


def test_a_ledger_whose_etcd_has_no_space_is_usable_after_it_was_opened_again(
    etcd_program: Path, tmp_path: Path
) -> None:
    more = ["--unsafe-no-fsync", "--quota-backend-bytes", str(8 << 20)]
    member = Member(etcd_program, tmp_path, more=more)
    address = EtcdAddress(
        endpoints=(member.endpoint,),
        name="t",
        local=tmp_path / "ledger",
        archive=tmp_path / "segments",
    )
    with member.run():
        client = EtcdClient(address)
        with EtcdStore.create(address) as store:
            added = fill(store, blocks=2)
            with pytest.raises(StoreError, match="NOSPACE"):
                _overwrite(client)
            with pytest.raises(StoreError, match="restart a service of the ledger"):
                fill(store, blocks=1)
            with pytest.raises(StoreError, match="NOSPACE"):
                store.check_writable()
            assert list(store.blocks()) == added
        with EtcdStore.open(address) as store:
            fill(store, blocks=1)
        client.close()


def _overwrite(client: EtcdClient) -> None:
    """Put one key until its history fills the space of etcd."""
    for _ in range(100):
        client.commit(Txn(compare=(), then=(Put(b"other", bytes(1 << 20)),)))


def test_a_member_is_defragmented_when_its_file_is_large_and_mostly_empty() -> None:
    def status(taken: int, used: int) -> MemberStatus:
        return MemberStatus(
            endpoint="",
            cluster=1,
            member=1,
            version="",
            revision=1,
            bytes_taken=taken,
            bytes_used=used,
            troubles=(),
        )

    assert not is_worth_defragmenting(status(DEFRAGMENT_BYTES - 1, 0))
    assert not is_worth_defragmenting(status(DEFRAGMENT_BYTES, DEFRAGMENT_BYTES // 2))
    assert is_worth_defragmenting(status(DEFRAGMENT_BYTES, DEFRAGMENT_BYTES // 4))


def test_a_copy_of_a_damaged_ledger_leaves_nothing(
    address: EtcdAddress, etcd_url: str, client: EtcdClient, tmp_path: Path
) -> None:
    filled(address)
    height = hot_heights(client, address)[1]
    client.commit(Txn(compare=(), then=(Delete(EtcdKeys(address.name).block(height)),)))
    out = tmp_path / "copy.db"
    with pytest.raises(CorruptLedgerError, match=f"block {height}"):
        copy_store(etcd_url, str(out))
    assert not out.exists()
    with pytest.raises(LedgerExistsError):
        copy_store(etcd_url, etcd_url)


def test_no_other_store_needs_grpc() -> None:
    program = (
        "import sys; from quorate.adapters.stores import store_urls; store_urls.ledger_path('x'); "
        "sys.exit(any(name.split('.')[0] in ('grpc', 'google') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
