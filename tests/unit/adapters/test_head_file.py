from __future__ import annotations

import logging
import os
import random
import shutil
from pathlib import Path

import pytest

from quorate.adapters.clock_system import SystemClock
from quorate.adapters.key_file import create_key, key_path
from quorate.adapters.stores.head_file import SLOT_BYTES, HeadFile, head_path, read_head
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.cli.creation import create_ledger
from quorate.ledger.chain import GENESIS, Head
from quorate.ledger.checkpoint import Checkpoint, unsigned_checkpoint, verify_signature
from quorate.ports.errors import CorruptLedgerError, StoreError, StoreReadOnlyError
from quorate.testing.store_contract import fill

BLOCKS = 6


def record(height: int) -> Checkpoint:
    head = Head(height=height, seq=3 * height, hash=bytes([height]) * 32)
    return unsigned_checkpoint("ledger", head, 1_000 + height)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a closed ledger with a few blocks."""
    found = tmp_path / "ledger.db"
    with SqliteStore.create(found) as store:
        fill(store, blocks=BLOCKS)
    return found


def keyed(folder: Path) -> Path:
    """Return a ledger with its key beside it."""
    path = folder / "keyed.db"
    create_ledger(str(path), SystemClock(), actor="test")
    return path


def test_last_record_is_read_back(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    file = HeadFile.create(ledger, record(1))
    for height in range(2, 9):
        file.write(record(height))
        assert read_head(ledger) == file.record == record(height)
    file.close()
    file.close()


def test_torn_write_leaves_the_record_before_it(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    file = HeadFile.create(ledger, record(1))
    file.write(record(2))
    before = head_path(ledger).read_bytes()
    file.write(record(3))
    file.close()
    after = head_path(ledger).read_bytes()
    differing = [at for at, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    # Whichever of its bytes reached the disk, one of the two records is valid.
    for cut in range(differing[0], differing[-1] + 1):
        head_path(ledger).write_bytes(after[:cut] + before[cut:])
        assert read_head(ledger) == record(2)
    head_path(ledger).write_bytes(after)
    assert read_head(ledger) == record(3)


def test_head_file_without_a_whole_slot_is_refused_with_the_remedy(path: Path) -> None:
    head_path(path).write_bytes(bytes(2 * SLOT_BYTES))
    for how in (SqliteStore.open, SqliteStore.read):
        with pytest.raises(CorruptLedgerError, match=r"ledger\.db\.head cannot be read.*--against"):
            how(path)


def test_folder_or_pipe_in_place_of_the_head_file_is_named_with_the_remedy(path: Path) -> None:
    whole = head_path(path).read_bytes()
    for make, undo in ((Path.mkdir, Path.rmdir), (os.mkfifo, Path.unlink)):
        head_path(path).unlink()
        make(head_path(path))
        for how in (SqliteStore.open, SqliteStore.read):
            with pytest.raises(CorruptLedgerError) as caught:
                how(path)
            said = str(caught.value)
            assert "ledger.db.head cannot be read: " in said
            assert "then move ledger.db.head away" in said
        undo(head_path(path))
        head_path(path).write_bytes(whole)
    with SqliteStore.open(path) as store:
        assert store.head().height == BLOCKS


@pytest.mark.skipif(os.getuid() == 0, reason="root opens every file")
def test_head_file_that_may_not_be_opened_is_named(path: Path) -> None:
    head_path(path).chmod(0)
    with pytest.raises(StoreReadOnlyError, match=r"ledger\.db\.head cannot be opened \(Perm"):
        SqliteStore.read(path)


@pytest.mark.heavy
def test_changed_byte_of_the_head_file_is_never_a_later_end(path: Path) -> None:
    whole = head_path(path).read_bytes()
    chance = random.Random(3)
    for _ in range(200):
        changed = bytearray(whole)
        changed[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        head_path(path).write_bytes(changed)
        found = read_head(path)
        assert found is not None
        assert found.height in (BLOCKS - 1, BLOCKS)


def test_head_file_is_the_owners_alone(path: Path) -> None:
    assert head_path(path).stat().st_mode & 0o777 == 0o600


def test_every_commit_is_recorded(path: Path) -> None:
    with SqliteStore.open(path) as store:
        for _ in range(3):
            fill(store, blocks=1)
            end = read_head(path)
            assert end is not None
            assert (end.height, end.seq, end.hash) == (
                store.head().height,
                store.head().seq,
                store.head().hash,
            )
            assert store.kept_end() == end


def cut_to(path: Path, height: int) -> None:
    """Replace the ledger by a copy that has only its first blocks."""
    shorter = path.with_name("shorter.db")
    with SqliteStore.read(path) as whole, SqliteStore.create(shorter) as made:
        made.append_all(block for block in whole.blocks() if block.height <= height)
    shorter.replace(path)


@pytest.mark.parametrize("height", [BLOCKS - 1, 1, 0])
def test_log_that_ends_before_its_record_is_refused_with_what_is_missing(
    path: Path, height: int
) -> None:
    cut_to(path, height)
    said = (
        rf"recorded block {BLOCKS}, sequence {3 * BLOCKS}.* ends at block {height}, sequence "
        rf"{3 * height}: {BLOCKS - height} block.* acknowledged are lost; .*ledger restore.*"
        r"move ledger\.db\.head away"
    )
    for how in (SqliteStore.open, SqliteStore.read):
        with pytest.raises(CorruptLedgerError, match=said):
            how(path)


def test_operator_who_moves_the_head_file_away_goes_on_with_the_shorter_log(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cut_to(path, 2)
    head_path(path).rename(path.with_name("aside"))
    with caplog.at_level(logging.WARNING), SqliteStore.open(path) as store:
        assert store.head().height == 2
    assert "had no head file ledger.db.head" in caplog.text
    end = read_head(path)
    assert end is not None
    assert end.height == 2


def test_record_behind_the_log_is_brought_up_to_date(path: Path) -> None:
    before = head_path(path).read_bytes()
    with SqliteStore.open(path) as store:
        fill(store, blocks=2)
    # The process died between its commit and the write of the head file.
    head_path(path).write_bytes(before)
    with SqliteStore.read(path) as reader:
        assert reader.head().height == BLOCKS + 2
    with SqliteStore.open(path) as store:
        assert store.head().height == BLOCKS + 2
    end = read_head(path)
    assert end is not None
    assert end.height == BLOCKS + 2


def test_ledger_of_before_opens_and_gets_a_head_file(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    head_path(path).unlink()
    with SqliteStore.read(path) as reader:
        assert reader.kept_end() is None
    assert not head_path(path).exists()
    with caplog.at_level(logging.WARNING), SqliteStore.open(path) as store:
        assert store.head().height == BLOCKS
    assert f"created one at block {BLOCKS}" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING), SqliteStore.open(path):
        pass
    assert caplog.text == ""


@pytest.mark.heavy
def test_head_file_of_another_history_is_refused(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    create_ledger(str(other), SystemClock(), actor="test")
    shutil.copyfile(head_path(other), head_path(path))
    for how in (SqliteStore.open, SqliteStore.read):
        with pytest.raises(CorruptLedgerError, match="rewritten, or one of the two files"):
            how(path)


@pytest.mark.heavy
def test_record_is_signed_with_the_key_beside_the_ledger(tmp_path: Path) -> None:
    end = read_head(keyed(tmp_path))
    assert end is not None
    assert verify_signature(end)


@pytest.mark.heavy
def test_record_signed_by_another_key_is_refused(tmp_path: Path) -> None:
    path = keyed(tmp_path)
    end = read_head(path)
    assert end is not None
    other = tmp_path / "other.db"
    create_ledger(str(other), SystemClock(), actor="test")
    their_end = read_head(other)
    assert their_end is not None
    forged = HeadFile.open(path)
    assert forged is not None
    # The right end, with a signature of another end.
    forged.write(
        Checkpoint(
            ledger_id=end.ledger_id,
            height=end.height,
            seq=end.seq,
            hash=end.hash,
            at_ms=end.at_ms,
            public_key=their_end.public_key,
            signature=their_end.signature,
        )
    )
    forged.close()
    with pytest.raises(CorruptLedgerError, match="not made by this ledger's key"):
        SqliteStore.open(path)


@pytest.mark.heavy
def test_another_ledgers_key_signs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = keyed(tmp_path)
    key_path(path).unlink()
    create_key(key_path(path))
    with caplog.at_level(logging.WARNING), SqliteStore.open(path) as store:
        fill(store, blocks=1)
    assert "is not the key of this ledger" in caplog.text
    end = read_head(path)
    assert end is not None
    assert end.signature == b""


def test_new_ledger_is_not_made_beside_a_head_file_that_is_left(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    HeadFile.create(path, record(4)).close()
    with pytest.raises(
        StoreError,
        match=r"remains from a ledger that was here, up to sequence \d+ at 1970.*restore a backup",
    ):
        SqliteStore.create(path)
    assert not path.exists()
    assert read_head(path) == record(4)


def test_failed_head_write_takes_nothing_back_and_fails_the_next_commit(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore.open(path)
    # The open descriptors are made read-only, as on a disk that has become read-only.
    fds = [
        int(link.name)
        for link in Path("/proc/self/fd").iterdir()
        if link.resolve() == head_path(path).resolve()
    ]
    (fd,) = fds
    kept = os.dup(fd)
    unwritable = os.open(head_path(path), os.O_RDONLY)
    os.dup2(unwritable, fd)
    with caplog.at_level(logging.WARNING):
        fill(store, blocks=1)
    assert "could not be written" in caplog.text
    head = store.head()
    assert head.height == BLOCKS + 1
    with pytest.raises(StoreError):
        fill(store, blocks=1)
    assert store.head() == head
    os.dup2(kept, fd)
    fill(store, blocks=1)
    assert store.head().height == BLOCKS + 2
    end = read_head(path)
    assert end is not None
    assert end.height == BLOCKS + 2
    os.close(kept)
    os.close(unwritable)
    store.close()


def test_refused_opening_leaves_the_write_ahead_log_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    child = os.fork()
    if child == 0:
        store = SqliteStore.create(path)
        fill(store, blocks=BLOCKS)
        os._exit(0)  # Without closing, so that everything is still in the write-ahead log.
    assert os.waitpid(child, 0)[1] == 0
    wal = path.with_name("ledger.db-wal")
    damaged = bytearray(wal.read_bytes())
    damaged[-2_000:-1_984] = bytes(16 * [0xAA])
    wal.write_bytes(damaged)
    for how in (SqliteStore.open, SqliteStore.read):
        with pytest.raises(CorruptLedgerError, match="its end is missing"):
            how(path)
    assert wal.read_bytes() == damaged


def test_empty_ledger_has_a_record_of_its_start(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    SqliteStore.create(path).close()
    end = read_head(path)
    assert end is not None
    assert (end.height, end.hash) == (GENESIS.height, GENESIS.hash)
