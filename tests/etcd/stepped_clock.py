"""Clocks of programs that a test sets: a file beside each program says how far its clock is ahead.

A service of ``CODE`` and a scheduler read the file whenever they need the time, so a clock steps
while they run. No two clocks differ by the five minutes after which a service stops deciding.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quorate.adapters.clock_system import SystemClock
from quorate.model.amounts import MINUTE_MS
from tests.service.program import CLI
from tests.tidy.tree import ROOT

AHEAD_MS_MAX: Final = 2 * MINUTE_MS
"""How far a clock is ahead of the machine's, or behind it, at most."""
AHEAD_FILE: Final = Path("ahead")
"""The file of a service, in its folder."""
CODE: Final = (
    f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    f"from tests.etcd.stepped_clock import plant; plant()\n{CLI}"
)
"""What starts a service whose clock steps."""


class SteppedClock:
    """The machine's clock, and as many milliseconds as the file ``path`` says."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._clock = SystemClock()

    def now_ms(self) -> int:
        return self._clock.now_ms() + _ahead_ms(self._path)


def set_ahead(path: Path, ahead_ms: int) -> None:
    """Have the clock of the program that reads ``path`` be so far ahead from now on."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(str(ahead_ms), "ascii")
    draft.replace(path)


def plant() -> None:
    """Have the clock of this process follow the file in its folder."""
    now_ms = SystemClock.now_ms
    SystemClock.now_ms = lambda self: now_ms(self) + _ahead_ms(AHEAD_FILE)  # type: ignore[method-assign]


def _ahead_ms(path: Path) -> int:
    return int(path.read_text("ascii")) if path.exists() else 0
