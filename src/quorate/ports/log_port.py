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

    ``first`` is the number of the first line, which is later than requested if older ones are no
    longer kept. ``is_last`` says that there are no later lines now.
    """

    lines: Sequence[Line]
    first: int
    is_last: bool


class Logs(Protocol):
    """Keeps output. A line always keeps its number."""

    def read(self, run: str, *, first: int, limit: int) -> Output | None:
        """Return at most ``limit`` lines of ``run`` from number ``first`` on, counted from 0.

        There may be fewer if lines are long; ``is_last`` says whether there are more. None if
        nothing is kept for this run.
        """
        ...

    def end(self, run: str) -> int:
        """Return the number after the last kept line of ``run``; 0 if there is none."""
        ...

    def reports(self, run: str) -> Sequence[StepReport]:
        """Return the last steps that ``run`` has reported, the oldest of them first."""
        ...
