"""How every operation is answered: check permission, call the handler, carry out its order."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from msgspec import Struct

from quorate.operations.answer_types import Answer, Order
from quorate.operations.array_names import with_plain_name
from quorate.operations.caller import Caller
from quorate.operations.caller_standing import check_standing
from quorate.operations.execute import carry_out
from quorate.operations.operation import DRY_RUN, Effect, Operation
from quorate.operations.permission import FORBIDDEN, check_command
from quorate.operations.request_context import AnyContext, CallerContext, RequestContext
from quorate.operations.request_keys import keyed
from quorate.operations.short_notes import check_notes
from quorate.views.exits import CommandError, Exit


def answer(context: AnyContext | CallerContext, operation: Operation, asked: Struct) -> Answer:
    """Return the answer to ``asked``; raises ``CommandError`` if the request is refused.

    Watches are not answered here: see ``following.py``.
    """
    found = ordered_at_end(context, operation, asked)
    if isinstance(found, Order):
        assert isinstance(context, RequestContext), operation
        again = partial(order_again, context, operation, asked)
        return carry_out(context, found, again, dry_run=getattr(asked, DRY_RUN))
    return found


def ordered_at_end(
    context: AnyContext | CallerContext, operation: Operation, asked: Struct
) -> Answer | Order:
    """Return the result of ``ordered``; if it refuses the request, try again at the ledger's end.

    Before the second try, the ledger is read to its end, where the request may be allowed. For
    example, another writer may have submitted the run that the request cancels.
    """
    is_dry_run = getattr(asked, DRY_RUN, False)
    while True:
        try:
            return ordered(context, operation, asked)
        except CommandError:
            if operation.effect is not Effect.WRITE or is_dry_run:
                raise
            assert isinstance(context, RequestContext), operation
            if not context.engine.is_shared or not context.engine.follow():
                raise
            context.notes.clear()


def order_again(context: RequestContext, operation: Operation, asked: Struct) -> Order:
    """Return the order for ``asked`` again, at the engine's head, after another writer's commit.

    Raises ``CommandError`` if the caller may not give the order at this head, or if a version that
    the request names has changed.
    """
    found = ordered(replace(context, notes=[]), operation, asked)
    assert isinstance(found, Order), operation
    return found


def ordered(
    context: AnyContext | CallerContext, operation: Operation, asked: Struct
) -> Answer | Order:
    """Return the answer to ``asked``, or the order that must be carried out for the answer.

    Raises ``CommandError`` if the caller lacks permission, or if its token was revoked after the
    request was accepted. The command of an order has the idempotency key of the request, if there
    is one.
    """
    assert operation.effect is not Effect.STREAM, operation
    check_role(context.caller, operation)
    check_notes(asked)
    asked = with_plain_name(asked, operation)
    found = operation.handle()(context, asked, operation)
    if isinstance(found, Order):
        assert isinstance(context, RequestContext), operation
        check_standing(context.recorded, context.caller, context.engine.now_ms())
        check_command(context.recorded, context.caller, found.command)
        return replace(found, command=keyed(context.caller, operation, asked, found.command))
    assert isinstance(found, Answer), operation
    return found


def check_role(caller: Caller, operation: Operation) -> None:
    """Raise ``CommandError`` unless the caller's role and scopes allow the operation."""
    if caller.role not in operation.roles:
        allowed = ", ".join(sorted(operation.roles))
        article = "an" if caller.role[0] in "aeio" else "a"
        raise CommandError(
            Exit.REFUSED,
            f"{operation.name}: not for {article} {caller.role}; this needs one of the roles: "
            f"{allowed}",
            fault=FORBIDDEN,
        )
    if operation.is_for_any_scope:
        return
    if caller.areas and operation.area not in caller.areas:
        raise CommandError(
            Exit.REFUSED,
            f"{operation.name}: your token is limited to {', '.join(sorted(caller.areas))}; "
            f"this needs a token for {operation.area}",
            fault=FORBIDDEN,
        )
