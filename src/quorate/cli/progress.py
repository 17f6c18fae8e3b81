"""A progress line on a terminal: the part that is done, a count, a rate and the remaining time."""

from __future__ import annotations

import sys
from time import monotonic
from types import TracebackType
from typing import Final, Self, TextIO

WIDTH: Final = 24
AGAIN_S: Final = 0.2
"""How many seconds a line is shown, at least, before the next line replaces it."""


def progress_line(part: float, count: int, unit: str, elapsed_s: float) -> str:
    """Return the line: a bar, the part that is done, the count, its rate, and the time left."""
    full = round(WIDTH * part)
    bar = "#" * full + "." * (WIDTH - full)
    rate = count / elapsed_s if elapsed_s > 0 else 0.0
    left = "" if part <= 0 else f", {_time(elapsed_s * (1 - part) / part)} left"
    return f"[{bar}] {part:4.0%}  {count:,} {unit}, {rate:,.0f}/s{left}"


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Progress:
    """Shows a progress line on ``out`` if ``out`` is a terminal; removes the line at the end."""

    def __init__(self, unit: str, out: TextIO | None = None) -> None:
        self._unit = unit
        self._out = sys.stderr if out is None else out
        self._began_s = self._shown_s = monotonic()
        self._width = 0

    def show(self, part: float, count: int) -> None:
        """Show the progress, unless a line was shown less than ``AGAIN_S`` ago."""
        now_s = monotonic()
        if not self._out.isatty() or now_s - self._shown_s < AGAIN_S:
            return
        self._shown_s = now_s
        line = progress_line(part, count, self._unit, now_s - self._began_s)
        self._out.write(f"\r{line:{self._width}}")
        self._out.flush()
        self._width = len(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._width:
            self._out.write(f"\r{'':{self._width}}\r")
            self._out.flush()
