"""Exit codes, and the one exception by which a command ends with one. Imports nothing heavy.

The codes are public for ever: docs/reference/exit-codes.md. So are the names of faults, which
programs get: docs/reference/refusals.md.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from quorate.model.refusal import Refusal


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


UNKNOWN_NAME: Final = "unknown-name"
"""The fault of asking for what is not there, as a refusal calls it too."""


class CommandError(Exception):
    """A command fails; each of ``lines`` is one fault with its remedy.

    ``fault`` is its name for programs, that of the first refusal where there are ``refusals``.
    """

    def __init__(
        self, code: Exit, *lines: str, fault: str = "", refusals: tuple[Refusal, ...] = ()
    ) -> None:
        super().__init__("\n".join(lines))
        self.code = code
        self.lines = lines
        self.refusals = refusals
        self.fault = fault or (refusals[0].code.value if refusals else code.name.lower())

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to make it again in another process."""
        return _command_error, (self.code, self.lines, self.fault, self.refusals)


def _command_error(
    code: Exit, lines: tuple[str, ...], fault: str, refusals: tuple[Refusal, ...]
) -> CommandError:
    return CommandError(code, *lines, fault=fault, refusals=refusals)
