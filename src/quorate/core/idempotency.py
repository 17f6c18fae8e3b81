"""Requests with an idempotency key: each is carried out once, however often it is sent.

The record of the request is an event in the same block as the effects of the request. So a repeated
request is never carried out twice, even if the service ended before it could answer the first one.
"""

from __future__ import annotations

from quorate.core.commands import Decision, Keyed
from quorate.model.amounts import HOUR_MS
from quorate.model.events import RequestKept
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.state.records import REQUESTS_KEPT_MS
from quorate.model.state.state_view import StateView


def repeated(view: StateView, command: Keyed, now_ms: int) -> Decision | None:
    """Return the decision on a command whose key is known; None if the key of ``command`` is new.

    If the same command was carried out before, the decision changes nothing and names that request.
    If the key was used for a command with different content, the decision is a refusal.
    """
    request = view.requests.get(command.key)
    if request is None or request.is_forgotten(now_ms):
        return None
    if request.digest == command.digest:
        return Decision(repeats=request)
    sent = command.sent or command.key
    refusal = Refusal(
        code=RefusalCode.KEY_REUSED,
        subject=f"the idempotency key {sent!r} was used for another request",
        remedy=f"repeat that request unchanged, or choose a new key: a key is remembered for "
        f"{REQUESTS_KEPT_MS // HOUR_MS} hours",
    )
    return Decision(refusals=(refusal,))


def kept(command: Keyed, decision: Decision, at_ms: int, actor: str) -> Decision:
    """Return ``decision`` with an event that records the key; a refusal is returned unchanged."""
    if decision.refusals:
        return decision
    fact = RequestKept(
        at_ms=at_ms,
        actor=actor,
        key=command.key,
        digest=command.digest,
        count=len(decision.events),
        changes=tuple((kind, name, change.value) for kind, name, change in decision.changes),
        warnings=decision.warnings,
    )
    return Decision((*decision.events, fact), (), decision.changes, decision.warnings)
