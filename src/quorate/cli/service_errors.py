"""Turns errors of a service into the exit codes and messages of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from quorate.client.contexts import NoContextError, Target
from quorate.client.errors import (
    QuorateClientError,
    RefusedError,
    UnauthenticatedError,
    UncertainError,
)
from quorate.client.service_address import BadPlaceError
from quorate.views.exits import KEY_OPTION, UNKNOWN_NAME, CommandError, Exit


def command_error(error: QuorateClientError, target: Target | None = None) -> CommandError:
    """Return ``error`` as the error that ends a command, as for a ledger's file."""
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
    """Return the error of a command that may have been recorded; ``key`` repeats it safely."""
    import shlex

    from quorate.views.statuses import TIMED_OUT

    if key is not None:
        told = shlex.quote(key)
        remedy = f"repeat the same command with: {KEY_OPTION} {told}; it is then carried out once"
    elif error.is_repeatable:
        remedy = "repeat the same command: a repetition changes nothing more"
    else:
        remedy = "look first what was recorded, before you repeat it"
    looks = "what was recorded is shown by: quorate get runs, quorate ledger log"
    return CommandError(Exit.UNCERTAIN, f"{error.fact}; {remedy}; {looks}", fault=TIMED_OUT)


def _advice(error: RefusedError, target: Target | None) -> list[str]:
    """Return the remedy for a token, which depends on where the client has it from."""
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
