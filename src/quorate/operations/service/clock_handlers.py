"""The service's clock: its status, and how an operator accepts its time after a jump."""

from __future__ import annotations

from typing import Any

from quorate.documents.times import time_text
from quorate.operations.answer_types import Answer
from quorate.operations.common_requests import Nothing
from quorate.operations.operation import Operation
from quorate.operations.request_context import RequestContext
from quorate.ports.clock_port import ClockControl, ClockStatus
from quorate.views.exits import CommandError, Exit


def show_clock(context: RequestContext, asked: Nothing, operation: Operation) -> Answer:
    """Return the status of the clock."""
    del asked, operation
    return _answer(_control(context).status())


def accept_clock(context: RequestContext, asked: Nothing, operation: Operation) -> Answer:
    """Accept the present time of the clock for the operator, and return the clock's status."""
    del asked, operation
    return _answer(_control(context).accept(context.caller.shown))


def _control(context: RequestContext) -> ClockControl:
    if context.clock_control is None:
        raise CommandError(
            Exit.USAGE,
            "only a service checks its clock; name a service with --server URL, or --context NAME",
        )
    return context.clock_control


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
    return [f"the clock shows {time_text(status.wall_ms)}, and the service trusts it"]
