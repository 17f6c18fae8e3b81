"""How a person watches: how often the picture is looked at, and how it is shown."""

from __future__ import annotations

from typing import NamedTuple


class Looking(NamedTuple):
    """How to watch: how often, and ``looks_max`` times at most.

    With ``redraw`` the picture replaces the last one; otherwise it is printed once, and then a line
    for each new event.
    """

    interval_ms: int
    looks_max: int | None
    redraw: bool
