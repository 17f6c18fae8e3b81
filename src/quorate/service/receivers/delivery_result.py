"""The result of one attempt to deliver a notice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Result(Enum):
    """What became of it."""

    DELIVERED = auto()
    REFUSED = auto()
    """This one is not taken now; another may be."""
    REJECTED = auto()
    """This one will never be taken; another may be."""
    UNREACHABLE = auto()
    """Nothing is taken now."""
    GONE = auto()
    """Nothing will be taken any more: the receiver said so."""


@dataclass(frozen=True, slots=True)
class Posted:
    """``why`` is for the log: a status, or the system's error. Nothing of what was sent."""

    result: Result
    why: str = ""
