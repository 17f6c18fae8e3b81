"""The faults of a document as values: path, message and remedy.

A message is either a predicate whose subject is the path ("must be positive, got 0"), or a complete
clause ("12 is not on the grid of ..."). Either form can follow the path. So the same message is
used in the line ``path: message; remedy`` and in the sentence ``path message``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

Path = tuple[str | int, ...]
"""The keys and list positions that lead from a document's root to a value."""

ROOT: Final = "document"
"""The path of a fault that concerns the whole document."""

SHOWN_CHARS_MAX: Final = 60
"""How many characters of the user's text an error message repeats."""

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,59}")
_PREDICATES: Final = frozenset(
    {"must", "is", "are", "has", "lists", "names", "needs", "references", "cannot"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One fault of one document. ``path`` is empty if the text could not be parsed."""

    source: str
    document_index: int
    kind: str | None
    name: str | None
    path: str
    message: str
    remedy: str
    line: int | None
    column: int | None = None

    def text(self) -> str:
        """Return the problem on one line: ``file:line: Kind/name: path: message; remedy``."""
        where = self.source
        if self.line is not None:
            where += f":{self.line}"
            # The column is shown only for broken syntax. Otherwise the path identifies the value.
            if not self.path and self.column is not None:
                where += f":{self.column}"
        parts = [where]
        if self.kind is not None:
            parts.append(self.kind if self.name is None else f"{self.kind}/{self.name}")
        elif self.path:
            parts.append(f"document {self.document_index + 1}")
        if self.path and self.path != ROOT:
            parts.append(self.path)
        return ": ".join([*parts, self.message]) + f"; {self.remedy}"

    def sentence(self) -> str:
        """Return path and message as one clause, without file name, document name and remedy."""
        if not self.path:
            return self.message
        joint = " " if self.message.split(" ", 1)[0] in _PREDICATES else ": "
        return f"{self.path}{joint}{self.message}"


def path_text(path: Path) -> str:
    """Return ``path`` in the notation of ``spec.envelopes[0].selector["fabric.domain"]``."""
    written = ""
    for key in path:
        if isinstance(key, int):
            written += f"[{key}]"
        elif _PLAIN_KEY.fullmatch(key):
            written += f".{key}" if written else key
        else:
            written += f"[{quoted(key)}]"
    return written


def quoted(text: str) -> str:
    """Return ``text`` in double quotes on one line, cut to ``SHOWN_CHARS_MAX``."""
    if len(text) > SHOWN_CHARS_MAX:
        text = text[:SHOWN_CHARS_MAX] + "..."
    return json.dumps(text, ensure_ascii=not text.isprintable())


def shown(value: object) -> str:  # noqa: PLR0911 - one line per type, nothing else
    """Return ``value`` as error messages repeat it: shortened, and on one line."""
    if isinstance(value, str):
        return quoted(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        # Python itself refuses str() of an int with thousands of digits.
        return str(value) if value.bit_length() <= 128 else "a number of over 38 digits"  # noqa: PLR2004
    if isinstance(value, float | Decimal):
        written = str(value)
        return written if len(written) <= SHOWN_CHARS_MAX else written[:SHOWN_CHARS_MAX] + "..."
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return f"a value of type {type(value).__name__}"


class CalcInputError(ValueError):
    """``calc`` cannot read the value at ``path`` of its input; ``message`` includes the remedy."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message
