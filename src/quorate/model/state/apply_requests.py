"""The effect of events about access tokens and about requests with an idempotency key."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Any, Final

from quorate.model.events import RequestKept, TokenIssued, TokenRevoked
from quorate.model.state.records import RequestRecord, TokenRecord
from quorate.model.state.state import State


def _request_kept(state: State, event: RequestKept) -> None:
    """Keep the request, and forget requests that are too old at the time of this event.

    Requests are in the order of their events, so the oldest requests come first.
    """
    requests = state.requests
    old = takewhile(lambda entry: entry[1].is_forgotten(event.at_ms), requests.items())
    for key, _ in tuple(old):
        del requests[key]
    # Some expired requests may stay in an overlay: a key that was used again keeps its old position
    # there, and the search ends at this key, before later expired requests.
    earlier = requests.pop(event.key, None)
    assert earlier is None or earlier.is_forgotten(event.at_ms), event
    requests[event.key] = RequestRecord(
        event.digest, state.seq + 1, event.count, event.changes, event.warnings, event.at_ms
    )


def _token_issued(state: State, event: TokenIssued) -> None:
    assert event.token not in state.tokens, event
    state.tokens[event.token] = TokenRecord(event)


def _token_revoked(state: State, event: TokenRevoked) -> None:
    record = state.tokens.own(event.token)
    assert record.revoked_ms is None, event
    record.revoked_ms = event.at_ms


REQUESTS: Final[dict[type, Callable[[State, Any], None]]] = {
    RequestKept: _request_kept,
    TokenIssued: _token_issued,
    TokenRevoked: _token_revoked,
}
