"""Whether a disk takes writes: tried with an unnamed file beside the ledger."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from quorate.adapters.file_errors import translated

NEEDED_BYTES: Final = 256 * 1024
"""How much must fit: more than a commit of a few requests takes."""


def check_writable(ledger: Path) -> None:
    """Raise a ``StoreError`` unless the disk of ``ledger`` takes a little more, durably."""
    with translated(ledger), TemporaryFile(dir=ledger.parent) as file:
        file.write(bytes(NEEDED_BYTES))
        file.flush()
        os.fsync(file.fileno())
