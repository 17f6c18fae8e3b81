"""The archive port: files with closed segments of a ledger, and its published snapshots.

An archive is a folder that every machine sees, or an object store. Each file is written once and
never changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class FileArchive(Protocol):
    """Named files. Names consist of letters, digits, ``.`` and ``-``; ``/`` separates folders.

    Methods raise ``SegmentError`` and ``StoreFullError`` only.
    """

    def put(self, name: str, data: bytes) -> None:
        """Store ``data`` as ``name``, completely or not at all; it is durable on return."""
        ...

    def get(self, name: str) -> bytes:
        """Return the content of ``name``; raises if there is no such file."""
        ...

    def put_file(self, name: str, source: Path) -> None:
        """Store a copy of the file ``source`` as ``name``, with the guarantees of ``put``."""
        ...

    def get_file(self, name: str, target: Path) -> None:
        """Write the content of ``name`` to the new file ``target``."""
        ...

    def names(self, room: str) -> list[str]:
        """Return the names of the files in the folder ``room``, sorted.

        Empty if there is no such folder.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove the file ``name``; a file that does not exist is no error."""
        ...
