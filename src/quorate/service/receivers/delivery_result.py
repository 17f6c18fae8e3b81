"""The result of one attempt to deliver a notice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Result(Enum):
    """The receiver's response to the notice."""

    DELIVERED = auto()
    REFUSED = auto()
    """The receiver did not accept this notice now; it may accept another."""
    REJECTED = auto()
    """The receiver will never accept this notice; it may accept another."""
    UNREACHABLE = auto()
    """The receiver accepts no notice now."""
    GONE = auto()
    """The receiver has said that it will accept no more notices."""


@dataclass(frozen=True, slots=True)
class Posted:
    """The result of one attempt.

    ``why`` is for the log, and says why the attempt failed: a status, or the system's error.
    ``why`` never has content that was sent.
    """

    result: Result
    why: str = ""
