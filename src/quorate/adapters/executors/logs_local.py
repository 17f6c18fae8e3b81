"""What runs of this machine have written: output, from where keepers keep it, and steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from quorate.adapters.executors.keepers import run_folder
from quorate.keeper.job_files import read_job_file
from quorate.keeper.output import chunks, lines_end
from quorate.keeper.wanted import OUTPUT
from quorate.ports.log_port import Line, Output, Stream
from quorate.runtime import STEPS

STEP_MAX: Final = 2**53
"""A larger number is no step: no run does so many."""
_TAIL_BYTES: Final = 8_192
"""How much of the end of a record is read; a line is far shorter."""


class LocalLogs:
    """Reads below the folder of the local executor."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    def read(self, run: str, *, first: int, limit: int) -> Output | None:
        """Return at most ``limit`` lines of ``run`` from number ``first`` on."""
        folder = run_folder(self._folder, run) / OUTPUT
        if not folder.is_dir():
            return None
        lines: list[Line] = []
        begins = first
        for chunk in chunks(folder, first):
            if not lines:
                begins = max(first, chunk.first)
            for number, text in enumerate(chunk.lines, start=chunk.first):
                if number < first:
                    continue
                if len(lines) == limit:
                    return Output(lines=lines, first=begins, is_last=False)
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

    def end(self, run: str) -> int:
        """Return the number after the last line of ``run``; reads its last file only."""
        return lines_end(run_folder(self._folder, run) / OUTPUT)


def last_step(folder: Path) -> int | None:
    """Return the last step that the run of ``folder`` has reported; None where it never did.

    A line that is being written, or that another program wrote, is ignored.
    """
    for name in ("rank-0.jsonl", "rank-0.old.jsonl"):
        for line in reversed(_tail(folder, name)):
            step = _step(line)
            if step is not None:
                return step
    return None


def _tail(folder: Path, name: str) -> list[bytes]:
    try:
        found = read_job_file(folder, STEPS, name, most=_TAIL_BYTES)
    except OSError:
        found = None  # The disk does not give it: no step.
    return [] if found is None else found.splitlines()


def _step(line: bytes) -> int | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    step = found.get("step") if isinstance(found, dict) else None
    if not isinstance(step, int) or isinstance(step, bool):
        return None
    return step if 0 <= step <= STEP_MAX else None
