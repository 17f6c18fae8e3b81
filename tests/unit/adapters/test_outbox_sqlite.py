"""The outbox in a file, beyond the contract: modes, foreign and damaged files, threads."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from quorate.adapters.stores.outbox_sqlite import LAYOUT, SqliteOutbox, outbox_path
from quorate.ports.errors import OutboxError, StoreError
from quorate.ports.outbox_port import Parcel


def test_it_lies_beside_the_ledger_whatever_link_leads_there(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    link = tmp_path / "elsewhere"
    link.symlink_to(ledger)
    assert outbox_path(link) == outbox_path(ledger) == tmp_path / "ledger.db.outbox"


def test_only_its_owner_may_read_it_and_what_sqlite_puts_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db.outbox"
    with closing(SqliteOutbox.open(path)) as outbox:
        outbox.take_in("s", [Parcel("a", "ml", b"x", 1)], 1)
        assert outbox.path == path
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == dict.fromkeys((path.name, path.name + "-wal", path.name + "-shm"), 0o600)


@pytest.mark.parametrize("text", [b"hello, I am a text file\n" * 100, b"\0" * 8192])
def test_a_file_that_is_something_else_is_refused_and_left_alone(
    tmp_path: Path, text: bytes
) -> None:
    path = tmp_path / "ledger.db.outbox"
    path.write_bytes(text)
    with pytest.raises(OutboxError, match="move the file away"):
        SqliteOutbox.open(path)
    assert path.read_bytes() == text


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db.outbox"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE mine (id INTEGER)")
    before = path.read_bytes()
    with pytest.raises(OutboxError, match="another program"):
        SqliteOutbox.open(path)
    assert path.read_bytes() == before


def test_an_outbox_of_a_later_layout_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db.outbox"
    SqliteOutbox.open(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {LAYOUT + 1}")
    with pytest.raises(OutboxError, match=f"layout version {LAYOUT + 1}"):
        SqliteOutbox.open(path)


def test_an_outbox_of_the_first_layout_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db.outbox"
    with closing(SqliteOutbox.open(path)) as outbox:
        outbox.take_in("s", [Parcel("a", "ml", b"x", 3)], 3)
    with closing(sqlite3.connect(path)) as db:
        db.execute("ALTER TABLE sink DROP COLUMN head")
        db.execute("PRAGMA user_version = 1")
        db.commit()
    for _ in range(2):
        with closing(SqliteOutbox.open(path)) as outbox:
            assert (outbox.cursor("s"), outbox.head("s")) == (3, b"")
            assert [one.key for one in outbox.due("s", 0, 9)] == ["a"]
    with closing(SqliteOutbox.open(path)) as outbox:
        outbox.take_in("s", [], 4, b"four")
        assert outbox.head("s") == b"four"


def test_an_empty_file_that_a_crash_left_is_laid_out(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db.outbox"
    path.touch()
    with closing(SqliteOutbox.open(path)) as outbox:
        outbox.take_in("s", [], 3)
        assert outbox.cursor("s") == 3


def test_a_damaged_outbox_names_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db.outbox"
    with closing(SqliteOutbox.open(path)) as outbox:
        outbox.take_in("s", [Parcel(f"{n}", "ml", b"x" * 900, 1) for n in range(200)], 1)
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(OutboxError, match="move the file away"):
        _read_all(path)


def _read_all(path: Path) -> None:
    with closing(SqliteOutbox.open(path)) as outbox:
        outbox.cursor("s")
        outbox.due("s", 0, 10)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nowhere does not exist"):
        SqliteOutbox.open(tmp_path / "nowhere" / "ledger.db.outbox")


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db.outbox"
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="symbolic link"):
        SqliteOutbox.open(path)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.heavy
def test_a_full_disk_takes_nothing_in_and_the_outbox_goes_on_when_there_is_room(
    tmp_path: Path,
) -> None:
    code = """
import resource, signal, sys
from pathlib import Path
from quorate.adapters.stores.outbox_sqlite import SqliteOutbox
from quorate.ports.errors import StoreError
from quorate.ports.outbox_port import Parcel
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
outbox = SqliteOutbox.open(Path(sys.argv[1]))
outbox.take_in("s", [Parcel("a", "ml", b"x", 1)], 1)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
try:
    outbox.take_in("s", [Parcel("b", "bio", b"x" * 400_000, 2)], 2)
except StoreError as error:
    print("refused", outbox.cursor("s"), outbox.waiting("s").parcels)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
outbox.take_in("s", [Parcel("b", "bio", b"x" * 400_000, 2)], 2)
print(outbox.cursor("s"), outbox.waiting("s").parcels)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "o")],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.split("\n") == ["refused 1 1", "2 2", ""]


def test_threads_take_turns(tmp_path: Path) -> None:
    with closing(SqliteOutbox.open(tmp_path / "o")) as outbox:

        def work(sink: str) -> int:
            for seq in range(1, 21):
                outbox.take_in(sink, [Parcel(f"{seq}", f"{seq % 3}", b"x", seq)], seq)
                if seq % 2:
                    outbox.delivered(sink, outbox.due(sink, 0, 1)[0].key)
            return outbox.waiting(sink).parcels

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(work, "abcd")) == [10, 10, 10, 10]
