"""The archive as a folder that all machines of a ledger share.

A file is written under a temporary name, synced, and renamed, so it exists whole or not at all.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from quorate.adapters.file_errors import is_full
from quorate.ports.errors import SegmentError, StoreError, StoreFullError

_DRAFT: Final = ".draft"
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


class ArchiveFolder:
    """Files under ``root``, which is created with the first file. See ``FileArchive``."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, name: str, data: bytes) -> None:
        """Store ``data`` as ``name``; see ``FileArchive``."""
        self._write(name, lambda file: file.write(data))

    def get(self, name: str) -> bytes:
        """Return the content of ``name``; see ``FileArchive``."""
        with self._explained(name, "read"):
            return self._path(name).read_bytes()

    def put_file(self, name: str, source: Path) -> None:
        """Store a copy of ``source`` as ``name``; see ``FileArchive``."""

        def copy(file: BinaryIO) -> None:
            with source.open("rb") as opened:
                shutil.copyfileobj(opened, file)

        self._write(name, copy)

    def get_file(self, name: str, target: Path) -> None:
        """Write the content of ``name`` to ``target``; see ``FileArchive``."""
        with (
            self._explained(name, "read"),
            self._path(name).open("rb") as opened,
            _new_file(target) as file,
        ):
            shutil.copyfileobj(opened, file)

    def names(self, room: str) -> list[str]:
        """Return the names of the files in ``room``; see ``FileArchive``."""
        with self._explained(room, "listed"):
            try:
                found = [path.name for path in (self._root / room).iterdir()]
            except FileNotFoundError:
                return []
        return sorted(f"{room}/{each}" for each in found if not each.endswith(_DRAFT))

    def remove(self, name: str) -> None:
        """Remove ``name``; see ``FileArchive``."""
        with self._explained(name, "removed"), suppress(FileNotFoundError):
            self._path(name).unlink()

    def _path(self, name: str) -> Path:
        assert not Path(name).is_absolute(), name
        assert ".." not in Path(name).parts, name
        return self._root / name

    def _write(self, name: str, write: Callable[[BinaryIO], object]) -> None:
        path = self._path(name)
        # The name has the process id: two processes that archive the same blocks must not share a
        # file.
        draft = path.with_name(f"{path.name}.{os.getpid()}{_DRAFT}")
        with self._explained(name, "written"):
            path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            try:
                with _new_file(draft) as file:
                    write(file)
                    file.flush()
                    os.fsync(file.fileno())
                draft.replace(path)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
            _sync_folder(path.parent)

    @contextmanager
    def _explained(self, name: str, done: str) -> Iterator[None]:
        """Translate the system's errors into errors of the port; ``done`` names the action."""
        try:
            yield
        except OSError as error:
            kind: type[StoreError] = StoreFullError if is_full(error) else SegmentError
            raise kind(
                f"{self._root / name} cannot be {done}: {error.strerror}; the archive of this "
                "ledger must be a folder that this program may write, the same on every machine "
                "(archive= in the URL of the ledger)"
            ) from error


def _new_file(path: Path) -> BinaryIO:
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _FILE_MODE), "wb")


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
