"""The results of the readers of YAML and JSON: plain trees, and the position of each value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from quorate.documents.document_problem import Path

DEPTH_MAX: Final = 32
"""The maximal nesting depth of mappings and lists; documents need seven levels."""

VALUES_MAX: Final = 2_000_000
"""The maximal number of values of one text with aliases expanded.

This is enough for about 150,000 Node documents.
"""

TOO_DEEP: Final = f"values nest deeper than {DEPTH_MAX} levels"
TOO_MANY: Final = f"the text has over {VALUES_MAX} values once its aliases are expanded"
FLATTEN: Final = "no document needs that; check brackets and indentation"
HALF: Final = "a string contains half of a surrogate pair"
WHOLE: Final = "write the character itself, or both surrogates"
SPLIT: Final = "split it into several files, and use fewer aliases"


@dataclass(frozen=True, slots=True)
class Position:
    """A line and a column, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDocument:
    """One document as plain values, and the position where it starts.

    ``places`` computes the positions of its values. This may be slow, so it is called only if the
    document has an error.
    """

    tree: object
    start: Position
    places: Callable[[], Mapping[Path, Position]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """Why a text cannot be read.

    ``document_index`` is the index of the document in which reading stopped.
    """

    message: str
    remedy: str
    line: int | None = None
    column: int | None = None
    document_index: int = 0


_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE: Final = re.compile(r"\\[uU](?:0000)?[dD][89a-fA-F]")


def may_have_half(text: str) -> bool:
    """Return whether the values of ``text`` need the check ``has_half``.

    Only an escape can produce half of a surrogate pair, because ``text`` was decoded from UTF-8.
    """
    return _ESCAPED_SURROGATE.search(text) is not None or _SURROGATE.search(text) is not None


def has_half(tree: object) -> bool:
    """Return whether a string in ``tree`` holds half of a surrogate pair.

    UTF-8 cannot encode half of a pair, so the service could neither record nor return the string.
    """
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if _SURROGATE.search(value):
                return True
        elif isinstance(value, dict):
            waiting.extend(value)
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return False


def place_of(path: Path, places: Mapping[Path, Position], start: Position) -> Position:
    """Return the position of ``path``, or of its nearest parent whose position is known."""
    while path:
        found = places.get(path)
        if found is not None:
            return found
        path = path[:-1]
    return start
