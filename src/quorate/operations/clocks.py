"""The service's clock: how it stands, and an operator who accepts it after a step."""

from __future__ import annotations

from typing import Any

from quorate.answers.exits import CommandError, Exit
from quorate.documents.times import time_text
from quorate.operations.answer import Answer
from quorate.operations.asked_service import Nothing
from quorate.operations.desk import Desk
from quorate.operations.operation import Operation
from quorate.ports.clock import ClockControl, ClockStatus


def show_clock(desk: Desk, asked: Nothing, operation: Operation) -> Answer:
    """Return how the clock stands."""
    del asked, operation
    return _answer(_control(desk).status())


def accept_clock(desk: Desk, asked: Nothing, operation: Operation) -> Answer:
    """Return how the clock stands once it is believed as it is."""
    del asked, operation
    return _answer(_control(desk).accept(desk.caller.shown))


def _control(desk: Desk) -> ClockControl:
    if desk.clock_control is None:
        raise CommandError(
            Exit.USAGE,
            "no clock is compared here: a service does that; name one with --server URL, or "
            "--context NAME",
        )
    return desk.clock_control


def _answer(status: ClockStatus) -> Answer:
    def tree() -> dict[str, Any]:
        return {
            "deciding": not status.why,
            "wall": time_text(status.wall_ms),
            "trusted": time_text(status.trusted_ms),
            "stepMs": status.step_ms,
            "why": status.why,
        }

    return Answer(tree=tree, lines=lambda _: _lines(status))


def _lines(status: ClockStatus) -> list[str]:
    if status.why:
        return [f"nothing is decided: {status.why}"]
    return [f"the clock says {time_text(status.wall_ms)}, and is believed"]
