"""What operations take that show the fleet as a whole, or the output of a run."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from quorate.operations.common_requests import Asked, Name

LINES_MAX: Final = 1_000
"""How many lines of a run's output one answer has at most."""


class FleetTop(Asked, kw_only=True, frozen=True):
    """Of one pool, or of all of them."""

    pool: Name | None = None


class RunLogs(Asked, kw_only=True, frozen=True):
    """The output of a run: ``limit`` lines at most, from line ``from`` on, counted from 0.

    With ``tail`` only the last ``tail`` lines that exist.
    """

    run: Name
    from_: Annotated[int, Meta(ge=0)] = 0
    limit: Annotated[int, Meta(ge=1, le=LINES_MAX)] = LINES_MAX
    tail: Annotated[int, Meta(ge=1, le=LINES_MAX)] | None = None
