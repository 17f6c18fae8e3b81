"""The logs port: the output of a run's work, and the steps that the work has reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from quorate.ports.step_report import StepReport


class Stream(StrEnum):
    """The stream to which a process wrote a line."""

    OUT = "out"
    ERR = "err"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line that the work of a run wrote on ``node``, without its line end.

    ``rank`` is the rank of the process that wrote the line; None if the executor wrote it.
    """

    at_ms: int
    node: str
    rank: int | None
    stream: Stream
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Lines of one run, in the order in which they were stored.

    ``first`` is the number of the first line. It is higher than the requested number if the
    requested lines are no longer stored. ``is_last`` is true if there are no later lines now.
    """

    lines: Sequence[Line]
    first: int
    is_last: bool


class Logs(Protocol):
    """Keeps the output of runs. The number of a line never changes."""

    def read(self, run: str, *, first: int, limit: int) -> Output | None:
        """Return at most ``limit`` lines of ``run`` from number ``first`` on, counted from 0.

        If lines are long, fewer lines may be returned; ``is_last`` says whether there are more. The
        result is None if no output of this run is stored.
        """
        ...

    def end(self, run: str) -> int:
        """Return the number that the next line of ``run`` will have; 0 if there is no line yet."""
        ...

    def reports(self, run: str) -> Sequence[StepReport]:
        """Return the latest steps that ``run`` has reported, the oldest of them first."""
        ...
