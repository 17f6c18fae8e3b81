"""Requests and responses of operations on notices."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, field

from quorate.operations.caller import ANYBODY
from quorate.operations.common_requests import PAGE_MAX, Asked, Name
from quorate.operations.common_responses import Given, Tree
from quorate.operations.ledger.ledger_operations import Seq
from quorate.operations.operation import EVENT_STREAM, Area, Effect, Operation

NOTICES_SHOWN: Final = 50
"""The default number of notices in one answer."""
KINDS_MAX: Final = 32
"""The most kinds in one request. There are fewer kinds than this."""


class WatchNotices(Asked, kw_only=True, frozen=True):
    """Notices from the event ``from`` on. Without ``from``, these are the notices from now on.

    ``kind`` (several may be given) and ``owner`` select notices.
    """

    first: Seq | None = field(default=None, name="from")
    kinds: Annotated[tuple[Name, ...], Meta(max_length=KINDS_MAX)] = field(default=(), name="kind")
    owner: Name | None = None


class ListNotices(WatchNotices, kw_only=True, frozen=True):
    """The first ``limit`` notices from the event ``from`` on or, without ``from``, the last ones.

    To read on, set ``from`` to ``next`` of the answer. All notices of one event stay together, so
    there may be a few notices more than ``limit``. ``kind`` (several may be given) and ``owner``
    select notices.
    """

    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = NOTICES_SHOWN


class Notice(Given, kw_only=True, frozen=True):
    """One notice: docs/notices.md has the kinds and their ``facts``.

    ``id`` is the permanent name of the notice in the ledger. ``user`` is empty if the notice is for
    the admins of the owner. ``run`` is empty if the notice is about no run, or about several runs.
    """

    id: str
    seq: int
    part: int
    at: str
    kind: str
    owner: str
    user: str
    run: str
    text: str
    facts: Tree


class Notices(Given, kw_only=True, frozen=True):
    """Notices in order; to read on, set ``from`` to ``next``."""

    items: tuple[Notice, ...]
    next: int


OPERATIONS: Final = (
    Operation(
        name="list-notices",
        area=Area.LEDGER,
        summary="List your notices: starts, cuts, lotteries, losses, limits.",
        takes=ListNotices,
        gives=Notices,
        roles=ANYBODY,
        method="GET",
        path="/notices",
        handler="quorate.operations.notices.notice_handlers:list_notices",
        refusals=("unknown-name",),
        cli=("notices",),
        is_long=True,
    ),
    Operation(
        name="watch-notices",
        area=Area.LEDGER,
        summary="Watch your notices as they are recorded, from a sequence on.",
        takes=WatchNotices,
        gives=Notice,
        roles=ANYBODY,
        method="GET",
        path="/notices/watch",
        handler="quorate.operations.notices.notice_handlers:watch_notices",
        effect=Effect.STREAM,
        refusals=("unknown-name", "stale-cursor"),
        cli=("notices",),
        media=EVENT_STREAM,
    ),
)
