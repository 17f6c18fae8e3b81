"""The archive file: a ledger's last snapshot and its archived runs, in ``LEDGER.archive``.

Everything in the file is derived from the ledger. The file can be removed while no program has the
ledger open for writing. The archive is a separate file, so that no append waits for a lock while a
snapshot is written. One transaction writes a snapshot and its rows. So whenever the program or the
machine stops, the file has either the complete previous snapshot or the complete new one. A save
need not be durable when it returns, because lost rows are derived from the ledger again
(docs/adr/0033).

Rows of runs are added, but never changed. A row names the snapshot that archived the run, so that a
reader that started at an earlier snapshot ignores the row. Each row has a checksum over all its
columns.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, Final

from quorate.adapters.file_errors import translated
from quorate.adapters.stores.sqlite_file import connected, create_file
from quorate.ledger.archive import ArchivedRow, RowQuery
from quorate.ledger.chain import HASH_BYTES, Head
from quorate.ports.errors import ArchiveError, QuorateError, StoreError

APPLICATION_ID: Final = 0x51554F41  # "QUOA"
LAYOUT: Final = 1
_SUFFIX: Final = ".archive"
_BESIDE: Final = ("-wal", "-shm", "-journal")
_SCHEMA: Final = (
    """CREATE TABLE snapshot (id INTEGER PRIMARY KEY CHECK (id = 1), height INTEGER NOT NULL,
        seq INTEGER NOT NULL, hash BLOB NOT NULL, payload BLOB NOT NULL, digest BLOB NOT NULL)""",
    """CREATE TABLE run (seq INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, owner TEXT NOT NULL,
        phase TEXT NOT NULL, is_claim INTEGER NOT NULL, archived_seq INTEGER NOT NULL,
        digest BLOB NOT NULL, payload BLOB NOT NULL)""",
    "CREATE INDEX run_of_owner ON run (owner, seq, phase, is_claim, archived_seq, name)",
    "CREATE INDEX run_in_phase ON run (phase, seq, is_claim, archived_seq, name)",
    "CREATE INDEX claim ON run (seq, archived_seq, name) WHERE is_claim = 1",
)
_COLUMNS: Final = "seq, name, owner, phase, is_claim, payload, archived_seq, digest"


def archive_path(ledger: Path) -> Path:
    """Return the path of the archive of ``ledger``."""
    return ledger.with_name(ledger.name + _SUFFIX)


def remove_archive(ledger: Path) -> None:
    """Remove the archive of ``ledger``, if it exists, and SQLite's files beside it."""
    path = archive_path(ledger)
    for suffix in ("", *_BESIDE):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).unlink()


def copy_archive(ledger: Path, target: Path) -> None:
    """Copy the archive of ``ledger``, as it is now, to the new file ``target``."""
    path = archive_path(ledger)
    with translated(path), closing(connected(path, "mode=ro")) as db:
        target.unlink(missing_ok=True)
        create_file(target)
        db.execute("VACUUM INTO ?", (str(target),))


class ArchiveFile:
    """The archive of one ledger. If ``is_kept_open``, reads share one open connection.

    This connection keeps reading its file even if another program replaces the file.
    Only one thread may use an archive, but another thread may call ``save``.
    """

    def __init__(self, ledger: Path, *, is_kept_open: bool) -> None:
        self._ledger = ledger
        self.path = archive_path(ledger)
        self._is_kept_open = is_kept_open
        self._db: sqlite3.Connection | None = None
        # The number of the present file at ``path``, and of the file that ``_db`` has open: each
        # new file gets the next number.
        self._made = self._opened = 0
        # A thread holds this lock while it replaces the file, commits to it, or closes it.
        self._changing = Lock()
        self._is_closed = False

    def save(
        self, head: Head, payload: bytes, ended: Iterable[ArchivedRow], *, base_seq: int
    ) -> None:
        """Store a snapshot and the runs that it archives, in one transaction; see ``EventStore``.

        A save uses its own connection, so another thread may call ``save``. If the archive is
        closed during the save, ``save`` raises and stores nothing.
        """
        with translated(self.path), closing(self._connected(is_new=base_seq == 0)) as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                self._write(db, head, payload, ended, base_seq)
                with self._changing:
                    self._check_open()
                    db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def _connected(self, *, is_new: bool) -> sqlite3.Connection:
        """Return a connection for writing; raises if the archive is closed."""
        with self._changing:
            self._check_open()
            return self._writing(is_new=is_new)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreError(f"{self.path} was closed before the snapshot was written")

    def _write(
        self,
        db: sqlite3.Connection,
        head: Head,
        payload: bytes,
        ended: Iterable[ArchivedRow],
        base_seq: int,
    ) -> None:
        known = db.execute("SELECT seq FROM snapshot WHERE id = 1").fetchone()
        if base_seq and known != (base_seq,):
            raise StoreError(
                f"{self.path} was removed or replaced while its ledger was open; restart the "
                f"program, which derives the file from the ledger"
            )
        db.executemany(
            f"INSERT INTO run ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - our own columns
            (self._checked(row, head.seq) for row in ended),
        )
        db.execute(
            "INSERT OR REPLACE INTO snapshot (id, height, seq, hash, payload, digest) "
            "VALUES (1, ?, ?, ?, ?, ?)",
            (head.height, head.seq, head.hash, payload, _digest(head, payload)),
        )

    def _checked(self, row: ArchivedRow, archived_seq: int) -> tuple[Any, ...]:
        """Return the values of all columns for ``row``; raises if the archive is closed."""
        # Without the lock this check may miss a close, but ``save`` checks again when it commits.
        self._check_open()
        return *row, archived_seq, _row_digest(row, archived_seq)

    def _writing(self, *, is_new: bool) -> sqlite3.Connection:
        """Return a connection for writing; if ``is_new``, to a new file that replaces the old one.

        Use ``is_new`` if the old file is not needed; the old file may be damaged, or of another
        version.
        """
        if is_new:
            remove_archive(self._ledger)
            create_file(self.path)
            with closing(connected(self.path, "mode=rw")) as db:
                _lay_out(db)
            self._made += 1
        db = connected(self.path, "mode=rw")
        # A machine that loses power may lose the last transactions, but never a part of one.
        db.execute("PRAGMA synchronous = NORMAL")
        return db

    def replace(self, file: Path) -> None:
        """Replace the archive by the archive in ``file``; raises if ``file`` is not an archive."""
        with translated(self.path), self._changing:
            self._check_open()
            with closing(connected(file, "mode=rw")) as db:
                _check_layout(db, file)
                db.execute("PRAGMA journal_mode = WAL")
            remove_archive(self._ledger)
            file.rename(self.path)
            self._made += 1

    def load(self) -> tuple[Head, bytes] | None:
        """Return the snapshot, or None if there is no snapshot; raises if it is damaged."""
        if not self.path.exists():
            return None
        with translated(self.path), self._reading() as db:
            row = db.execute(
                "SELECT height, seq, hash, payload, digest FROM snapshot WHERE id = 1"
            ).fetchone()
        match row:
            case None:
                return None
            case (int(height), int(seq), bytes(at), bytes(payload), bytes(digest)) if (
                len(at) == HASH_BYTES
            ):
                head = Head(height=height, seq=seq, hash=at)
                if digest != _digest(head, payload):
                    raise StoreError("it is damaged")
                return head, payload
            case _:
                raise StoreError("its row is unreadable")

    def run(self, name: str, upto_seq: int) -> ArchivedRow | None:
        """Return the row of the run ``name``; see ``EventStore``."""
        found = self._rows("WHERE name = ? AND archived_seq <= ?", (name, upto_seq))
        return found[0] if found else None

    def rows(self, query: RowQuery) -> list[ArchivedRow]:
        """Return rows of archived runs; see ``EventStore``."""
        return self._rows(*_where(query))

    def names(self, query: RowQuery) -> list[tuple[int, str]]:
        """Return (sequence number of the submission, name) of archived runs; see ``EventStore``."""
        where, values = _where(query)
        return self._ask(f"SELECT seq, name FROM run {where}", values)  # noqa: S608 - our own names

    def count(self, owner: str, upto_seq: int) -> int:
        """Return how many runs of ``owner`` were archived up to ``upto_seq``."""
        asked = "SELECT count(*) FROM run WHERE owner = ? AND archived_seq <= ?"
        ((found,),) = self._ask(asked, (owner, upto_seq))
        return int(found)

    def close(self) -> None:
        """Close the file; a snapshot that another thread is writing is abandoned.

        Afterwards this object does not change the file, because another program may own the ledger.
        """
        with self._changing:
            self._is_closed = True
        self._disconnect()

    def _disconnect(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _rows(self, where: str, values: tuple[Any, ...]) -> list[ArchivedRow]:
        found = []
        for row in self._ask(f"SELECT {_COLUMNS} FROM run {where}", values):  # noqa: S608 - our own names
            match row:
                case (
                    int(seq),
                    str(name),
                    str(owner),
                    str(phase),
                    int(is_claim),
                    bytes(payload),
                    int(archived_seq),
                    bytes(digest),
                ):
                    told = ArchivedRow(seq, name, owner, phase, bool(is_claim), payload)
                    if digest == _row_digest(told, archived_seq):
                        found.append(told)
                        continue
                case _:
                    pass
            raise ArchiveError(
                f"{self.path} is damaged: the checksum of row {row[0]!r} does not match"
            )
        return found

    def _ask(self, statement: str, values: tuple[Any, ...]) -> list[Any]:
        try:
            with translated(self.path), self._reading() as db:
                return db.execute(statement, values).fetchall()
        except ArchiveError:
            raise
        except QuorateError as error:
            raise ArchiveError(f"{self.path} cannot be read: {error}", str(self.path)) from error

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        if self._opened != self._made:
            self._disconnect()
        if self._db is not None:
            yield self._db
            return
        self._opened = self._made
        db = connected(self.path, _mode_to_read(self.path))
        try:
            _check_layout(db, self.path)
            if self._is_kept_open:
                self._db = db
            yield db
        finally:
            if self._db is not db:
                db.close()


def _mode_to_read(path: Path) -> str:
    """Return the mode in which to open ``path`` for reading.

    In a directory that cannot be written, SQLite cannot create its shared memory file. A file
    without a write-ahead log can be read without shared memory.
    """
    if os.access(path.parent, os.W_OK) or path.with_name(path.name + "-wal").exists():
        return "mode=ro"
    return "mode=ro&immutable=1"


def _lay_out(db: sqlite3.Connection) -> None:
    """Create the tables of an archive and set its application id and layout, in one transaction."""
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA:
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {LAYOUT}")
    db.execute("COMMIT")


def _check_layout(db: sqlite3.Connection, path: Path) -> None:
    (application_id,) = db.execute("PRAGMA application_id").fetchone()
    (layout,) = db.execute("PRAGMA user_version").fetchone()
    if (application_id, layout) != (APPLICATION_ID, LAYOUT):
        raise ArchiveError(f"{path} is not an archive, or has another version", str(path))


def _where(query: RowQuery) -> tuple[str, tuple[Any, ...]]:
    """Return the WHERE clause and its values for the rows of ``query``."""
    parts = {
        "archived_seq <= ?": query.upto_seq,
        "seq > ?": query.after_seq,
        "seq < ?": query.before_seq,
        "owner = ?": query.owner,
        "phase = ?": query.phase,
        "is_claim = ?": query.is_claim,
    }
    given = {part: value for part, value in parts.items() if value is not None}
    if query.is_claim:
        # The condition is written as in the index of claims, so that SQLite uses the index.
        del given["is_claim = ?"]
    tests = [*given, *(("is_claim = 1",) if query.is_claim else ())]
    order = "DESC" if query.is_newest_first else "ASC"
    text = f"WHERE {' AND '.join(tests)} ORDER BY seq {order} LIMIT ?"
    return text, (*given.values(), query.limit)


def _digest(head: Head, payload: bytes) -> bytes:
    """Return the checksum of a snapshot's row."""
    place = f"quorate-snapshot/1 {head.height} {head.seq} ".encode()
    return sha256(place + head.hash + payload).digest()


def _row_digest(row: ArchivedRow, archived_seq: int) -> bytes:
    """Return the checksum of a run's row."""
    told = f"quorate-archived/1 {archived_seq} {row[:5]!r} ".encode()
    return sha256(told + row.payload).digest()
