"""Group commit: submits that wait at the same time share one block and one write to disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec import Struct

from quorate.core.commands import Apply, Command, Submit
from quorate.core.decision_log import DecisionCutError, GoOn, always
from quorate.loop.commit_types import Asked, Made, Receipt
from quorate.loop.engine import Engine
from quorate.model.specs import Run
from quorate.operations.answer_types import Answer, Order
from quorate.operations.answering import order_again, ordered_at_end
from quorate.operations.batch_bounds import too_long
from quorate.operations.caller import Caller
from quorate.operations.execute import recorded_answer
from quorate.operations.operation import DRY_RUN, Operation
from quorate.operations.request_context import RequestContext
from quorate.operations.request_keys import plain
from quorate.operations.visible_events import Sight
from quorate.ports.errors import BlockTooLargeError, QuorateError

GROUP_MAX: Final = 512
"""The most runs in one block. The last request of a block may exceed this number."""
_GROUPED: Final = frozenset({"submit-run", "submit-runs"})


@dataclass(frozen=True, slots=True)
class Asking:
    """A waiting request: the caller's context, the operation, and the request itself."""

    context: RequestContext
    operation: Operation
    asked: Struct


def may_wait_for_others(operation: Operation, asked: Struct) -> bool:
    """Return whether the request may share its block with others.

    Only submits may share a block. Whether a submit is permitted depends on owners and callers
    alone. No submit changes these, so the permission can be checked before earlier submits are
    decided.
    """
    return operation.name in _GROUPED and not getattr(asked, DRY_RUN)


def answer_together(
    engine: Engine, askings: Sequence[Asking], go_on: GoOn = always
) -> list[Answer | Exception]:
    """Return the answer or the refusal of each of ``askings``, in order.

    When the answers are returned, all recorded changes are durable. When ``go_on`` returns False,
    the remaining requests get no answer and have no effect. The first request is always answered.
    An error of one request is returned for this request, and does not affect the others. Raises a
    ``StoreError`` if the block cannot be committed; no request has had an effect then.
    """
    assert len(askings) <= GROUP_MAX, len(askings)
    # Before an order is refused, the ledger is read to its end, and so the head may move.
    orders = [(_order(asking), engine.head) for asking in askings]
    wanted = [
        Asked(
            order.command,
            asking.context.caller.actor,
            asking.context.go_on,
            Made(head, partial(_command, asking)),
        )
        for asking, (order, head) in zip(askings, orders, strict=True)
        if isinstance(order, Order)
    ]
    receipts = iter(carried_out(engine, wanted, go_on))
    found: list[Answer | Exception] = []
    for asking, (order, _) in zip(askings, orders, strict=True):
        if not isinstance(order, Order):
            found.append(order)
            continue
        receipt = next(receipts, None)
        if receipt is None:
            break
        if isinstance(receipt, DecisionCutError):
            found.append(too_long(plain(order.command), receipt.started))
        else:
            found.append(_answer(engine, receipt, order, asking.context.caller))
    return found


def _order(asking: Asking) -> Order | Exception:
    try:
        found = ordered_at_end(asking.context, asking.operation, asking.asked)
        assert isinstance(found, Order), asking
        command = plain(found.command)
        assert isinstance(command, Submit) or (
            isinstance(command, Apply) and all(isinstance(spec, Run) for spec in command.specs)
        ), command
    except Exception as error:  # noqa: BLE001 - the error answers one of many requests
        return error
    return found


def _command(asking: Asking) -> Command:
    """Return the command of ``asking``, made again at the engine's head after others' commits."""
    return order_again(asking.context, asking.operation, asking.asked).command


def carried_out(engine: Engine, wanted: Sequence[Asked], go_on: GoOn) -> list[Receipt | Exception]:
    """Return, for each of ``wanted``, the receipt, or the error because of which there is none.

    If there was no time (``go_on``) or no space in the block for the last commands, these have no
    result.

    If one command is too large, or hits a bug, the whole block fails before it is committed. Then
    each command is tried again in a separate block.
    """
    before = engine.head
    try:
        return [*engine.execute_group(wanted, go_on)]
    except Exception as error:
        is_of_all = isinstance(error, QuorateError) and not isinstance(error, BlockTooLargeError)
        if is_of_all or engine.head != before:
            raise
        if len(wanted) == 1:
            return [error]
    found = carried_out(engine, wanted[:1], go_on)
    for one in wanted[1:]:
        if not go_on():
            break
        found += carried_out(engine, [one], go_on)
    return found


def _answer(
    engine: Engine, receipt: Receipt | Exception, order: Order, caller: Caller
) -> Answer | Exception:
    if isinstance(receipt, Exception):
        return receipt
    if receipt.denied is not None:
        return receipt.denied
    kept, sight = receipt.decision.repeats, Sight(engine.view, caller)
    try:
        if kept is not None:
            return recorded_answer(engine.answer_kept(kept), sight, is_repeated=True)
        return recorded_answer(receipt, sight, notes=order.notes)
    except Exception as error:  # noqa: BLE001 - the error answers one of many requests
        return error
