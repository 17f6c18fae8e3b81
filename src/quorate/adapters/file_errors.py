"""Translates the errors of SQLite and of the file system into errors of the ports."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from quorate.ports.errors import (
    CorruptLedgerError,
    LedgerNotFoundError,
    NotALedgerError,
    QuorateError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
)

# Primary result codes. SQLITE_ERROR counts as damage, because the SQL statements are fixed: if one
# does not compile or run, the file lacks the tables of a ledger.
_DAMAGED: Final = frozenset(
    {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_FORMAT,
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_CONSTRAINT,
    }
)
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_UNWRITABLE: Final = frozenset(
    {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
)
# Bytes 68 to 71 of an SQLite file hold the application id: sqlite.org/fileformat2.html.
_MARK: Final = b"QUOR"
_MARK_END: Final = 72
_UNWRITABLE_ERRNOS: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_FULL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Translate errors of SQLite and the system about the ledger at ``path`` into port errors.

    Misuse of the driver (``ProgrammingError``, ``InterfaceError``) is a bug and is not translated.
    """
    try:
        yield
    except (sqlite3.ProgrammingError, sqlite3.InterfaceError):
        raise
    except sqlite3.Error as error:
        raise _of_sqlite(error, path) from error
    except UnicodeDecodeError as error:
        # Python cannot decode SQLite's message, because it quotes a damaged name from the file.
        raise damaged(path, "its tables' names are unreadable") from error
    except OSError as error:
        raise _of_system(error, path) from error


def result_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code; 0 if the error comes from Python and has no code."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def is_full(error: OSError) -> bool:
    """Return whether ``error`` says that a disk, or a quota on it, is full."""
    return error.errno in _FULL_ERRNOS


def damaged(path: Path, what: str, *, height: int | None = None) -> CorruptLedgerError:
    """Return the error for a ledger file with invalid contents."""
    return CorruptLedgerError(what, height=height, source=str(path))


def _of_sqlite(error: sqlite3.Error, path: Path) -> QuorateError:
    """Return the error of the ports for ``error`` about the ledger at ``path``."""
    code = result_code(error)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if code == sqlite3.SQLITE_NOTADB and not _is_marked(path):
        return NotALedgerError(path, "it is not even a database")
    if code in _DAMAGED or code == 0 or name == "SQLITE_IOERR_SHORT_READ":
        return damaged(path, str(error))
    if code == sqlite3.SQLITE_FULL:
        return _full(path)
    if code in _BUSY:
        return StoreBusyError(
            f"{path} is locked by another program, perhaps a database tool or a backup; try again "
            f"when the other program has ended"
        )
    if code in _UNWRITABLE:
        return _unwritable(path, str(error))
    return StoreError(
        f"{path}: {error} ({name}); nothing was recorded. Check the disk, and limits on file sizes"
    )


def _is_marked(path: Path) -> bool:
    """Return whether the file has a ledger's application id at the place that SQLite uses."""
    try:
        with path.open("rb") as file:
            return file.read(_MARK_END)[-len(_MARK) :] == _MARK
    except OSError:
        return False


def _of_system(error: OSError, path: Path) -> QuorateError:
    """Return the port's error for ``error`` about the ledger at ``path`` or a file beside it."""
    if is_full(error):
        return _full(path)
    if error.errno in _UNWRITABLE_ERRNOS:
        return _unwritable(path, error.strerror or str(error))
    if error.errno == errno.ENOENT:
        return LedgerNotFoundError(path)
    if error.errno == errno.ELOOP:
        return StoreError(
            f"{error.filename} is a symbolic link, which Quorate does not follow; remove it"
        )
    return StoreError(f"{path}: {error}")


def _full(path: Path) -> StoreFullError:
    return StoreFullError(
        f"no space left for {path}; nothing was recorded. Make room and try again"
    )


def _unwritable(path: Path, why: str) -> StoreReadOnlyError:
    return StoreReadOnlyError(
        f"{path} or its directory cannot be opened or written ({why}); "
        "check permissions and whether the disk is mounted read-only"
    )
