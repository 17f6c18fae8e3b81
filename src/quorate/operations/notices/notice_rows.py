"""The operations on notices: for owners and users, about what concerns them."""

from __future__ import annotations

from typing import Final

from quorate.operations.caller import ANYBODY
from quorate.operations.notices import notice_requests as asked
from quorate.operations.notices import notice_responses as given
from quorate.operations.operation import EVENT_STREAM, Area, Effect, Operation

NOTICES: Final = (
    Operation(
        name="list-notices",
        area=Area.LEDGER,
        summary="List notices that concern you: starts, cuts, lotteries, losses, limits.",
        takes=asked.ListNotices,
        gives=given.Notices,
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
        summary="Receive notices that concern you as they are recorded, from a sequence on.",
        takes=asked.WatchNotices,
        gives=given.Notice,
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
