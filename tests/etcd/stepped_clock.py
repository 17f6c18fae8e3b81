"""Clocks of programs that a test sets: a file beside each program says how far its clock is ahead.

A service of ``CODE`` and a scheduler read the file whenever they need the time, so a clock steps
while they run. No two clocks differ by 5 minutes, after which a service would stop deciding.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quorate.adapters.clock_system import SystemClock
from quorate.model.amounts import MINUTE_MS
from tests.service.program import CLI
from tests.tidy.tree import ROOT

AHEAD_MS_MAX: Final = 2 * MINUTE_MS
"""The largest difference between a clock and the machine's clock, in both directions."""
AHEAD_FILE: Final = Path("ahead")
"""The file of a service, in its folder."""
CODE: Final = (
    f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    f"from tests.etcd.stepped_clock import plant; plant()\n{CLI}"
)
"""The program of a service whose clock steps."""


class SteppedClock:
    """The machine's clock plus the milliseconds in the file ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._clock = SystemClock()

    def now_ms(self) -> int:
        return self._clock.now_ms() + _ahead_ms(self._path)


def set_ahead(path: Path, ahead_ms: int) -> None:
    """Set the clock of the program that reads ``path`` ahead by ``ahead_ms`` from now on."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(str(ahead_ms), "ascii")
    draft.replace(path)


def plant() -> None:
    """Make the clock of this process follow the file in its folder."""
    now_ms = SystemClock.now_ms
    SystemClock.now_ms = lambda self: now_ms(self) + _ahead_ms(AHEAD_FILE)  # type: ignore[method-assign]


def _ahead_ms(path: Path) -> int:
    return int(path.read_text("ascii")) if path.exists() else 0
