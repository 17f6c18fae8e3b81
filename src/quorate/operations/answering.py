"""How any operation is answered: permission first, then its handler, then what it ordered."""

from __future__ import annotations

from dataclasses import replace

from msgspec import Struct

from quorate.answers.exits import CommandError, Exit
from quorate.operations.answer import Answer, Order
from quorate.operations.caller import Caller
from quorate.operations.carrying import carry_out
from quorate.operations.desk import AnyDesk, CallerDesk, Desk
from quorate.operations.keys import keyed
from quorate.operations.operation import DRY_RUN, Effect, Operation
from quorate.operations.permission import FORBIDDEN, check_command


def answer(desk: AnyDesk | CallerDesk, operation: Operation, asked: Struct) -> Answer:
    """Return the answer to what was ``asked``; raises ``CommandError`` when it is refused.

    What is watched is not answered but followed: ``following.py``.
    """
    found = ordered(desk, operation, asked)
    if isinstance(found, Order):
        assert isinstance(desk, Desk), operation
        return carry_out(desk, found, dry_run=getattr(asked, DRY_RUN))
    return found


def ordered(desk: AnyDesk | CallerDesk, operation: Operation, asked: Struct) -> Answer | Order:
    """Return the answer to what was ``asked``, or the order that answers it once carried out.

    Raises ``CommandError`` when the caller may not ask for it. The order has its idempotency key.
    """
    assert operation.effect is not Effect.STREAM, operation
    check_role(desk.caller, operation)
    found = operation.handle()(desk, asked, operation)
    if isinstance(found, Order):
        assert isinstance(desk, Desk), operation
        check_command(desk.recorded, desk.caller, found.command)
        return replace(found, command=keyed(desk.caller, operation, asked, found.command))
    assert isinstance(found, Answer), operation
    return found


def check_role(caller: Caller, operation: Operation) -> None:
    """Raise ``CommandError`` unless the caller's role and scopes allow the operation."""
    if caller.role not in operation.roles:
        allowed = ", ".join(sorted(operation.roles))
        raise CommandError(
            Exit.REFUSED,
            f"{operation.name}: not for a {caller.role}; it takes one of: {allowed}",
            fault=FORBIDDEN,
        )
    if operation.is_for_any_scope:
        return
    if caller.areas and operation.area not in caller.areas:
        raise CommandError(
            Exit.REFUSED,
            f"{operation.name}: your token is limited to {', '.join(sorted(caller.areas))}; "
            f"it takes one for {operation.area}",
            fault=FORBIDDEN,
        )
