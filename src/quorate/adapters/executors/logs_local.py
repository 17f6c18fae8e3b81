"""The output of this machine's runs, read from their keepers' files."""

from __future__ import annotations

from pathlib import Path

from quorate.adapters.executors.keepers import run_folder
from quorate.keeper.output import chunks, lines_end
from quorate.keeper.wanted import OUTPUT
from quorate.ports.log_port import Line, Output, Stream


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
