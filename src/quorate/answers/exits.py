"""Exit codes, and the one exception by which a command ends with one. Imports nothing heavy.

The codes are public for ever: docs/reference/exit-codes.md.
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """How a command ended."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    INVALID = 3
    UNUSABLE = 4
    UNSOUND = 5
    UNTOLD = 6
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class CommandError(Exception):
    """A command cannot go on; each of ``lines`` is one fault with its remedy."""

    def __init__(self, code: Exit, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.code = code
        self.lines = lines
