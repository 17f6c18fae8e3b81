"""The archive port: files with complete segments of a ledger, and files with its snapshots.

An archive is a folder that every machine can read, or an object store. Each file is written once
and never changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class FileArchive(Protocol):
    """Named files. Names consist of letters, digits, ``.`` and ``-``; ``/`` separates folders.

    Methods raise no errors but ``SegmentError`` and ``StoreFullError``.
    """

    def put(self, name: str, data: bytes) -> None:
        """Store ``data`` as ``name``, completely or not at all; on return ``data`` is durable."""
        ...

    def get(self, name: str) -> bytes:
        """Return the content of ``name``; raise ``SegmentError`` if there is no such file."""
        ...

    def put_file(self, name: str, source: Path) -> None:
        """Store a copy of the file ``source`` as ``name``, completely and durably like ``put``."""
        ...

    def get_file(self, name: str, target: Path) -> None:
        """Write the content of ``name`` to the new file ``target``."""
        ...

    def names(self, room: str) -> list[str]:
        """Return the names of the files in the folder ``room``, sorted.

        The list is empty if there is no such folder.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove the file ``name``; do nothing if there is no such file."""
        ...
