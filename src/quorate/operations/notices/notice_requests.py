"""What the operations on notices take."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, field

from quorate.operations.common_requests import PAGE_MAX, Asked, Name
from quorate.operations.ledger.ledger_requests import Seq

NOTICES_SHOWN: Final = 50
"""How many notices are shown by default."""
KINDS_MAX: Final = 32
"""How many kinds may be asked for at once; there are fewer."""


class WatchNotices(Asked, kw_only=True, frozen=True):
    """From the event ``from`` on; without it what is recorded from now on.

    ``kind`` (several may be given) and ``owner`` choose among them.
    """

    first: Seq | None = field(default=None, name="from")
    kinds: Annotated[tuple[Name, ...], Meta(max_length=KINDS_MAX)] = field(default=(), name="kind")
    owner: Name | None = None


class ListNotices(WatchNotices, kw_only=True, frozen=True):
    """The first ``limit`` from the event ``from`` on, else the last ones.

    To read on, ask from ``next``. Notices of one event are never parted, so that there may be a few
    more. ``kind`` (several may be given) and ``owner`` choose among them.
    """

    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = NOTICES_SHOWN
