"""Opens stores by URL: ``sqlite:PATH``, or a bare path, which means the same.

Nothing above the adapters knows which store it has. A new one is a row of ``_DRIVERS``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from quorate.adapters.stores.sqlite_file import (
    check_writable,
    existing,
    remove_file,
    sound_head,
)
from quorate.adapters.stores.store_pages import PagedReader
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.ledger.chain import Head
from quorate.ports.errors import StoreUrlError
from quorate.ports.store_port import EventStore

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")


class _Open(Protocol):
    def __call__(self, place: Path, /, *, wait_s: float) -> EventStore: ...


class _Pages(Protocol):
    def __call__(self, place: Path, /, *, is_archive_kept: bool) -> EventStore: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Driver:
    """How the stores of one scheme are made, opened and removed; ``form`` is how one is named."""

    form: str
    create: Callable[[Path], EventStore]
    open: _Open
    read: Callable[[Path], EventStore]
    read_pages: _Pages
    remove: Callable[[Path], None]
    sound_head: Callable[[Path], Head]
    check_writable: Callable[[Path], None]


_SQLITE: Final = "sqlite"
_DRIVERS: Final = {
    _SQLITE: _Driver(
        form="sqlite:PATH",
        create=SqliteStore.create,
        open=SqliteStore.open,
        read=SqliteStore.read,
        read_pages=PagedReader,
        remove=remove_file,
        sound_head=lambda path: sound_head(existing(path)),
        check_writable=check_writable,
    )
}


def create_store(url: str) -> EventStore:
    """Return the store of a new, empty ledger; raises ``LedgerExistsError``, and changes nothing.

    Like all that follow it raises ``StoreUrlError`` where ``url`` names no store that there is.
    """
    return _driver(url).create(ledger_path(url))


def open_store(url: str, *, wait_s: float = 0.0) -> EventStore:
    """Return the store at ``url`` for reading and writing.

    Raises ``LedgerHeldError`` when another process still writes to it after ``wait_s``.
    """
    return _driver(url).open(ledger_path(url), wait_s=wait_s)


def read_store(url: str) -> EventStore:
    """Return the store at ``url`` for reading; writers are not disturbed."""
    return _driver(url).read(ledger_path(url))


def read_pages(url: str, *, is_archive_kept: bool = False) -> EventStore:
    """Return the store at ``url`` for reading; its file is closed again after each read.

    With ``is_archive_kept`` the archive of ended runs stays open, for one thread.
    """
    return _driver(url).read_pages(ledger_path(url), is_archive_kept=is_archive_kept)


def remove_store(url: str) -> None:
    """Remove the store at ``url``, which was just made."""
    _driver(url).remove(ledger_path(url))


def sound_head_at(url: str) -> Head:
    """Return how far the blocks at ``url`` are a sound chain, also where the rest is damaged."""
    return _driver(url).sound_head(ledger_path(url))


def check_store_writable(url: str) -> None:
    """Raise a ``StoreError`` unless the store at ``url`` takes a little more, durably."""
    _driver(url).check_writable(ledger_path(url))


def ledger_path(url: str) -> Path:
    """Return the path that the files beside the ledger at ``url`` are named after.

    Those are its key, its secrets, its work folder, its outbox. Of SQLite it is the ledger's file.
    """
    return Path(_parts(url)[1])


def _driver(url: str) -> _Driver:
    return _DRIVERS[_parts(url)[0]]


def _parts(url: str) -> tuple[str, str]:
    """Return the scheme of ``url`` and what comes after it; raises ``StoreUrlError``."""
    scheme, colon, place = url.partition(":")
    if not colon or not _SCHEME.fullmatch(scheme):
        scheme, place = _SQLITE, url
    if scheme not in _DRIVERS:
        forms = ", ".join(driver.form for driver in _DRIVERS.values())
        file = "" if place.startswith("//") else f"; a file that is called so is ./{url}"
        raise StoreUrlError(
            f"{url}: there is no store {scheme!r}; known are {forms}, or a path alone{file}"
        )
    if not place or "\0" in place:
        raise StoreUrlError(f"{url!r} names no ledger; write {_DRIVERS[scheme].form}")
    return scheme, place
