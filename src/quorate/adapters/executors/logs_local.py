"""Reads the output of this machine's runs, and the steps that the runs reported, from files."""

from __future__ import annotations

import json
import re
from math import isfinite
from pathlib import Path
from typing import Final

from quorate.adapters.executors.keepers import job_folder, run_folder
from quorate.keeper.job_files import read_job_file
from quorate.keeper.output import chunks, lines_end
from quorate.keeper.wanted import OUTPUT
from quorate.model.amounts import TIME_MS_MAX
from quorate.ports.log_port import Line, Output, Stream
from quorate.ports.step_report import StepReport
from quorate.runtime import STEPS

STEP_MAX: Final = 2**53
"""The largest step number that is accepted."""
FIGURES_MAX: Final = 12
"""The most figures of one report that are read."""
READ_BYTES_MAX: Final = 256 * 1024
"""A read returns at least one line, and ends after this many bytes of lines. The limit saves
memory: for each of many clients, the lines of one read are in memory, as text and as JSON."""
_TAIL_BYTES: Final = 8_192
"""The number of bytes that are read from the end of a file of steps; a line is far shorter."""
_FIGURE: Final = re.compile(r"[A-Za-z0-9_./-]{1,40}")


class LocalLogs:
    """Reads the output and the steps of runs below the folder of the local executor."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    def read(self, run: str, *, first: int, limit: int) -> Output | None:
        """Return at most ``limit`` lines of ``run``, beginning with line number ``first``.

        Return None if the run has no folder for its output.
        """
        folder = run_folder(self._folder, run) / OUTPUT
        if not folder.is_dir():
            return None
        lines: list[Line] = []
        begins = first
        left_bytes = READ_BYTES_MAX
        for chunk in chunks(folder, first):
            if not lines:
                begins = max(first, chunk.first)
            for number, text in enumerate(chunk.lines, start=chunk.first):
                if number < first:
                    continue
                if len(lines) == limit or left_bytes <= 0:
                    return Output(lines=lines, first=begins, is_last=False)
                left_bytes -= len(text)
                lines.append(
                    Line(
                        at_ms=chunk.at_ms,
                        node=chunk.node,
                        rank=None if chunk.rank < 0 else chunk.rank,
                        stream=Stream(chunk.stream),
                        text=text.decode(errors="replace"),
                    )
                )
        return Output(lines=lines, first=begins, is_last=True)

    def reports(self, run: str) -> list[StepReport]:
        """Return the last steps that ``run`` has reported, oldest first."""
        return reports_in(job_folder(self._folder, run))

    def end(self, run: str) -> int:
        """Return the number of the last line of ``run``, plus one; reads only the last file."""
        return lines_end(run_folder(self._folder, run) / OUTPUT)


def last_step(folder: Path) -> int | None:
    """Return the last step that the run of ``folder`` reported; None if it reported no step."""
    found = reports_in(folder)
    return found[-1].step if found else None


def reports_in(folder: Path) -> list[StepReport]:
    """Return the last reports of the run of ``folder``, oldest first.

    Incomplete lines, and lines of other programs, are ignored.
    """
    for name in ("rank-0.jsonl", "rank-0.old.jsonl"):
        found = [each for line in _tail(folder, name) if (each := _report(line)) is not None]
        if found:
            return found
    return []


def _tail(folder: Path, name: str) -> list[bytes]:
    try:
        found = read_job_file(folder, STEPS, name, most=_TAIL_BYTES)
    except OSError:
        found = None  # The file cannot be read, so no step is known.
    return [] if found is None else found.splitlines()


def _report(line: bytes) -> StepReport | None:
    """Return the report in ``line``; None if the line has other content."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    step = _whole(found.get("step")) if isinstance(found, dict) else None
    if step is None:
        return None
    figures = found.get("figures")
    return StepReport(
        step=step,
        at_ms=min(_whole(found.get("at_ms")) or 0, TIME_MS_MAX),
        generation=_whole(found.get("generation")) or 0,
        figures=_figures(figures) if isinstance(figures, dict) else {},
    )


def _whole(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= STEP_MAX else None


def _figures(found: dict[str, object]) -> dict[str, float | None]:
    """Return the first figures of a report as numbers; skip figures with unprintable names."""
    figures: dict[str, float | None] = {}
    for name, value in found.items():
        if len(figures) == FIGURES_MAX:
            break
        if _FIGURE.fullmatch(name) and isinstance(value, int | float):
            figures[name] = _number(value)
    return figures


def _number(value: float) -> float | None:
    try:
        found = float(value)
    except OverflowError:
        return None  # The number has hundreds of digits.
    return found if isfinite(found) else None
