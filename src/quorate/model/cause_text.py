"""Why a firm start was moved, as a sentence for messages."""

from __future__ import annotations

from typing import Final

from quorate.model.events import MoveCause, MoveCode

_SENTENCES: Final = {
    MoveCode.LEASE_OVERRAN: "{objects} overran",
    MoveCode.EXECUTOR_LATE: "the end of {objects} is not confirmed in time",
    MoveCode.NODE_LOST: "{objects} failed",
    MoveCode.NODE_DRAINED: "{objects} drained",
    MoveCode.NODES_CHANGED: "the nodes of {objects} changed",
    MoveCode.BUDGET_CHANGED: "{objects} changed, or closed by then",
    MoveCode.CAP_CHANGED: "{objects} changed",
    MoveCode.QUOTA_CHANGED: "the quota of {objects} changed",
    MoveCode.POOL_CHANGED: "{objects} changed",
    MoveCode.CONFLICT_CLEARING: "{objects} makes room for it",
    MoveCode.CONFLICT_CALLED_OFF: "no conflict",
    MoveCode.LOANS_RECALLED: "what its owner lent to {objects} is recalled for it",
    MoveCode.FOUND_AGAIN: "it has a start again",
    MoveCode.AS_RECORDED: "{note}",
}


def cause_text(cause: MoveCause | None) -> str:
    """Return ``cause`` as a sentence without a full stop; empty where there is none."""
    if cause is None:
        return ""
    objects = ", ".join(f"{kind} {name}" for kind, name in cause.objects) or "something"
    text = _SENTENCES[cause.code].format(objects=objects, note=cause.note)
    return f"{text}: {cause.note}" if cause.code is MoveCode.CONFLICT_CALLED_OFF else text
