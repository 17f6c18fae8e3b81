"""The options of a watch: how often it redraws, how many times, and how it prints."""

from __future__ import annotations

from typing import NamedTuple


class WatchOptions(NamedTuple):
    """The options of a watch; the watch ends after ``redraws_max`` redraws.

    If ``redraw`` is true, each new screen replaces the screen before. Otherwise the state is
    printed once, and then a line for each new event.
    """

    interval_ms: int
    redraws_max: int | None
    redraw: bool
