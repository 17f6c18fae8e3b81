"""Texts for messages: why a firm start was moved, and the causes of a round."""

from __future__ import annotations

from typing import Final

from quorate.model.closed_words import counted
from quorate.model.events import MoveCause, MoveCode, RoundCause, RoundCode, RoundShared

_SENTENCES: Final = {
    MoveCode.LEASE_OVERRAN: "{objects} overran",
    MoveCode.EXECUTOR_LATE: "the end of {objects} was not confirmed in time",
    MoveCode.NODE_LOST: "{objects} failed",
    MoveCode.NODE_DRAINED: "{objects} drained",
    MoveCode.NODES_CHANGED: "the nodes of {objects} changed",
    MoveCode.BUDGET_CHANGED: "{objects} changed, or its window is closed at the planned start",
    MoveCode.CAP_CHANGED: "{objects} changed",
    MoveCode.OWNER_MOVED: "the parents of {objects} changed",
    MoveCode.QUOTA_CHANGED: "the quota of {objects} changed",
    MoveCode.POOL_CHANGED: "{objects} changed",
    MoveCode.CONFLICT_CLEARING: "{objects} makes room for the start",
    MoveCode.CONFLICT_CALLED_OFF: "no conflict: {note}",
    MoveCode.CONFLICT_NO_HEADROOM: "no conflict: it waits for its owner's hard quota",
    MoveCode.CONFLICT_BARRED: (
        "no conflict: an earlier conflict started a run of its owner, and that run ended too soon"
    ),
    MoveCode.CONFLICT_COOL_DOWN: "no conflict: it was itself cut within the cool-down",
    MoveCode.CONFLICT_UNSTARTED: (
        "no conflict: the executor refused its last start, for which it had got GPUs"
    ),
    MoveCode.CONFLICT_RATE_ZERO: "no conflict: its pool has a disruptionRate of 0",
    MoveCode.CONFLICT_NOT_COVERED: (
        "no conflict: its owner's disruption account does not cover the cost"
    ),
    MoveCode.CONFLICT_SOFT_QUOTA: (
        "no conflict: its owner has used its budget, or would exceed its target share"
    ),
    MoveCode.CONFLICT_NOT_NEEDED: "no conflict: none is needed",
    MoveCode.CONFLICT_NO_ROOM: "no conflict: none would make room now",
    MoveCode.CONFLICT_NO_LOTTERY: "no conflict: the ledger's lottery chain is used up",
    MoveCode.LOANS_RECALLED: "loans from its owner to {objects} are recalled for it",
    MoveCode.CONFLICT_FOUND: "its owner may call a conflict for it now",
    MoveCode.FOUND_AGAIN: "the run has a planned start again",
    MoveCode.AS_RECORDED: "{note}",
}

_OF_ROUNDS: Final = {
    RoundCode.NO_POLICY: "there is no policy {policy!r}",
    RoundCode.TOO_MANY_RUNS: (
        "{policy} takes too long for {runs}: its maximum is {limit}; choose another policy for "
        "the pool"
    ),
    RoundCode.TOO_CROWDED: (
        "{policy} takes too long for {runs} on {gpus}: its maximum is {limit} per GPU; choose "
        "another "
        "policy for the pool"
    ),
    RoundCode.FAILED: "the policy failed; choose another policy for the pool, and report this",
    RoundCode.LEFT_OUT: "{runs} left out ({note})",
    RoundCode.UNSOLVED: "{note}",
    RoundCode.UNFINISHED: (
        "{runs} might get more: {policy} takes too long to compute how much, or rounding hides "
        "it; these runs share the remaining GPUs by weight"
    ),
    RoundCode.DEADLINES_MISSED: "{policy} cannot keep the deadlines of {runs}",
    RoundCode.NOTHING_RUNS: "no run can start, or no envelope pays for one",
    RoundCode.NOT_CHOSEN: (
        "the round could not be chosen: a bug in Quorate, which the service's log describes"
    ),
    RoundCode.AS_RECORDED: "{note}",
}


def cause_text(cause: MoveCause | None) -> str:
    """Return ``cause`` as a sentence without a full stop; empty if ``cause`` is None."""
    if cause is None:
        return ""
    objects = ", ".join(f"{kind} {name}" for kind, name in cause.objects) or "something"
    return _SENTENCES[cause.code].format(objects=objects, note=cause.note)


def round_text(shared: RoundShared) -> str:
    """Return the causes of a round as a sentence without a full stop; empty if there are none.

    The sentence names no run and no owner, so that every owner in the pool may read it.
    """
    texts = "; ".join(_round_cause_text(cause) for cause in shared.causes)
    has_own = all(cause.policy in ("", shared.policy) for cause in shared.causes)
    return texts if has_own else f"all share by weight: {texts}"


def _round_cause_text(cause: RoundCause) -> str:
    return _OF_ROUNDS[cause.code].format(
        policy=cause.policy,
        runs=counted(cause.runs, "run"),
        gpus=counted(cause.gpus, "GPU"),
        limit=cause.limit,
        note=cause.note,
    )
