"""The logs port: the output of a run's work, and its reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from quorate.ports.step_report import StepReport


class Stream(StrEnum):
    """The stream that a process wrote a line to."""

    OUT = "out"
    ERR = "err"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line that the work of a run wrote on ``node``, without its line end.

    ``rank`` is the process that wrote the line; None if the executor itself wrote it.
    """

    at_ms: int
    node: str
    rank: int | None
    stream: Stream
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Lines of one run, in the order in which they were kept.

    ``first`` is the number of the first line. ``first`` is higher than requested if older lines are
    no longer kept. ``is_last`` is true if there are no later lines now.
    """

    lines: Sequence[Line]
    first: int
    is_last: bool


class Logs(Protocol):
    """Keeps the output of runs. The number of a line never changes."""

    def read(self, run: str, *, first: int, limit: int) -> Output | None:
        """Return at most ``limit`` lines of ``run`` from number ``first`` on, counted from 0.

        Fewer lines are returned if they are long; ``is_last`` says whether there are more. None if
        no output of this run is kept.
        """
        ...

    def end(self, run: str) -> int:
        """Return the number after the last kept line of ``run``; 0 if there is none."""
        ...

    def reports(self, run: str) -> Sequence[StepReport]:
        """Return the last steps that ``run`` has reported, the oldest of them first."""
        ...
