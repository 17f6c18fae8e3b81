"""The SQLite store, beyond the contract: files, locks, damage, full and read-only disks."""

from __future__ import annotations

import logging
import os
import random
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path

import pytest

from quorate.adapters.stores.archive_file import archive_path
from quorate.adapters.stores.sqlite_file import APPLICATION_ID, LAYOUT, sound_head
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.adapters.stores.writer_lock import WriterLock, lock_path
from quorate.ledger.chain import (
    GENESIS,
    Block,
    Broken,
    Head,
    Verified,
    open_blocks,
    seal,
    verify_blocks,
)
from quorate.model.events import Event
from quorate.ports.errors import (
    CorruptLedgerError,
    LedgerExistsError,
    LedgerHeldError,
    LedgerNotFoundError,
    LedgerVersionError,
    NotALedgerError,
    QuorateError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
)
from quorate.testing.store_contract import fill, some_events
from tests.bounds import WAIT_S, Deadline, started

CHANGED_BYTES = 400
PAGE_BYTES = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a closed ledger with 40 blocks."""
    path = tmp_path / "ledger.db"
    with SqliteStore.create(path) as store:
        fill(store, blocks=40, events_per_block=20)
    return path


def read_all(path: Path) -> list[Event]:
    """Return every event of the ledger at ``path``, with all checks."""
    with SqliteStore.read(path) as store:
        return [event for _, events in open_blocks(store.blocks()) for event in events]


@contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file like any SQLite tool, without the store."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        yield db


def run_python(code: str, *args: object) -> AbstractContextManager[subprocess.Popen[str]]:
    """Run ``code`` in another process, which ends with the block at the latest."""
    return started(
        [sys.executable, "-c", code, *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


# --- Files ----------------------------------------------------------------------------------------


def test_new_ledger_is_its_owners_alone_and_marked(tmp_path: Path) -> None:
    path = tmp_path / "odd ?#%name.db"
    with SqliteStore.create(path) as store:
        fill(store, blocks=1)
        beside = [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm", ".lock")]
        assert [stat.S_IMODE(file.stat().st_mode) for file in beside] == [0o600] * 4
    with database(path) as db:
        assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert db.execute("PRAGMA user_version").fetchone() == (LAYOUT,)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert len(read_all(path)) == 3


def test_existing_file_is_never_made_into_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("precious")
    with pytest.raises(LedgerExistsError, match=r"notes\.txt exists already"):
        SqliteStore.create(path)
    assert path.read_text() == "precious"


def test_ledger_is_not_created_in_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"directory .* does not exist"):
        SqliteStore.create(tmp_path / "nowhere" / "ledger.db")


@pytest.mark.parametrize("how", [SqliteStore.open, SqliteStore.read])
def test_missing_ledger_is_said_with_the_remedy(
    tmp_path: Path, how: Callable[[Path], SqliteStore]
) -> None:
    for path in (tmp_path / "ledger.db", tmp_path / "nowhere" / "ledger.db"):
        with pytest.raises(LedgerNotFoundError, match="quorate init"):
            how(path)
        assert list(tmp_path.iterdir()) == []


def test_directory_is_not_a_ledger(tmp_path: Path) -> None:
    with pytest.raises(NotALedgerError, match="not a plain file"):
        SqliteStore.read(tmp_path)


def test_lock_that_is_a_symbolic_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    lock_path(path).unlink()
    lock_path(path).symlink_to(victim)
    with pytest.raises(StoreError, match="symbolic link"):
        SqliteStore.open(path)
    assert victim.read_text() == "precious"


def test_two_names_of_one_ledger_share_one_lock(path: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    other = tmp_path / "elsewhere" / "same.db"
    other.symlink_to(path)
    with SqliteStore.open(path), pytest.raises(LedgerHeldError):
        SqliteStore.open(other)


def test_second_name_by_a_hard_link_is_no_way_to_a_second_writer(path: Path) -> None:
    other = path.with_name("hard.db")
    with SqliteStore.open(path) as store:
        os.link(path, other)
        with pytest.raises(StoreError, match=r"hard\.db has 2 names \(hard links\).*ledger backup"):
            SqliteStore.open(other)
        fill(store, blocks=1)
        with SqliteStore.read(path) as reader:
            assert reader.head() == store.head()
    with pytest.raises(StoreError, match=r"2 names"):
        SqliteStore.open(path)
    other.unlink()
    with SqliteStore.open(path) as store:
        fill(store, blocks=1)


def test_ledger_replaced_while_open_takes_no_more_blocks(path: Path, tmp_path: Path) -> None:
    with SqliteStore.open(path) as store:
        path.rename(tmp_path / "moved.db")
        with pytest.raises(LedgerNotFoundError):
            fill(store, blocks=1)
        path.write_bytes(b"")
        with pytest.raises(StoreError, match="replaced"):
            fill(store, blocks=1)


# --- One writer, many readers ---------------------------------------------------------------------

HOLDER = """
import sys
from pathlib import Path
from quorate.adapters.stores.store_sqlite import SqliteStore
with SqliteStore.open(Path(sys.argv[1])):
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.mark.heavy
def test_second_writer_is_told_who_holds_the_ledger_until_it_lets_go(path: Path) -> None:
    with run_python(HOLDER, path) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(LedgerHeldError) as caught:
            SqliteStore.open(path)
        assert caught.value.holder is not None
        assert caught.value.holder.pid == holder.pid
        assert f"process {holder.pid}" in str(caught.value)
        assert "stop it" in str(caught.value)
        with pytest.raises(LedgerHeldError):
            SqliteStore.create(path)
        assert len(read_all(path)) == 800  # readers are not locked out
        holder.stdin.close()
        assert holder.wait(WAIT_S) == 0
    with SqliteStore.open(path) as store:
        fill(store, blocks=1)


@pytest.mark.heavy
def test_lock_of_a_killed_writer_is_free(path: Path) -> None:
    with run_python(HOLDER, path) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        holder.send_signal(signal.SIGKILL)
        assert holder.wait(WAIT_S) == -signal.SIGKILL
    with SqliteStore.open(path) as store:
        fill(store, blocks=1)


def test_holder_that_did_not_say_who_it_is_is_still_a_holder(path: Path) -> None:
    with SqliteStore.open(path):
        lock_path(path).write_text("not a note")
        with pytest.raises(LedgerHeldError, match="another process") as caught:
            SqliteStore.open(path)
        assert caught.value.holder is None


def test_reader_sees_what_the_writer_appends_and_writes_nothing(path: Path) -> None:
    with SqliteStore.open(path) as writer, SqliteStore.read(path) as reader:
        before = reader.head()
        (block,) = fill(writer, blocks=1)
        assert reader.head() == block.head
        assert [*reader.blocks(from_height=41)] == [block]
        with pytest.raises(StoreReadOnlyError, match="opened for reading"):
            reader.append(block, expected=before)
        with pytest.raises(StoreReadOnlyError, match="opened for reading"):
            reader.save_snapshot(before, b"")


WRITER = """
import sys
from pathlib import Path
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.testing.store_contract import fill
with SqliteStore.open(Path(sys.argv[1])) as store:
    print("open", flush=True)
    while store.head().height < 2_040 or not Path(sys.argv[2]).exists():
        fill(store, blocks=1)
    print(store.head().height, flush=True)
"""


@pytest.mark.soak
@pytest.mark.slow
def test_readers_who_come_while_another_process_writes_find_a_sound_ledger(path: Path) -> None:
    heights: list[int] = []
    seen_some = path.with_name("seen-some")
    with run_python(WRITER, path, seen_some) as writer:
        assert writer.stdout is not None
        deadline = Deadline("the writer ends", 4 * WAIT_S)
        assert writer.stdout.readline() == "open\n"
        while writer.poll() is None:
            deadline.check(lambda: heights[-1:])
            with SqliteStore.read(path) as store:
                heights.append(store.head().height)
                last = store.blocks(from_height=heights[-1])
                assert next(last).head.height == heights[-1]
            if len(set(heights)) > 2:  # Other blocks came in between.
                seen_some.touch()
            with suppress(
                subprocess.TimeoutExpired
            ):  # Reading all the time would only take CPU from the writer.
                writer.wait(0.05)
        assert int(writer.stdout.readline()) >= 2_040
    assert heights == sorted(heights)


@pytest.mark.heavy
def test_reading_goes_on_while_the_same_process_writes(path: Path) -> None:
    with SqliteStore.open(path) as writer, SqliteStore.read(path) as reader:
        blocks = reader.blocks()
        first = next(blocks)
        fill(writer, blocks=200)
        assert verify_blocks([first, *blocks]) == Verified(
            head=reader_head(path, 40), events=800, blocks=40
        )


def reader_head(path: Path, height: int) -> Head:
    with SqliteStore.read(path) as store:
        return next(store.blocks(from_height=height)).head


@pytest.mark.slow  # waits as long as the store
def test_file_locked_by_another_program_is_busy(path: Path) -> None:
    with SqliteStore.open(path) as store:
        with database(path) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreBusyError, match="locked by another program"):
                fill(store, blocks=1)
            other.execute("ROLLBACK")
        fill(store, blocks=1)


# --- Not a ledger, or not one of ours -------------------------------------------------------------


def test_ledger_of_a_future_layout_names_both_versions(path: Path) -> None:
    with database(path) as db:
        db.execute(f"PRAGMA user_version = {LAYOUT + 6}")
    for how in (SqliteStore.open, SqliteStore.read):
        with pytest.raises(LedgerVersionError, match="version 7, this Quorate knows 1"):
            how(path)


def test_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with database(path) as db:
        db.execute("CREATE TABLE t (x)")
    before = path.read_bytes()
    for how in (SqliteStore.open, SqliteStore.read):
        with pytest.raises(NotALedgerError, match="another program"):
            how(path)
    assert path.read_bytes() == before


def test_empty_file_is_not_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.touch()
    with pytest.raises(NotALedgerError, match="empty"):
        SqliteStore.open(path)


def test_file_that_is_no_database_is_not_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(b"hello " * 1_000)
    for how in (SqliteStore.open, SqliteStore.read):
        with pytest.raises(NotALedgerError, match="not even a database"):
            how(path)


def test_ledger_whose_first_bytes_are_damaged_is_still_known_as_one(path: Path) -> None:
    changed = bytearray(path.read_bytes())
    changed[0] ^= 1
    path.write_bytes(changed)
    for how in (SqliteStore.open, SqliteStore.read):
        with pytest.raises(CorruptLedgerError, match="is damaged"):
            how(path)


def test_blocks_are_appended_together_or_not_at_all(path: Path, tmp_path: Path) -> None:
    with SqliteStore.read(path) as store:
        blocks = list(store.blocks())

    def failing() -> Iterator[Block]:
        yield from blocks[:3]
        raise ZeroDivisionError

    with SqliteStore.create(tmp_path / "copy.db") as copy:
        with pytest.raises(ZeroDivisionError):
            copy.append_all(failing())
        assert copy.head() == GENESIS
        assert copy.append_all(blocks) == blocks[-1].head
    assert read_all(tmp_path / "copy.db") == read_all(path)


def test_sound_head_is_where_the_readable_blocks_end(path: Path) -> None:
    with SqliteStore.read(path) as store:
        heads = [block.head for block in store.blocks()]
    assert sound_head(path) == heads[-1]
    with database(path) as db:
        db.execute("UPDATE block SET body = zeroblob(9) WHERE height = 7")
    assert sound_head(path) == heads[5]
    with database(path) as db:
        db.execute("DELETE FROM block WHERE height = 3")
    assert sound_head(path) == heads[1]
    path.write_bytes(b"nothing")
    assert sound_head(path) == GENESIS


def test_writer_waits_for_the_one_before_it(path: Path) -> None:
    letting_go = threading.Timer(0.3, WriterLock(path).release)
    began_s = time.monotonic()
    letting_go.start()
    with SqliteStore.open(path, wait_s=30):
        assert time.monotonic() - began_s > 0.2
        with pytest.raises(LedgerHeldError):
            SqliteStore.open(path, wait_s=0.1)
    letting_go.join(WAIT_S)


# --- Damage ---------------------------------------------------------------------------------------


def outcome(path: Path) -> list[Event] | str:
    """Return the events of a possibly damaged ledger, or the user's error."""
    try:
        return read_all(path)
    except QuorateError as error:
        return str(error)


def test_truncated_file_is_found_wherever_it_was_cut(path: Path) -> None:
    whole = path.read_bytes()
    lengths = [1, 99, 100, 4000, *range(PAGE_BYTES, len(whole), PAGE_BYTES), len(whole) - 1]
    for length in lengths:
        path.write_bytes(whole[:length])
        found = outcome(path)
        assert isinstance(found, str), f"cut at {length} of {len(whole)} and not noticed"
        assert str(path) in found or "block" in found


@pytest.mark.slow
def test_changed_byte_is_found_or_harmless_wherever_it_is(path: Path) -> None:
    """This includes SQLite's own structures, where a change could hide or add rows."""
    whole = path.read_bytes()
    events = read_all(path)
    chance = random.Random(7)
    # The first pages, with the header, tables and head of the file, get more tries.
    places = [chance.randrange(3 * PAGE_BYTES) for _ in range(CHANGED_BYTES // 4)]
    places += [*range(100), *(chance.randrange(len(whole)) for _ in range(CHANGED_BYTES))]
    found_out = 0
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        found = outcome(path)
        assert isinstance(found, str) or found == events, f"byte {place}: other events were read"
        found_out += isinstance(found, str)
    assert found_out > CHANGED_BYTES // 2  # most of the file is events


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("DELETE FROM block WHERE height = 17", "block 17 is missing"),
        ("DELETE FROM block WHERE height > 35", "last one found is block 35"),
        ("DELETE FROM block", "last one found is block 0"),
        ("DELETE FROM head", "record of the last block is missing"),
        ("UPDATE head SET hash = zeroblob(32)", "has another hash"),
        ("UPDATE head SET height = 'many'", "record of the last block"),
        ("UPDATE head SET height = 39", "last block recorded is 39"),
        ("UPDATE block SET body = zeroblob(9) WHERE height = 3", "do not match its hash"),
        ("UPDATE block SET body = 'text' WHERE height = 3", "row is unreadable"),
        ("UPDATE block SET count = 21 WHERE height = 3", "filed as"),
        ("UPDATE block SET first_seq = 1 WHERE height = 3", "begins at sequence 1"),
        ("UPDATE block SET hash = zeroblob(32) WHERE height = 3", "do not match its hash"),
        ("DROP TABLE block", "no such table"),
        ("ALTER TABLE block RENAME COLUMN body TO soul", "no such column"),
    ],
)
def test_rows_changed_behind_the_stores_back_are_found(path: Path, damage: str, said: str) -> None:
    with database(path) as db:
        db.execute(damage)
    found = outcome(path)
    assert isinstance(found, str)
    assert said in found


def test_looking_for_an_event_finds_a_missing_row(path: Path) -> None:
    with database(path) as db:
        db.execute("DELETE FROM block WHERE height = 20")
    with (
        SqliteStore.read(path) as store,
        pytest.raises(CorruptLedgerError, match="block 20 is missing"),
    ):
        store.height_at(1)


def test_verify_answers_instead_of_raising_for_a_missing_row(path: Path) -> None:
    with database(path) as db:
        db.execute("DELETE FROM block WHERE height = 17")
    with SqliteStore.read(path) as store:
        found = verify_blocks(store.blocks())
    assert isinstance(found, Broken)
    assert (found.height, found.seq) == (17, 16 * 20 + 1)


def test_damage_is_found_by_a_writer_before_it_writes(path: Path) -> None:
    with database(path) as db:
        db.execute("DELETE FROM block WHERE height > 35")
    with pytest.raises(CorruptLedgerError, match="is damaged"):
        SqliteStore.open(path)
    with pytest.raises(CorruptLedgerError):  # and the lock is free again
        SqliteStore.open(path)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE snapshot SET payload = x'00'",
        "UPDATE snapshot SET seq = seq + 1",
        "UPDATE snapshot SET hash = zeroblob(32)",
        "UPDATE snapshot SET payload = 'text'",
        "DROP TABLE snapshot",
    ],
)
def test_damaged_snapshot_is_ignored_and_said(
    path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    with SqliteStore.open(path) as store:
        store.save_snapshot(store.head(), b"state")
    with database(archive_path(path)) as db:
        db.execute(damage)
    with SqliteStore.read(path) as store, caplog.at_level(logging.WARNING):
        assert store.load_snapshot() is None
        assert "the snapshot was ignored" in caplog.text
        assert len(list(store.blocks())) == 40


# --- Full and read-only disks ---------------------------------------------------------------------


@contextmanager
def small_disk(folder: Path, *, size: str = "1m") -> Iterator[Path]:
    """Mount a small separate disk on ``folder``; skip the test if that is not allowed."""
    folder.mkdir()
    mount = shutil.which("mount")
    if (
        mount is None
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
            check=False,
            capture_output=True,
        ).returncode
    ):
        pytest.skip("mounting a small disk needs privileges that this process does not have")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill_up(store: SqliteStore) -> list[Block]:
    """Append to ``store`` until the disk is full, and return the appended blocks."""
    added = []
    for _ in range(10_000):
        try:
            added += fill(store, blocks=1, events_per_block=100)
        except StoreFullError:
            return added
    pytest.fail("the disk was never full")


def test_full_disk_loses_nothing_and_is_survived(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        path = disk / "ledger.db"
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(300_000))
        with SqliteStore.create(path) as store:
            added = fill_up(store)
            assert added
            assert store.head() == added[-1].head
            assert list(store.blocks()) == added
            ballast.unlink()
            added += fill(store, blocks=1)
            assert list(store.blocks()) == added
        with SqliteStore.open(path) as store:
            assert list(store.blocks()) == added


def test_ledger_is_not_half_created_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", size="8k") as disk:
        path = disk / "ledger.db"
        with pytest.raises(StoreFullError):
            SqliteStore.create(path)
        assert not path.exists()
        assert {file.name for file in disk.iterdir()} <= {"ledger.db.lock"}


LIMITED = """
import resource, sys
from pathlib import Path
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.ledger.chain import Verified, verify_blocks
from quorate.ports.errors import StoreError
from quorate.testing.store_contract import fill
with SqliteStore.open(Path(sys.argv[1])) as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    added = 0
    try:
        for _ in range(1_000):
            fill(store, blocks=1, events_per_block=200)
            added += 1
    except StoreError as error:
        print(type(error).__name__, error)
    else:
        print("no error")
    assert store.head().height == 40 + added
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    fill(store, blocks=1)
    assert isinstance(verify_blocks(store.blocks(), deep=True), Verified)
    print(41 + added)
"""


@pytest.mark.heavy
@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_FSIZE)[1] != resource.RLIM_INFINITY,
    reason="this process may not lift its limit on file sizes",
)
def test_refused_write_leaves_the_store_usable_at_the_old_head(path: Path) -> None:
    with run_python(LIMITED, path) as child:
        told, _ = child.communicate(timeout=WAIT_S)
    assert child.returncode == 0
    error, height = told.splitlines()
    assert error.startswith("Store")
    assert "nothing was recorded" in error
    with SqliteStore.read(path) as store:
        assert store.head().height == int(height) > 41


@contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """Mount ``disk`` read-only during the block."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)


def test_ledger_on_a_read_only_disk_is_read_and_not_written(path: Path, tmp_path: Path) -> None:
    events = read_all(path)
    with small_disk(tmp_path / "disk") as disk:
        there = Path(shutil.copy(path, disk))
        with read_only(disk):
            assert read_all(there) == events
            with pytest.raises(StoreReadOnlyError, match="mounted read-only"):
                SqliteStore.open(there)
            with pytest.raises(StoreReadOnlyError, match="mounted read-only"):
                SqliteStore.create(disk / "new.db")


def test_newest_blocks_are_never_silently_left_out_on_a_read_only_disk(
    path: Path, tmp_path: Path
) -> None:
    """A copy that was made during writes has its newest blocks in the write-ahead log."""
    with small_disk(tmp_path / "disk") as disk:
        with SqliteStore.open(path) as store:
            (newest,) = fill(store, blocks=1)
            for suffix in ("", "-wal"):
                shutil.copy(f"{path}{suffix}", disk)
        there = disk / path.name
        with read_only(disk), pytest.raises(StoreReadOnlyError, match="copy both files"):
            SqliteStore.read(there)
        with SqliteStore.read(there) as copied:
            assert copied.head() == newest.head


def test_failed_append_is_rolled_back(path: Path) -> None:
    """A row that exists already, which only damage can cause, stops the transaction."""
    with SqliteStore.open(path) as store:
        head = store.head()
        with database(path) as db:
            db.execute("INSERT INTO block SELECT 41, 1, 1, x'', x'', x''")
        block = seal(head, some_events(2, at_ms=head.seq))
        with pytest.raises(CorruptLedgerError):
            store.append(block, expected=head)
        assert store.head() == head
        with database(path) as db:
            db.execute("DELETE FROM block WHERE height = 41")
        store.append(block, expected=head)
        assert store.head() == block.head


def test_new_ledger_is_at_genesis_when_reopened(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    SqliteStore.create(path).close()
    with SqliteStore.open(path) as store:
        assert store.head() == GENESIS
    assert read_all(path) == []
