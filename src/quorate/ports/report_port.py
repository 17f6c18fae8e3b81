"""The reports port: the pages with the reports that simulations have written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFile:
    """A page: its name, its size, and when it was written."""

    name: str
    size_bytes: int
    written_ms: int


class Reports(Protocol):
    """Pages for reading; this port writes nothing."""

    def listed(self) -> Sequence[ReportFile]:
        """Return the pages, the newest first; raise ``OSError`` if they cannot be read."""
        ...

    def read(self, name: str) -> tuple[ReportFile, str] | None:
        """Return the page called ``name`` as text; None if there is no such page.

        The method raises ``OSError`` if the page cannot be read.
        """
        ...
