"""Checks that a watching caller may continue: a watch may last longer than the caller's token."""

from __future__ import annotations

from quorate.model.state.state_view import StateView
from quorate.operations.caller import Caller
from quorate.views.exits import CommandError, Exit
from quorate.views.statuses import UNAUTHENTICATED


def check_standing(view: StateView, caller: Caller, now_ms: int) -> None:
    """Raise ``CommandError`` if the token of ``caller`` was revoked or has expired."""
    record = view.tokens.get(caller.token)
    if record is not None and record.revoked_ms is not None:
        raise CommandError(
            Exit.REFUSED,
            "Authorization: the access token was revoked; ask an admin for another",
            fault=UNAUTHENTICATED,
        )
    if caller.until_ms is not None and caller.until_ms <= now_ms:
        raise CommandError(
            Exit.REFUSED,
            "Authorization: the access token has expired; ask an admin for another",
            fault=UNAUTHENTICATED,
        )
