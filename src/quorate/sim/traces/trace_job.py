"""One job of a trace, and a whole trace, in one form for all files and generators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

NAME_DIGITS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """A job: its arrival, its GPUs, and its work.

    ``arrives_s`` counts from the beginning of the trace. A job has ``steps`` of a ``job_type`` with
    rates in a table, or the ``duration_s`` for which it ran, or both. Its deadline is ``slo`` times
    its duration after its arrival; None means no deadline. ``flavors`` are the flavors that the job
    accepts; empty means any. ``order`` is its place in its file. ``declared_s`` is its declared
    duration; None means the real duration. ``line`` is its line in the file, for messages only; 0
    if the job is not from a text.
    """

    name: str
    arrives_s: float
    gpus: int
    owner: str = "trace"
    duration_s: float | None = None
    steps: float | None = None
    job_type: str | None = None
    weight: float = 1.0
    slo: float | None = None
    flavors: tuple[str, ...] = ()
    order: int = 0
    declared_s: float | None = None
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """The number of jobs of a trace that are not played, and the reason."""

    reason: str
    count: int
    first_line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Jobs in the order of their arrival; jobs of one instant in the order of the file.

    ``origin_ms`` is the instant at which the trace begins, by the clock of the recorded machine; 0
    if the file has no dates.
    """

    jobs: tuple[TraceJob, ...]
    origin_ms: int = 0
    skipped: tuple[Skipped, ...] = ()

    @property
    def gpus_max(self) -> int:
        """How many GPUs the largest job takes."""
        return max((job.gpus for job in self.jobs), default=0)

    @property
    def owners(self) -> tuple[str, ...]:
        """The owners of the jobs, by name."""
        return tuple(sorted({job.owner for job in self.jobs}))


class TraceError(ValueError):
    """The trace cannot be read; the message names the line, the column, the fault and the remedy.

    ``line`` counts from 1; 0 means the whole file. ``column`` is the name of the column, or its
    number from 1.
    """

    def __init__(self, line: int, column: str, fault: str, remedy: str) -> None:
        self.line, self.column, self.fault, self.remedy = line, column, fault, remedy
        parts = [f"line {line}"] if line else []
        parts += [f"column {column}"] if column else []
        where = ", ".join(parts)
        super().__init__(f"{where}: {fault}; {remedy}" if where else f"{fault}; {remedy}")

    def __reduce__(self) -> tuple[type[TraceError], tuple[int, str, str, str]]:
        """Return the class and arguments from which another process can make the same error."""
        return TraceError, (self.line, self.column, self.fault, self.remedy)


def must_differ(jobs: Iterable[TraceJob], column: str, remedy: str, prefix: str = "") -> None:
    """Raise ``TraceError`` for the first job that has the name of an earlier job.

    The column ``column`` has the names without ``prefix``.
    """
    first: dict[str, int] = {}
    for job in jobs:
        line = first.setdefault(job.name, job.line)
        if line != job.line:
            raise TraceError(
                job.line, column, f"is {job.name.removeprefix(prefix)}, as in line {line}", remedy
            )


def by_arrival(jobs: Sequence[TraceJob]) -> tuple[TraceJob, ...]:
    """Return ``jobs`` in the order of arrival; jobs of one instant keep their order."""
    return tuple(sorted(jobs, key=lambda job: (job.arrives_s, job.order)))


def numbered(order: int) -> str:
    """Return the name of a job without a name: its place in the file, padded for sorting."""
    return f"job-{order:0{NAME_DIGITS}d}"
