"""The outbox in one SQLite file beside the ledger, in WAL mode with every commit synced to disk.

A line is a sequence of parcels (messages) that are delivered in order, one at a time. Only the
first parcel of each line has a due time. So a search for due parcels reads one parcel of each
waiting line, not all parcels.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Final, Self
from urllib.parse import quote

from quorate.adapters.file_errors import translated
from quorate.adapters.stores.sqlite_file import (
    BUSY_SECONDS_MAX,
    check_directory,
    configure,
    resolved,
)
from quorate.ports.errors import (
    CorruptLedgerError,
    LedgerNotFoundError,
    NotALedgerError,
    OutboxError,
)
from quorate.ports.outbox_port import (
    BACK_OFF_MS_MAX,
    KEYS_KEPT_EVENTS,
    Parcel,
    Waiting,
    back_off_ms,
)

APPLICATION_ID: Final = 0x51554F58  # "QUOX"
LAYOUT: Final = 2
_SCHEMA: Final = (
    """CREATE TABLE sink (name TEXT PRIMARY KEY, cursor INTEGER NOT NULL,
        head BLOB NOT NULL DEFAULT x'') WITHOUT ROWID""",
    # The ids are never reused, so that parcels are always in the order of their ids.
    """CREATE TABLE parcel (id INTEGER PRIMARY KEY AUTOINCREMENT, sink TEXT NOT NULL,
        key TEXT NOT NULL, line TEXT NOT NULL, body BLOB NOT NULL, seq INTEGER NOT NULL,
        attempts INTEGER NOT NULL, at_ms INTEGER NOT NULL, due_ms INTEGER, UNIQUE (sink, key))""",
    "CREATE INDEX parcel_of_line ON parcel (sink, line, id)",
    "CREATE INDEX parcel_due ON parcel (sink, due_ms) WHERE due_ms IS NOT NULL",
    """CREATE TABLE failing (sink TEXT NOT NULL, line TEXT NOT NULL, since_ms INTEGER NOT NULL,
        last_ms INTEGER NOT NULL, why TEXT NOT NULL, PRIMARY KEY (sink, line)) WITHOUT ROWID""",
    """CREATE TABLE done (sink TEXT NOT NULL, key TEXT NOT NULL, seq INTEGER NOT NULL,
        PRIMARY KEY (sink, key)) WITHOUT ROWID""",
    "CREATE INDEX done_by_seq ON done (sink, seq)",
)
_FROM_LAYOUT_1: Final = "ALTER TABLE sink ADD COLUMN head BLOB NOT NULL DEFAULT x''"
_DUE: Final = """SELECT key, parcel.line, body, seq, attempts, at_ms, since_ms FROM parcel
    LEFT JOIN failing ON failing.sink = parcel.sink AND failing.line = parcel.line
    WHERE parcel.sink = ? AND (due_ms <= ? OR due_ms > ?) ORDER BY id LIMIT ?"""
_TAKE_IN: Final = """INSERT INTO parcel (sink, key, line, body, seq, attempts, at_ms, due_ms)
    SELECT :sink, :key, :line, :body, :seq, 0, :at_ms, CASE WHEN EXISTS
        (SELECT 1 FROM parcel WHERE sink = :sink AND line = :line) THEN NULL ELSE 0 END
    WHERE NOT EXISTS (SELECT 1 FROM done WHERE sink = :sink AND key = :key)
    ON CONFLICT (sink, key) DO NOTHING"""
_FRONT: Final = """UPDATE parcel SET due_ms = ifnull(due_ms, 0) WHERE id =
    (SELECT min(id) FROM parcel WHERE sink = ? AND line = ?)"""
_FAILED: Final = """INSERT INTO failing VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (sink, line) DO UPDATE SET last_ms = excluded.last_ms, why = excluded.why"""
_TROUBLE: Final = """SELECT why FROM failing WHERE sink = ?
    ORDER BY last_ms DESC, line LIMIT 1"""


def outbox_path(ledger: Path) -> Path:
    """Return the path of the outbox of the ledger at ``ledger``."""
    real = resolved(ledger)
    return real.with_name(real.name + ".outbox")


class SqliteOutbox:
    """An outbox file, made by ``open``. Threads take turns with its one connection."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        self._path = path
        self._db = db
        self._turn = Lock()

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return the outbox at ``path``; if there is none, create one that only its owner can read.

        Raises ``OutboxError`` if the file is damaged or is not an outbox.
        """
        with _translated(path):
            check_directory(path.parent)
            _ensure_file(path)
            db = sqlite3.connect(
                f"file:{quote(str(path))}?mode=rw",
                uri=True,
                isolation_level=None,
                timeout=BUSY_SECONDS_MAX,
                check_same_thread=False,
            )
            try:
                _prepare(db, path)
            except BaseException:
                db.close()
                raise
            return cls(path, db)

    @classmethod
    def temporary(cls) -> Self:
        """Return an empty outbox that is removed when it is closed or its process ends."""
        # With an empty name, SQLite uses an unnamed temporary file as soon as the data outgrows
        # its cache.
        db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for statement in _SCHEMA:
            db.execute(statement)
        return cls(Path("a temporary outbox"), db)

    @property
    def path(self) -> Path:
        """The path of the outbox file."""
        return self._path

    def oldest_seq(self, sink: str) -> int | None:
        """Return the sequence number of the oldest waiting parcel of ``sink``, or None."""
        with self._reading() as db:
            row = db.execute("SELECT min(seq) FROM parcel WHERE sink = ?", (sink,)).fetchone()
        return None if row[0] is None else int(row[0])

    def cursor(self, sink: str) -> int:
        """Return the sequence number up to which ``sink`` has made parcels; see ``Outbox``."""
        with self._reading() as db:
            return _cursor(db, sink)

    def head(self, sink: str) -> bytes:
        """Return the hash of the ledger at the cursor of ``sink``; see ``Outbox``."""
        with self._reading() as db:
            row = db.execute("SELECT head FROM sink WHERE name = ?", (sink,)).fetchone()
        return b"" if row is None else bytes(row[0])

    def take_in(self, sink: str, parcels: Sequence[Parcel], cursor: int, head: bytes = b"") -> None:
        """Store ``parcels``, ``cursor`` and ``head`` in one transaction; see ``Outbox``."""
        assert all(parcel.seq <= cursor for parcel in parcels), (sink, cursor)
        with self._writing() as db:
            known = _cursor(db, sink)
            assert cursor >= known, (sink, known, cursor)
            db.execute("INSERT OR REPLACE INTO sink VALUES (?, ?, ?)", (sink, cursor, head))
            for parcel in parcels:
                db.execute(
                    _TAKE_IN,
                    {
                        "sink": sink,
                        "key": parcel.key,
                        "line": parcel.line,
                        "body": parcel.body,
                        "seq": parcel.seq,
                        "at_ms": parcel.at_ms,
                    },
                )
            oldest = cursor - KEYS_KEPT_EVENTS
            db.execute("DELETE FROM done WHERE sink = ? AND seq < ?", (sink, oldest))

    def due(self, sink: str, now_ms: int, limit: int) -> Sequence[Parcel]:
        """Return the parcels that are due, at most the first of each line; see ``Outbox``."""
        with self._reading() as db:
            latest_ms = now_ms + BACK_OFF_MS_MAX
            found = db.execute(_DUE, (sink, now_ms, latest_ms, limit))
            return [Parcel(*row) for row in found]

    def delivered(self, sink: str, key: str) -> None:
        """Remove the parcel and remember its key; see ``Outbox``."""
        with self._writing() as db:
            line = _removed(db, sink, key)
            if line is not None:
                db.execute("DELETE FROM failing WHERE sink = ? AND line = ?", (sink, line))
                db.execute(_FRONT, (sink, line))

    def failed(self, sink: str, key: str, now_ms: int, why: str) -> int:
        """Count a failed attempt; return the time of the next attempt; see ``Outbox``."""
        with self._writing() as db:
            row = db.execute(
                "SELECT line, attempts, due_ms FROM parcel WHERE sink = ? AND key = ?", (sink, key)
            ).fetchone()
            assert row is not None, (sink, key)
            assert row[2] is not None, (sink, key)
            line, attempts = row[0], row[1] + 1
            due_ms = now_ms + back_off_ms(key, attempts)
            db.execute(
                "UPDATE parcel SET attempts = ?, due_ms = ? WHERE sink = ? AND key = ?",
                (attempts, due_ms, sink, key),
            )
            db.execute(_FAILED, (sink, line, now_ms, now_ms, why))
        return due_ms

    def given_up(self, sink: str, key: str) -> None:
        """Remove a parcel that will not be delivered; see ``Outbox``."""
        with self._writing() as db:
            line = _removed(db, sink, key)
            if line is not None and db.execute(_FRONT, (sink, line)).rowcount == 0:
                db.execute("DELETE FROM failing WHERE sink = ? AND line = ?", (sink, line))

    def waiting(self, sink: str) -> Waiting:
        """Return how many parcels wait, since when, and why; see ``Outbox``."""
        with self._reading() as db:
            count, since_ms = db.execute(
                "SELECT count(*), min(at_ms) FROM parcel WHERE sink = ?", (sink,)
            ).fetchone()
            (lines,) = db.execute("SELECT count(*) FROM failing WHERE sink = ?", (sink,)).fetchone()
            (why,) = db.execute(_TROUBLE, (sink,)).fetchone() or ("",)
        return Waiting(parcels=count, since_ms=since_ms, lines_failing=lines, trouble=why)

    def next_due_ms(self, sink: str) -> int | None:
        """Return the time at which the next parcel is due; see ``Outbox``."""
        with self._reading() as db:
            row = db.execute(
                "SELECT min(due_ms) FROM parcel WHERE sink = ? AND due_ms IS NOT NULL", (sink,)
            ).fetchone()
        return None if row[0] is None else int(row[0])

    def close(self) -> None:
        """Close the file. Closing twice is allowed."""
        with self._turn, _translated(self._path):
            self._db.close()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._turn, _translated(self._path):
            yield self._db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Yield a transaction that is committed at the end, or rolled back by an exception."""
        with self._turn, _translated(self._path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                # SQLite rolls back some failures by itself.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise


def _cursor(db: sqlite3.Connection, sink: str) -> int:
    row = db.execute("SELECT cursor FROM sink WHERE name = ?", (sink,)).fetchone()
    return 0 if row is None else int(row[0])


def _removed(db: sqlite3.Connection, sink: str, key: str) -> str | None:
    """Remove a parcel and remember its key; return its line, or None if it was removed before."""
    row = db.execute(
        "DELETE FROM parcel WHERE sink = ? AND key = ? RETURNING line, seq", (sink, key)
    ).fetchall()
    if not row:
        done = db.execute("SELECT 1 FROM done WHERE sink = ? AND key = ?", (sink, key)).fetchone()
        assert done is not None, (sink, key)
        return None
    ((line, seq),) = row
    db.execute("INSERT INTO done VALUES (?, ?, ?)", (sink, key, seq))
    return str(line)


def _ensure_file(path: Path) -> None:
    """Create the file, for its owner only, if it does not exist."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    os.close(os.open(path, flags, mode=0o600))
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Configure the connection, and create the tables in an empty file.

    A crash before the tables exist leaves an empty file, or a file without application id and
    tables. The next ``open`` creates the tables in it.
    """
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA cell_size_check = ON")
    (foreign,) = db.execute("PRAGMA application_id").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if foreign not in (0, APPLICATION_ID) or (foreign == 0 and tables > 0):
        raise OutboxError(
            f"{path} is not an outbox: it is a database of another program; move it away"
        )
    configure(db)
    db.execute("BEGIN IMMEDIATE")
    (mark,) = db.execute("PRAGMA application_id").fetchone()
    if mark != APPLICATION_ID:
        for statement in _SCHEMA:
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {LAYOUT}")
    (layout,) = db.execute("PRAGMA user_version").fetchone()
    if layout == 1:
        db.execute(_FROM_LAYOUT_1)
        db.execute(f"PRAGMA user_version = {LAYOUT}")
    db.execute("COMMIT")
    (layout,) = db.execute("PRAGMA user_version").fetchone()
    if layout != LAYOUT:
        raise OutboxError(
            f"{path} has layout version {layout}, but this Quorate knows {LAYOUT}; use the "
            f"Quorate that wrote it, or a later one"
        )


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Translate errors about the file into port errors whose messages name the outbox."""
    try:
        with translated(path):
            yield
    except (CorruptLedgerError, LedgerNotFoundError, NotALedgerError) as error:
        raise OutboxError(
            f"{path} cannot be read as an outbox: {error.__cause__ or error}. Stop the service "
            f"and move the file away: messages that wait in it are not delivered, and "
            f"receivers get only later ones"
        ) from error
