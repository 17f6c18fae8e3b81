"""The logs port: keeps what the work of a run has written, and what it has reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from quorate.ports.step_report import StepReport


class Stream(StrEnum):
    """Where a process wrote a line."""

    OUT = "out"
    ERR = "err"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line that the work of a run wrote on ``node``, without its end.

    ``rank`` is the process that wrote it; None if the executor wrote it itself.
    """

    at_ms: int
    node: str
    rank: int | None
    stream: Stream
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Lines of one run, in the order in which they were kept.

    ``first`` is the number of the first one, which is later than requested if older ones are not
    kept any more. ``is_last`` says that there is nothing after them now.
    """

    lines: Sequence[Line]
    first: int
    is_last: bool


class Logs(Protocol):
    """Keeps output. A line that was read once is read again under the same number."""

    def read(self, run: str, *, first: int, limit: int) -> Output | None:
        """Return at most ``limit`` lines of ``run`` from number ``first`` on, counted from 0.

        Lines that are long may be fewer; ``is_last`` says whether there are more. None if
        nothing is kept for this run.
        """
        ...

    def end(self, run: str) -> int:
        """Return the number after the last line of ``run`` that is kept; 0 if none is."""
        ...

    def reports(self, run: str) -> Sequence[StepReport]:
        """Return the last steps that ``run`` has reported, the oldest of them first."""
        ...
