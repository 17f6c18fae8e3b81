"""What a reader of YAML or JSON hands on: plain trees, and where each value was written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from quorate.documents.problem import Path

DEPTH_MAX: Final = 32
"""How deep mappings and lists may nest; documents need seven levels."""

VALUES_MAX: Final = 2_000_000
"""How many values one text may hold once aliases are written out: some 150,000 nodes."""

TOO_DEEP: Final = f"values nest deeper than {DEPTH_MAX} levels"
TOO_MANY: Final = f"the text holds over {VALUES_MAX} values, aliases written out"
FLATTEN: Final = "no document needs that; check brackets and indentation"
SPLIT: Final = "split it into several files, and use fewer aliases"


@dataclass(frozen=True, slots=True)
class Position:
    """A line and a column, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDocument:
    """One document as plain values. ``places`` may be costly and is asked on errors only."""

    tree: object
    start: Position
    places: Callable[[], Mapping[Path, Position]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """Why a text cannot be read; ``document_index`` is the document where reading stopped."""

    message: str
    remedy: str
    line: int | None = None
    column: int | None = None
    document_index: int = 0


def place_of(path: Path, places: Mapping[Path, Position], start: Position) -> Position:
    """Return where ``path`` was written, or the nearest place above it that was."""
    while path:
        found = places.get(path)
        if found is not None:
            return found
        path = path[:-1]
    return start
