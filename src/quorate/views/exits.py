"""Exit codes, and the exception that ends a command with one of them. Imports nothing heavy.

The exit codes never change: docs/reference/exit-codes.md. The names of faults, which programs
receive, never change either: docs/reference/refusals.md.
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
    UNCERTAIN = 7
    INTERRUPTED = 130
    BROKEN_PIPE = 141


KEY_OPTION: Final = "--idempotency-key"
"""The option for repeating an ``UNCERTAIN`` command so that it is carried out only once."""

UNKNOWN_NAME: Final = "unknown-name"
"""The fault of a request for a name that does not exist; a refusal has the same code."""


class CommandError(Exception):
    """A command has failed; each of ``lines`` is one fault with its remedy.

    ``fault`` is the code for programs. If there are ``refusals``, ``fault`` is the code of the
    first refusal.
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
        """Return how pickle makes the exception again in another process."""
        return _command_error, (self.code, self.lines, self.fault, self.refusals)


def _command_error(
    code: Exit, lines: tuple[str, ...], fault: str, refusals: tuple[Refusal, ...]
) -> CommandError:
    return CommandError(code, *lines, fault=fault, refusals=refusals)
