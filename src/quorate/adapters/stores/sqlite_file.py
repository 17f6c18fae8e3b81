"""Finds, creates, opens, recognises and salvages the SQLite file of a ledger."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final
from urllib.parse import quote

from quorate.adapters.file_errors import result_code, translated
from quorate.ledger.chain import GENESIS, Block, Head, sound_end
from quorate.ports.errors import (
    LedgerExistsError,
    LedgerNotFoundError,
    LedgerVersionError,
    NotALedgerError,
    StoreError,
    StoreReadOnlyError,
)

APPLICATION_ID: Final = 0x51554F52  # "QUOR"
LAYOUT: Final = 1
BUSY_SECONDS_MAX: Final = 5.0
NEEDED_BYTES: Final = 256 * 1024
"""The free space that ``check_writable`` requires: more than a commit of a few requests needs."""
_SCHEMA: Final = (
    """CREATE TABLE block (height INTEGER PRIMARY KEY, first_seq INTEGER NOT NULL,
        count INTEGER NOT NULL, prev_hash BLOB NOT NULL, hash BLOB NOT NULL, body BLOB NOT NULL)""",
    """CREATE TABLE head (id INTEGER PRIMARY KEY CHECK (id = 1), height INTEGER NOT NULL,
        seq INTEGER NOT NULL, hash BLOB NOT NULL)""",
)


def resolved(path: Path) -> Path:
    """Return ``path`` without symbolic links, so that all names of the file share one lock."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise StoreError(f"{path} cannot be resolved: {error}") from error


def existing(path: Path) -> Path:
    """Return the resolved ``path``; raises unless a plain file is there."""
    real = resolved(path)
    with translated(real):
        try:
            mode = real.stat().st_mode
        except NotADirectoryError as error:
            raise LedgerNotFoundError(real) from error
    if not stat.S_ISREG(mode):
        raise NotALedgerError(real, "it is not a plain file")
    return real


def identity(path: Path) -> tuple[int, int]:
    """Return the device and the inode of the file at ``path``, which identify the file."""
    found = path.stat()
    return found.st_dev, found.st_ino


def check_directory(directory: Path) -> None:
    """Raise unless files can be created in ``directory``."""
    if not directory.exists():
        raise StoreError(f"the directory {directory} does not exist; create it first")
    if not directory.is_dir():
        raise StoreError(f"{directory} is not a directory; choose another path")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise StoreReadOnlyError(
            f"the directory {directory} cannot be written; choose another directory, or check its "
            f"permissions and whether the disk is mounted read-only"
        )


def check_free(path: Path) -> None:
    """Raise ``LedgerExistsError`` if there is a file at ``path``."""
    if path.exists():
        raise LedgerExistsError(path)


def create_file(path: Path) -> None:
    """Create the empty file ``path``, readable by its owner only, durably."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode=0o600))
    except FileExistsError as error:
        raise LedgerExistsError(path) from error
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def remove_file(path: Path) -> None:
    """Remove an incomplete ledger file, its head file, and SQLite's files beside it."""
    for suffix in ("", "-wal", "-shm", "-journal", ".head"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).unlink()


def connected(path: Path, query: str) -> sqlite3.Connection:
    """Return a connection to the existing file ``path`` in autocommit mode."""
    db = sqlite3.connect(
        f"file:{quote(str(path))}?{query}",
        uri=True,
        isolation_level=None,
        timeout=BUSY_SECONDS_MAX,
    )
    # The file may come from an untrusted source, so no code in its schema may run, and invalid
    # cells are errors. Neither pragma reads the file, so neither can fail and leave the connection
    # open.
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA cell_size_check = ON")
    return db


def connected_to_read(path: Path) -> sqlite3.Connection:
    """Return a read-only connection to a file that is known to be a ledger."""
    db = connected(path, "mode=ro")
    try:
        check_identity(db, path)
    except sqlite3.OperationalError as error:
        db.close()
        if result_code(error) != sqlite3.SQLITE_CANTOPEN:
            raise
    except BaseException:
        db.close()
        raise
    else:
        return db
    # In a directory that cannot be written, SQLite cannot create its shared memory file. Without a
    # write-ahead log, the file is complete. Otherwise the file lacks the newest blocks.
    if _has_wal(path):
        msg = (
            f"{path} has its newest blocks in {path.name}-wal, which cannot be read in a "
            f"directory that is not writable; copy both files to a writable directory"
        )
        raise StoreReadOnlyError(msg)
    db = connected(path, "mode=ro&immutable=1")
    try:
        check_identity(db, path)
    except BaseException:
        db.close()
        raise
    return db


def configure(db: sqlite3.Connection) -> None:
    """Configure a writer's connection: a write-ahead log, synced at every commit."""
    (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreError(
            f"the file system does not support a write-ahead log (SQLite offers {mode!r})"
        )
    db.execute("PRAGMA synchronous = FULL")


def lay_out(db: sqlite3.Connection) -> None:
    """Create the tables of a ledger and set its application id and layout, in one transaction."""
    configure(db)
    db.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA:
        db.execute(statement)
    db.execute("INSERT INTO head VALUES (1, ?, ?, ?)", (GENESIS.height, GENESIS.seq, GENESIS.hash))
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {LAYOUT}")
    db.execute("COMMIT")


def check_identity(db: sqlite3.Connection, path: Path) -> None:
    """Raise unless the file is a ledger with a known layout."""
    (application_id,) = db.execute("PRAGMA application_id").fetchone()
    (layout,) = db.execute("PRAGMA user_version").fetchone()
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    if pages == 0:
        raise NotALedgerError(path, "it is empty; if `quorate init` was interrupted, remove it")
    if application_id != APPLICATION_ID:
        raise NotALedgerError(path, "it is a database of another program, or its header is damaged")
    if layout > LAYOUT:
        raise LedgerVersionError(path, found=layout, known=LAYOUT)
    if layout < 1:
        raise NotALedgerError(path, f"its layout version is {layout}")


def _has_wal(path: Path) -> bool:
    """Return whether there is a non-empty write-ahead log beside ``path``."""
    try:
        return path.with_name(path.name + "-wal").stat().st_size > 0
    except FileNotFoundError:
        return False


def check_writable(ledger: Path) -> None:
    """Raise a ``StoreError`` unless the disk of ``ledger`` accepts one more durable write."""
    with translated(ledger), TemporaryFile(dir=ledger.parent) as file:
        file.write(bytes(NEEDED_BYTES))
        file.flush()
        os.fsync(file.fileno())


def sound_head(path: Path) -> Head:
    """Return the head of the longest valid chain of blocks, from the first block on."""
    return sound_end(_readable(path))


def _readable(path: Path) -> Iterator[Block]:
    """Yield the blocks from the first block on, up to the first unreadable block."""
    height = 0
    try:
        with closing(connected(path, "mode=ro")) as db:
            # Without this pragma SQLite refuses a truncated file. Nothing is written, because the
            # connection is read-only.
            db.execute("PRAGMA writable_schema = ON")
            while True:
                height += 1
                row = db.execute(
                    "SELECT height, first_seq, count, prev_hash, hash, body FROM block "
                    "WHERE height = ?",
                    (height,),
                ).fetchone()
                match row:
                    case (int(), int(first_seq), int(count), bytes(prev), bytes(own), bytes(body)):
                        yield Block(
                            height=height,
                            first_seq=first_seq,
                            count=count,
                            prev_hash=prev,
                            hash=own,
                            body=body,
                        )
                    case _:
                        return
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return
