"""Opens stores by URL: ``sqlite:PATH``, a bare path (the same as ``sqlite:``), or ``etcd://...``.

Code above the adapters does not know which store it has. A new store needs a row in ``_DRIVERS``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from quorate.adapters.etcd.etcd_address import FORM, parse_address
from quorate.adapters.stores.outbox_sqlite import SqliteOutbox, outbox_path
from quorate.adapters.stores.sqlite_file import (
    check_writable,
    existing,
    remove_file,
    sound_head,
)
from quorate.adapters.stores.store_pages import PagedReader
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.ledger.chain import Head
from quorate.ports.errors import LedgerNotFoundError, StoreError, StoreUrlError
from quorate.ports.outbox_port import Outbox
from quorate.ports.store_port import EventStore

if TYPE_CHECKING:
    from quorate.adapters.stores.store_etcd import EtcdStore

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")
_ETCD_PARTS: Final = ("grpc", "google.protobuf")


class _Open(Protocol):
    def __call__(self, place: str, /, *, wait_s: float) -> EventStore: ...


class _Pages(Protocol):
    def __call__(
        self, place: str, /, *, is_archive_kept: bool, within_s: float | None
    ) -> EventStore: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Driver:
    """The functions that create, open and remove stores of one scheme, and the form of their URLs.

    ``beside`` is the path prefix of the files beside a ledger. ``has_leader`` means that several
    services may share the ledger, and elect a leader (``ports/leader_port.py``).
    ``faults_of_servers`` checks the servers before the ledger is created.
    """

    form: str
    beside: Callable[[str], Path]
    exists: Callable[[str], bool]
    create: Callable[[str], EventStore]
    open: _Open
    read: Callable[[str], EventStore]
    read_pages: _Pages
    remove: Callable[[str], None]
    outbox: Callable[[str], Outbox]
    sound_head: Callable[[str], Head]
    check_writable: Callable[[str], None]
    has_leader: bool = False
    faults_of_servers: Callable[[str], list[str]] = lambda _: []
    cautions: Callable[[str], list[str]] = lambda _: []


def _open_sqlite(place: str, /, *, wait_s: float) -> EventStore:
    return SqliteStore.open(Path(place), wait_s=wait_s)


def _sqlite_pages(place: str, /, *, is_archive_kept: bool, within_s: float | None) -> EventStore:
    del within_s  # A local file answers or fails immediately.
    return PagedReader(Path(place), is_archive_kept=is_archive_kept)


def _etcd() -> type[EtcdStore]:
    """Return the class of the store in etcd, imported only here because it needs gRPC."""
    missing = next((part for part in _ETCD_PARTS if find_spec(part) is None), None)
    if missing is not None:
        raise StoreError(
            f"a ledger in etcd needs {missing}, which is not installed; install it with: "
            "pip install 'quorate[etcd]'"
        )
    from quorate.adapters.stores.store_etcd import EtcdStore  # noqa: PLC0415

    return EtcdStore


def _is_in_etcd(place: str) -> bool:
    try:
        _etcd().read(parse_address(place)).close()
    except LedgerNotFoundError:
        return False
    return True


def _open_etcd(place: str, /, *, wait_s: float) -> EventStore:
    return _etcd().open(parse_address(place), wait_s=wait_s)


def _etcd_pages(place: str, /, *, is_archive_kept: bool, within_s: float | None) -> EventStore:
    del is_archive_kept  # A connection to etcd stays open as long as the store.
    return _etcd().read(parse_address(place), is_following=False, within_s=within_s)


def _etcd_outbox(place: str) -> Outbox:
    _etcd()
    from quorate.adapters.stores.outbox_etcd import EtcdOutbox  # noqa: PLC0415 - it needs gRPC

    return EtcdOutbox.open(parse_address(place))


def _remove_etcd(place: str) -> None:
    with _etcd().open(parse_address(place)) as store:
        store.remove()


def _sound_etcd_head(place: str) -> Head:
    with _etcd().read(parse_address(place)) as store:
        return store.sound_head()


def _check_etcd_writable(place: str) -> None:
    address = parse_address(place)
    check_writable(address.local)
    with _etcd().read(address) as store:
        store.check_writable()


def _faults_of_etcd(place: str) -> list[str]:
    _etcd()
    from quorate.adapters.stores.etcd_check import check_cluster  # noqa: PLC0415 - it needs gRPC

    return check_cluster(parse_address(place))


def _etcd_cautions(place: str) -> list[str]:
    _etcd()
    from quorate.adapters.stores.etcd_check import cautions_of  # noqa: PLC0415 - it needs gRPC

    return cautions_of(parse_address(place))


_SQLITE: Final = "sqlite"
_DRIVERS: Final = {
    _SQLITE: _Driver(
        form="sqlite:PATH",
        beside=Path,
        exists=lambda place: Path(place).exists(),
        create=lambda place: SqliteStore.create(Path(place)),
        open=_open_sqlite,
        read=lambda place: SqliteStore.read(Path(place)),
        read_pages=_sqlite_pages,
        remove=lambda place: remove_file(Path(place)),
        outbox=lambda place: SqliteOutbox.open(outbox_path(Path(place))),
        sound_head=lambda place: sound_head(existing(Path(place))),
        check_writable=lambda place: check_writable(Path(place)),
    ),
    "etcd": _Driver(
        form=FORM,
        beside=lambda place: parse_address(place).local,
        exists=_is_in_etcd,
        create=lambda place: _etcd().create(parse_address(place)),
        open=_open_etcd,
        read=lambda place: _etcd().read(parse_address(place)),
        read_pages=_etcd_pages,
        remove=_remove_etcd,
        outbox=_etcd_outbox,
        sound_head=_sound_etcd_head,
        check_writable=_check_etcd_writable,
        has_leader=True,
        faults_of_servers=_faults_of_etcd,
        cautions=_etcd_cautions,
    ),
}


def is_file(url: str) -> bool:
    """Return whether the ledger at ``url`` is a file of this machine.

    Like all functions below, this function raises ``StoreUrlError`` if ``url`` names no known
    store.
    """
    return _parts(url)[0] == _SQLITE


def has_leader(url: str) -> bool:
    """Return whether the services of the ledger at ``url`` elect a leader."""
    return _driver(url)[0].has_leader


def faults_of_servers(url: str) -> list[str]:
    """Return the faults of the servers on which a ledger is to be created at ``url``."""
    driver, place = _driver(url)
    return driver.faults_of_servers(place)


def cautions(url: str) -> list[str]:
    """Return warnings about a ledger at ``url``, such as too few members of etcd."""
    driver, place = _driver(url)
    return driver.cautions(place)


def shown(url: str) -> str:
    """Return the name of the ledger at ``url`` for messages: the path of a file, or the URL."""
    return str(ledger_path(url)) if is_file(url) else url


def store_exists(url: str) -> bool:
    """Return whether a ledger, or another file, exists at ``url``."""
    driver, place = _driver(url)
    return driver.exists(place)


def create_store(url: str) -> EventStore:
    """Return the store of a new, empty ledger; raises ``LedgerExistsError``."""
    driver, place = _driver(url)
    return driver.create(place)


def open_store(url: str, *, wait_s: float = 0.0) -> EventStore:
    """Return the store at ``url`` for reading and writing.

    Raises ``LedgerHeldError`` if another process still has the ledger open for writing after
    ``wait_s``.
    """
    driver, place = _driver(url)
    return driver.open(place, wait_s=wait_s)


def read_store(url: str) -> EventStore:
    """Return the store at ``url`` for reading; writers are not blocked."""
    driver, place = _driver(url)
    return driver.read(place)


def read_pages(
    url: str, *, is_archive_kept: bool = False, within_s: float | None = None
) -> EventStore:
    """Return the store at ``url`` for reading; its file is closed again after each read.

    If ``is_archive_kept``, the archive of ended runs stays open, and only one thread may use it. If
    ``within_s`` is given, the store asks its servers once, with this time limit, where the ledger
    ends.
    """
    driver, place = _driver(url)
    return driver.read_pages(place, is_archive_kept=is_archive_kept, within_s=within_s)


def remove_store(url: str) -> None:
    """Remove the store at ``url``, which was just created."""
    driver, place = _driver(url)
    driver.remove(place)


def open_outbox(url: str) -> Outbox:
    """Return the outbox of the ledger at ``url``.

    For a ledger in a file, the outbox is another file beside it. For a ledger in etcd, only the
    leader may use the outbox.
    """
    driver, place = _driver(url)
    return driver.outbox(place)


def sound_head_at(url: str) -> Head:
    """Return the end of the valid chain of blocks at ``url``; later blocks may be damaged."""
    driver, place = _driver(url)
    return driver.sound_head(place)


def check_store_writable(url: str) -> None:
    """Raise a ``StoreError`` unless the store at ``url`` accepts one more durable write."""
    driver, place = _driver(url)
    driver.check_writable(place)


def ledger_path(url: str) -> Path:
    """Return the path prefix of the files beside the ledger at ``url``.

    Those files are its key, its secrets, its work folder and its outbox. For SQLite the prefix is
    the ledger's file.
    """
    driver, place = _driver(url)
    return driver.beside(place)


def _driver(url: str) -> tuple[_Driver, str]:
    scheme, place = _parts(url)
    return _DRIVERS[scheme], place


def _parts(url: str) -> tuple[str, str]:
    """Return the scheme of ``url`` and the text after it; raises ``StoreUrlError``."""
    scheme, colon, place = url.partition(":")
    if not colon or not _SCHEME.fullmatch(scheme):
        scheme, place = _SQLITE, url
    if scheme not in _DRIVERS:
        forms = ", ".join(driver.form for driver in _DRIVERS.values())
        file = "" if place.startswith("//") else f"; for a file of that name write ./{url}"
        raise StoreUrlError(
            f"{url}: the store {scheme!r} is not known; write {forms}, or a path alone{file}"
        )
    if not place or "\0" in place:
        raise StoreUrlError(f"{url!r} names no ledger; write {_DRIVERS[scheme].form}")
    return scheme, place
