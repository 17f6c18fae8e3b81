"""The output of runs in memory: the simplest implementation of the logs port."""

from __future__ import annotations

from dataclasses import dataclass, field

from quorate.ports.log_port import Line, Output, Stream
from quorate.ports.step_report import StepReport


@dataclass
class MemoryLogs:
    """The output of runs: ``kept`` has the lines of each run, ``reported`` its step reports."""

    kept: dict[str, list[Line]] = field(default_factory=dict)
    reported: dict[str, list[StepReport]] = field(default_factory=dict)

    def write(
        self, run: str, text: str, *, at_ms: int = 0, node: str = "n1", stream: str = "out"
    ) -> None:
        """Store a line of the output of ``run``."""
        line = Line(at_ms=at_ms, node=node, rank=0, stream=Stream(stream), text=text)
        self.kept.setdefault(run, []).append(line)

    def read(self, run: str, *, first: int, limit: int) -> Output | None:
        """Return lines of ``run``, as the port describes."""
        lines = self.kept.get(run)
        if lines is None:
            return None
        page = lines[first : first + limit]
        return Output(lines=page, first=first, is_last=first + len(page) >= len(lines))

    def end(self, run: str) -> int:
        """Return the number of the line that ``run`` will write next."""
        return len(self.kept.get(run, ()))

    def reports(self, run: str) -> list[StepReport]:
        """Return the last steps that ``run`` has reported."""
        return self.reported.get(run, [])
