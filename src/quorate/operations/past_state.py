"""The state at a past instant."""

from __future__ import annotations

from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.settle import settle_holds
from quorate.documents.field_reader import At, Fault
from quorate.documents.times import time_ms, time_text
from quorate.ledger.chain import GENESIS, Block, open_block
from quorate.ledger.fold import replay_until
from quorate.operations.request_context import RequestContext
from quorate.views.exits import UNKNOWN_NAME, CommandError, Exit
from quorate.views.runs.instant import Moment


def as_it_was(context: RequestContext, at: str) -> Moment:
    """Return the state at the time ``at`` (RFC 3339), with holds settled.

    A note names the last block up to this time. Only callers that may see everything may ask for a
    past state, which is replayed from the whole ledger. A future time is refused.
    """
    if not context.caller.oversees:
        raise CommandError(
            Exit.REFUSED, "at: only admins and auditors may read the past", fault="forbidden"
        )
    faults: list[Fault] = []
    at_ms = time_ms(at, At(("at",), faults))
    if at_ms is None:
        raise CommandError(
            Exit.USAGE, *(f"at: {fault.message}; {fault.remedy}" for fault in faults)
        )
    state, head = replay_until(context.store.blocks(), at_ms=at_ms)
    if at_ms > max(context.now_ms, state.at_ms):
        raise CommandError(
            Exit.REFUSED,
            f"at: {time_text(at_ms)} lies in the future: it is {time_text(context.now_ms)} now, "
            "and "
            f"the ledger ends at {time_text(state.at_ms)}; replay a time that has passed",
            fault=UNKNOWN_NAME,
        )
    if state.seq == 0:
        first = next(iter(context.store.blocks()), None)
        began = "" if first is None else _began(first)
        raise CommandError(
            Exit.REFUSED,
            f"the ledger had not begun at {time_text(at_ms)}{began}",
            fault=UNKNOWN_NAME,
        )
    log = DecisionLog(state, now_ms=at_ms, actor="reader")
    settle_holds(log)
    context.notes.append(
        f"as of {time_text(at_ms)}: sequence {state.seq}, block {head.height}, "
        f"hash {head.hash.hex()}"
    )
    return Moment(log.view, at_ms, state.seq, has_executor=context.has_executor)


def _began(first: Block) -> str:
    (opened, *_) = open_block(first, after=GENESIS)
    return f"; it begins at {time_text(opened.at_ms)}"
