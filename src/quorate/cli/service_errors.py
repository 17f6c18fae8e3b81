"""Turns errors of a service into the exit codes and messages of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from quorate.client.contexts import NoContextError, Target
from quorate.client.errors import (
    QuorateClientError,
    RefusedError,
    UnauthenticatedError,
    UncertainError,
)
from quorate.client.service_address import BadPlaceError
from quorate.operations.operation import DRY_RUN, Effect, Operation, Repeat
from quorate.views.exits import KEY_OPTION, UNKNOWN_NAME, CommandError, Exit


def command_error(error: QuorateClientError, target: Target | None = None) -> CommandError:
    """Return the error that ends a command because of ``error``.

    A refusal has the same exit code as when the command works on a ledger's file.
    """
    match error:
        case RefusedError():
            from quorate.views.statuses import status_of

            lines = (*error.lines, *_advice(error, target))
            refused = CommandError(status_of(error.code).exit, *lines, fault=error.code)
            if target is not None and error.code == UNKNOWN_NAME:
                refused.add_note(f"searched: {target.asked}")
            return refused
        case NoContextError():
            return CommandError(Exit.REFUSED, str(error))
        case BadPlaceError():
            return CommandError(Exit.USAGE, str(error))
        case UncertainError():
            return uncertain_error(error, error.idempotency_key)
        case _:
            return CommandError(Exit.UNUSABLE, str(error))


def uncertain_error(error: UncertainError, key: str | None) -> CommandError:
    """Return an error that says that a change may be recorded, and how to repeat the command.

    A repetition with ``key`` is safe.
    """
    from quorate.views.statuses import TIMED_OUT

    remedy = _remedy(key, is_repeatable=error.is_repeatable)
    return CommandError(Exit.UNCERTAIN, f"{error.fact}; {remedy}", fault=TIMED_OUT)


def _remedy(key: str | None, *, is_repeatable: bool) -> str:
    """Return how to repeat a command whose change may have been recorded."""
    import shlex

    looks = "what was recorded is shown by: quorate get runs, quorate ledger log"
    if key is not None:
        told = f"{KEY_OPTION} {shlex.quote(key)}"
        return f"repeat the same command with: {told}; it is then carried out once; {looks}"
    if is_repeatable:
        return f"repeat the same command: a repetition changes nothing more; {looks}"
    return f"check what was recorded before you repeat the command; {looks}"


@contextmanager
def interruptible(operation: Operation, asked: Struct, key: str | None) -> Iterator[None]:
    """Run the block, which sends ``asked``; after Ctrl-C, an error says how to repeat the command.

    ``key`` is the idempotency key with which the command can be repeated; None if it has no key.
    """
    try:
        yield
    except KeyboardInterrupt:
        if operation.effect is not Effect.WRITE or getattr(asked, DRY_RUN, False):
            raise
        remedy = _remedy(key, is_repeatable=operation.repeat is Repeat.SAME)
        told = f"interrupted before the answer; the request may have been recorded; {remedy}"
        raise CommandError(Exit.INTERRUPTED, told) from None


def _advice(error: RefusedError, target: Target | None) -> list[str]:
    """Return the remedy for a refused token, which depends on where the token came from.

    The list is empty for other errors.
    """
    if not isinstance(error, UnauthenticatedError) or target is None:
        return []
    if not target.name:
        return ["give your token in QUORATE_TOKEN, or keep it: quorate context set NAME ..."]
    if target.has_given_token:
        sent = f"the token in QUORATE_TOKEN was sent, not that of context {target.name!r}"
        return [f"{sent}; correct it, or: unset QUORATE_TOKEN"]
    verb = "no token was sent; give" if target.place.token is None else "if it has expired, give"
    return [f"{verb} one: quorate context set {target.name} --token-file FILE"]


@contextmanager
def telling_why(target: Target | None = None) -> Iterator[None]:
    """Turn errors of the service and of the contexts into errors that end the command."""
    try:
        yield
    except QuorateClientError as error:
        raise command_error(error, target) from None
